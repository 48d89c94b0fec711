#include "results/changes/changes.h"

#include <algorithm>
#include <map>

#include "common/text/sha256.h"

namespace virtrain::results {
namespace {

std::string id_of(const Series& series, std::size_t first) {
  constexpr std::size_t digits = 8;
  return sha256(series.name() + "\n" + series.version + "\n" + series.nights[first]->experiment)
      .substr(0, digits);
}

ChangeState state_of(const LevelChange& level, const Series& series, bool acknowledged) {
  if (acknowledged) { return ChangeState::acknowledged; }
  if (level.mended_on) { return ChangeState::mended; }
  if (!series.current) { return ChangeState::superseded; }
  return level.confirmed_on ? ChangeState::open : ChangeState::unconfirmed;
}

}  // namespace

std::vector<Change> find_changes(std::span<const Series> series,
                                 std::span<const Acknowledgement> acknowledgements, const ChangeRule& rule) {
  std::map<std::string, std::string> reasons;
  for (const auto& one : acknowledgements) { reasons[one.change] = one.why; }
  std::vector<Change> changes;
  for (const auto& one : series) {
    const auto accepted = [&](std::size_t first) { return reasons.contains(id_of(one, first)); };
    for (const auto& level : level_changes(one.values, rule, accepted)) {
      const auto id = id_of(one, level.first);
      const auto reason = reasons.find(id);
      Change change;
      change.id = id;
      change.state = state_of(level, one, reason != reasons.end());
      change.series = &one;
      change.level = level;
      change.regression = (level.ratio < 1) == one.higher_is_better();
      if (reason != reasons.end()) { change.why = reason->second; }
      changes.push_back(std::move(change));
    }
  }
  // Who takes a level for the new normal takes what has led there.
  for (auto one = changes.begin(); one != changes.end(); ++one) {
    if (one->state != ChangeState::acknowledged) { continue; }
    for (auto earlier = changes.begin(); earlier != one; ++earlier) {
      if (earlier->series != one->series || earlier->state != ChangeState::open) { continue; }
      earlier->state = ChangeState::acknowledged;
      earlier->why = one->why;
    }
  }
  std::ranges::stable_sort(changes, [](const Change& a, const Change& b) {
    return a.first_night().number < b.first_night().number;
  });
  return changes;
}

bool is_alarm(const Change& change) {
  return change.state == ChangeState::open && change.regression;
}

}  // namespace virtrain::results
