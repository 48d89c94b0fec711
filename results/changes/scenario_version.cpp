#include "results/changes/scenario_version.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

#include "common/text/sha256.h"

namespace virtrain::results {
namespace {

/// Everything that a YAML text says, without how it is laid out.
class YamlEssence : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override { add("document"); }
  void OnDocumentEnd() override { add("end"); }
  void OnNull(const YAML::Mark&, YAML::anchor_t anchor) override { add("null", anchor); }
  void OnAlias(const YAML::Mark&, YAML::anchor_t anchor) override { add("alias", anchor); }
  void OnScalar(const YAML::Mark&, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    add("scalar", anchor, tag, value);
  }
  void OnSequenceStart(const YAML::Mark&, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    add("list", anchor, tag);
  }
  void OnSequenceEnd() override { add("end"); }
  void OnMapStart(const YAML::Mark&, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    add("map", anchor, tag);
  }
  void OnMapEnd() override { add("end"); }

  const std::string& text() const { return text_; }

 private:
  /// With their sizes, so that no two series of events have one text.
  void add(const char* kind, YAML::anchor_t anchor = 0, const std::string& tag = {},
           const std::string& value = {}) {
    text_ += fmt::format("{} {} {} {}{}{}\n", kind, anchor, tag.size(), tag, value.size(), value);
  }

  std::string text_;
};

/// The text itself where it is not one YAML document. Not all of several: yaml-cpp never gets past a text
/// such as ",".
std::string essence_of(const std::string& scenario_text) {
  try {
    std::istringstream in(scenario_text);
    YAML::Parser parser(in);
    YamlEssence essence;
    const bool is_one = parser.HandleNextDocument(essence) && !parser.HandleNextDocument(essence);
    return is_one ? essence.text() : scenario_text;
  } catch (const YAML::Exception&) { return scenario_text; }
}

}  // namespace

std::string scenario_version(const std::string& scenario_text) {
  constexpr std::size_t digits = 8;
  return sha256(essence_of(scenario_text)).substr(0, digits);
}

}  // namespace virtrain::results
