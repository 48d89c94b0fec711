#include "results/changes/suspects.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/text/text.h"
#include "results/comparison/guard/comparability.h"

namespace virtrain::results {
namespace {

// They differ in every night, or follow from what is measured.
constexpr std::array<std::string_view, 6> never_causes = {"boot_id",    "uptime",      "temperature",
                                                          "machine_id", "captured_at", "load_average"};
constexpr double least_fit = 0.5;
constexpr double least_fit_of_a_cause = 0.8;  // some nights before or after may lack the fact
constexpr std::size_t most_suspects = 5;

/// How likely a fact of this kind is to change what is measured, where all else is the same.
double weight_of(std::string_view fact) {
  if (fact == "virtrain") { return 0.9; }
  if (fact == "virtualization") { return 1; }
  const auto rules = field_rules();
  const auto rule =
      std::ranges::find_if(rules, [&](const auto& one) { return one.field == without_host(fact); });
  if (rule == rules.end()) { return 0.6; }
  return rule->rule == FactRule::informative ? 0.5 : 1;
}

const std::set<std::string>& values_of(const NightFacts& night, const std::string& fact) {
  static const std::set<std::string> none;
  const auto found = night.find(fact);
  return found == night.end() ? none : found->second;
}

double share_with(std::span<const NightFacts> nights, const std::string& fact,
                  const std::set<std::string>& values) {
  const auto with =
      std::ranges::count_if(nights, [&](const auto& night) { return values_of(night, fact) == values; });
  return static_cast<double>(with) / static_cast<double>(nights.size());
}

/// How often the fact changed while the level stayed.
std::size_t idle_changes(std::span<const NightFacts> nights, const std::string& fact) {
  std::size_t changes = 0;
  for (std::size_t i = 1; i < nights.size(); ++i) {
    const auto& before = values_of(nights[i - 1], fact);
    const auto& after = values_of(nights[i], fact);
    changes += !before.empty() && !after.empty() && before != after ? 1 : 0;
  }
  return changes;
}

/// Values of the fact when it last was something else.
const std::set<std::string>& last_other(std::span<const NightFacts> nights, const std::string& fact,
                                        const std::set<std::string>& values) {
  const auto other = std::find_if(nights.rbegin(), nights.rend(), [&](const auto& night) {
    const auto& there = values_of(night, fact);
    return !there.empty() && there != values;
  });
  return other == nights.rend() ? values : values_of(*other, fact);
}

/// How many of the last good nights had the value already, and of the first bad ones had not.
ChangeWindow distance_of(std::span<const NightFacts> good, std::span<const NightFacts> bad,
                         const std::string& fact, const std::set<std::string>& values) {
  const auto has = [&](const NightFacts& night) { return values_of(night, fact) == values; };
  const auto before = std::find_if_not(good.rbegin(), good.rend(), has);
  const auto since = std::ranges::find_if(bad, has);
  return {static_cast<std::size_t>(before - good.rbegin()), static_cast<std::size_t>(since - bad.begin())};
}

/// Whether the values came where the level may have changed, and then stayed.
bool fits_within(std::span<const NightFacts> good, std::span<const NightFacts> bad, const std::string& fact,
                 const std::set<std::string>& values, const ChangeWindow& window) {
  const auto distance = distance_of(good, bad, fact, values);
  if (distance.earlier > window.earlier || distance.later > window.later) { return false; }
  if (distance.earlier == good.size() || distance.later == bad.size()) { return false; }
  return share_with(bad.subspan(distance.later), fact, values) -
             share_with(good.first(good.size() - distance.earlier), fact, values) >=
         least_fit_of_a_cause;
}

std::string words(const std::set<std::string>& values) {
  return join({values.begin(), values.end()}, ", ");
}

struct Ranked {
  Suspect suspect;
  double score;
};

}  // namespace

std::string_view without_host(std::string_view fact) {
  constexpr std::string_view prefix = "host.";
  return fact.starts_with(prefix) ? fact.substr(prefix.size()) : fact;
}

NightFacts facts_of(const Night& night, std::span<const ArmFact> facts, const std::string& case_name) {
  NightFacts all;
  const auto note = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) { all[key].insert(value); }
  };
  note("label", night.label);
  note("host", night.host_name);
  note("virtrain", night.virtrain_version);
  if (night.daemon_versions.is_object()) {
    for (const auto& [name, version] : night.daemon_versions.items()) {
      if (version.is_string()) { note(name, version.get<std::string>()); }
    }
  }
  for (const auto& fact : facts) {
    const auto is_one = [&](std::string_view never) { return without_host(fact.key) == never; };
    if (std::ranges::any_of(never_causes, is_one)) { continue; }
    if (case_name.empty() || fact.case_name == case_name) { note(fact.key, fact.value); }
  }
  return all;
}

std::vector<Suspect> rank_suspects(std::span<const NightFacts> good, std::span<const NightFacts> bad,
                                   const ChangeWindow& window) {
  if (good.empty() || bad.empty()) { return {}; }
  std::vector<Ranked> ranked;
  std::set<std::string> facts;
  for (const auto& night : bad) {
    for (const auto& [fact, values] : night) { facts.insert(fact); }
  }
  for (const auto& [fact, values] : good.back()) { facts.insert(fact); }
  for (const auto& fact : facts) {
    const auto& before = values_of(good.back(), fact);
    const auto& after = values_of(bad.front(), fact);
    // A fact that was not asked for in some nights says nothing of the others.
    if (before.empty() || after.empty()) { continue; }
    const auto& usual = values_of(bad.back(), fact);
    const bool at_the_change = before != after;
    const auto& value = at_the_change ? after : usual;
    const double fit = share_with(bad, fact, value) - share_with(good, fact, value);
    if (fit < least_fit) { continue; }
    const auto idle = static_cast<double>(idle_changes(good, fact) + idle_changes(bad, fact));
    const double score = fit * weight_of(fact) * (at_the_change ? 1 : 0.5) / (1 + idle);
    const bool earlier = before == value;
    const auto& former = earlier ? last_other(good, fact, value) : before;
    const bool fits = fits_within(good, bad, fact, value, window);
    ranked.push_back({{fact, words(former), words(value), fit, at_the_change, earlier, fits}, score});
  }
  std::ranges::stable_sort(ranked, [](const auto& a, const auto& b) {
    return std::pair(a.suspect.fits, a.score) > std::pair(b.suspect.fits, b.score);
  });
  std::vector<Suspect> suspects;
  for (auto& one : ranked) {
    // The host's value and its guests' are one fact.
    const bool twice = std::ranges::any_of(suspects, [&](const Suspect& other) {
      return without_host(other.fact) == without_host(one.suspect.fact) && other.after == one.suspect.after;
    });
    if (!twice && suspects.size() < most_suspects) { suspects.push_back(std::move(one.suspect)); }
  }
  return suspects;
}

}  // namespace virtrain::results
