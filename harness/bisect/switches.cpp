#include "harness/bisect/switches.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_shown_bytes = 60;

/// A fact that a key of the scenario sets. "250 W" of the facts is "250W" of the scenario.
struct FactKey {
  std::string_view fact, key, unit;
};
constexpr FactKey fact_keys[] = {
    {"power_limit", "devices.settings.power_limit", "W"},
    {"clocks", "devices.settings.graphics_clock", "MHz"},
    {"ecc", "devices.settings.ecc", ""},
    {"mig", "devices.settings.mig", ""},
    {"vgpu_scheduler", "devices.vgpu_scheduler", ""},
    {"threads_per_rank", "workload.threads", ""},
};

/// How somebody tries a fact that no key sets.
struct ByHand {
  std::string_view fact, words;
};
constexpr ByHand by_hand[] = {
    {"label", "say which key it stands for: --switch KEY OLD NEW"},
    {"host", "run the scenario on both hosts and compare them: compare --baseline host:…"},
    {"virtrain", "run the scenario with both versions, each with a --label, and compare the labels"},
};
constexpr std::string_view put_it_back =
    "put the old one back, run the scenario with a --label, and compare with that of now";

/// The value as a scenario writes it; nothing for a list of several, or a word where a number must be.
std::optional<std::string> scenario_value(const std::string& value, std::string_view unit) {
  if (value.find(',') != std::string::npos) { return std::nullopt; }
  if (unit.empty()) { return lower(value); }  // drivers write EQUAL_SHARE, and Enabled
  const auto suffix = " " + std::string(unit);
  if (!value.ends_with(suffix)) { return std::nullopt; }
  auto number = value.substr(0, value.size() - suffix.size());
  if (!parse_number(number)) { return std::nullopt; }
  return number.append(unit);
}

std::string value_words(const std::optional<std::string>& value) {
  return value ? excerpt(*value, most_shown_bytes) : not_set;
}

}  // namespace

std::string Suspected::words() const {
  return fmt::format("{}: {} → {}", excerpt(setting ? setting->key : name),
                     setting ? value_words(setting->before) : excerpt(before, most_shown_bytes),
                     setting ? value_words(setting->after) : excerpt(after, most_shown_bytes));
}

Suspected suspected_fact(const results::Suspect& suspect) {
  Suspected result{suspect.fact, suspect.before, suspect.after, {}, {}};
  for (const auto& [fact, key, unit] : fact_keys) {
    if (fact != results::without_host(suspect.fact)) { continue; }
    const auto before = scenario_value(suspect.before, unit);
    const auto after = scenario_value(suspect.after, unit);
    if (before && after) { result.setting = Setting{std::string(key), before, after}; }
  }
  if (result.setting) { return result; }
  const auto* const row = std::ranges::find_if(
      by_hand, [&](const ByHand& one) { return one.fact == results::without_host(suspect.fact); });
  result.why_not = row == std::end(by_hand) ? put_it_back : row->words;
  return result;
}

Suspected suspected_setting(const Setting& setting) {
  Suspected result{setting.key, setting.before.value_or(not_set), setting.after.value_or(not_set), {}, {}};
  const auto why = why_arms_cannot_differ(setting.key);
  if (why.empty()) {
    result.setting = setting;
  } else {
    result.why_not = why;
  }
  return result;
}

}  // namespace virtrain::harness
