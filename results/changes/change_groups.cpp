#include "results/changes/change_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

/// Whether the night is among the first nights that fit the change as well as its own.
bool may_begin_on(const Change& change, const Night& night) {
  return change.night(change.level.earliest).number <= night.number &&
         night.number <= change.night(change.level.latest).number;
}

bool belong_together(const Change& one, const Change& other) {
  return one.state == other.state && one.regression == other.regression && one.why == other.why &&
         one.series->scenario == other.series->scenario &&
         (one.first_night().number == other.first_night().number || may_begin_on(one, other.first_night()) ||
          may_begin_on(other, one.first_night()));
}

double size_of(const Change& change) {
  return std::abs(std::log(change.level.ratio));
}

/// Losses that somebody should look at come first, and what is over last.
int urgency(const Change& change) {
  if (is_alarm(change)) { return 0; }
  if (change.state == ChangeState::unconfirmed) { return 1; }
  return change.state == ChangeState::open ? 2 : 3;
}

}  // namespace

const Night& ChangeGroup::first_night() const {
  std::map<std::int64_t, std::size_t> begun;
  for (const auto* change : changes) { ++begun[change->first_night().number]; }
  const auto most =
      std::ranges::max_element(begun, {}, [](const auto& night) { return night.second; })->first;
  return (*std::ranges::find_if(changes,
                                [&](const Change* one) { return one->first_night().number == most; }))
      ->first_night();
}

std::vector<const Suspect*> ChangeGroup::suspects() const {
  std::vector<const Suspect*> shared;
  for (const auto& suspect : largest().suspects) {
    const auto has_it = [&](const Change* change) {
      return change->suspects.empty() || std::ranges::any_of(change->suspects, [&](const Suspect& one) {
               return one.fits && one.fact == suspect.fact && one.after == suspect.after;
             });
    };
    if (suspect.fits && std::ranges::all_of(changes, has_it)) { shared.push_back(&suspect); }
  }
  return shared;
}

std::vector<ChangeGroup> change_groups(const std::vector<Change>& changes) {
  std::vector<const Change*> largest_first;
  for (const auto& change : changes) { largest_first.push_back(&change); }
  std::ranges::stable_sort(largest_first, [](const Change* a, const Change* b) {
    return std::tuple(urgency(*a), -size_of(*a)) < std::tuple(urgency(*b), -size_of(*b));
  });
  std::vector<ChangeGroup> groups;
  for (const auto* change : largest_first) {
    const auto known = std::ranges::find_if(
        groups, [&](const ChangeGroup& group) { return belong_together(group.largest(), *change); });
    (known == groups.end() ? groups.emplace_back() : *known).changes.push_back(change);
  }
  return groups;
}

std::string group_sentence(const ChangeGroup& group) {
  const auto [low, high] =
      std::ranges::minmax(group.changes, {}, [](const Change* change) { return change->level.ratio; });
  const auto least = change_percent(low->level.ratio), most = change_percent(high->level.ratio);
  const auto unit = least.find(' ');  // said once
  return fmt::format("{} since {} in {}",
                     least == most ? least : fmt::format("{} to {}", least.substr(0, unit), most),
                     day_words(group.first_night()), counted(group.changes.size(), "series", "series"));
}

std::string losses_headline(const std::vector<ChangeGroup>& groups) {
  std::vector<const ChangeGroup*> losses;
  for (const auto& group : groups) {
    if (is_alarm(group.largest())) { losses.push_back(&group); }
  }
  if (losses.empty()) { return ""; }
  const auto& largest = **std::ranges::max_element(
      losses, {}, [](const ChangeGroup* group) { return size_of(group->largest()); });
  auto words = group_sentence(largest);
  constexpr std::size_t most_suspects = 3;
  std::vector<std::string> facts;
  for (const auto* suspect : largest.suspects()) {
    if (facts.size() < most_suspects) { facts.push_back(suspect->fact); }
  }
  if (!facts.empty()) { words += (facts.size() == 1 ? "; suspect: " : "; suspects: ") + join(facts, ", "); }
  if (losses.size() == 1) { return words; }
  return fmt::format("{}. {} open", words, counted(losses.size() - 1, "more loss is", "more losses are"));
}

}  // namespace virtrain::results
