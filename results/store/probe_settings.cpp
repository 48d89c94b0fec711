#include "results/store/probe_settings.h"

#include <array>
#include <utility>

#include "common/text/json.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// Members of a detail that are settings wherever they stand: the reduction and root of a collective, and the
/// place of a test of ReFrame.
constexpr std::array plain_settings = {"operation", "root", "system", "partition", "environ"};
/// Keys by which rows that older versions imported tell figures apart.
constexpr std::array older_settings = {std::pair{"nvbandwidth", "test"}, std::pair{"perfkit", "labels"}};

std::string setting_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

/// Whether it is the value that nearly all collectives have, which some sources leave out.
bool is_usual(const std::string& name, const std::string& text) {
  return text.empty() || (name == "operation" && (text == "sum" || text == "none")) ||
         (name == "root" && text == "-1");
}

}  // namespace

ProbeSettings settings_of(const Probe& probe) {
  ProbeSettings settings;
  const auto add = [&](const std::string& name, const json& value) {
    if (value.is_null()) { return; }
    const auto text = setting_text(value);
    if (!is_usual(name, text)) { settings[name] = text; }
  };
  for (const char* name : plain_settings) { add(name, member(probe.detail, name)); }
  const auto& said = member(probe.detail, "settings");
  if (said.is_object()) {
    for (const auto& [name, value] : said.items()) { add(name, value); }
    return settings;
  }
  const auto source = text_in(probe.detail, "source");
  const auto benchmark = text_in(probe.detail, "benchmark");
  if (const auto colon = benchmark.find(':'); source == "superbench" && colon != std::string::npos) {
    add("run", benchmark.substr(colon + 1));
  }
  for (const auto& [tool, name] : older_settings) {
    // The test's name adds nothing where the figure has that name.
    if (source == tool && text_in(probe.detail, name) != probe.name) {
      add(name, member(probe.detail, name));
    }
  }
  return settings;
}

ProbeSettings settings_of(const TrialFigure& figure) {
  ProbeSettings settings;
  if (!figure.settings.is_object()) { return settings; }
  for (const auto& [name, value] : figure.settings.items()) { settings[name] = setting_text(value); }
  return settings;
}

std::string side_of(const Probe& probe) {
  const auto& in_place = member(probe.detail, "in_place");
  if (!in_place.is_boolean()) { return ""; }
  return in_place.get<bool>() ? "in place" : "out of place";
}

json stored_settings(const Probe& probe) {
  json settings = settings_of(probe);
  if (const auto side = side_of(probe); !side.empty()) { settings["side"] = side; }
  return settings.empty() ? json() : settings;
}

}  // namespace virtrain::results
