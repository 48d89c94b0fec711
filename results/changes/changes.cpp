#include "results/changes/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/text/sha256.h"

namespace virtrain::results {
namespace {

std::string id_of(const Series& series, std::size_t first) {
  constexpr std::size_t digits = 8;
  return sha256(series.key() + "\n" + series.version + "\n" + series.nights[first]->experiment)
      .substr(0, digits);
}

ChangeState state_of(const LevelChange& level, const Series& series, bool acknowledged) {
  if (acknowledged) { return ChangeState::acknowledged; }
  if (level.mended_on) { return ChangeState::mended; }
  if (!series.current) { return ChangeState::superseded; }
  return level.confirmed_on ? ChangeState::open : ChangeState::unconfirmed;
}

/// When somebody accepted a change: how many nights of the series were known. Nights are counted from its
/// first on, so that a clock that jumps earlier or later makes no difference.
Accepted acceptance(const Series& series, std::size_t first, const Acknowledgement& one) {
  std::size_t nights = first + 1;
  while (nights < series.nights.size() && series.nights[nights]->started_at <= one.acknowledged_at) {
    ++nights;
  }
  return {nights};
}

}  // namespace

std::vector<Change> find_changes(std::span<const Series> series,
                                 std::span<const Acknowledgement> acknowledgements, const ChangeRule& rule) {
  std::map<std::string, Acknowledgement> reasons;
  for (const auto& one : acknowledgements) { reasons[one.change] = one; }
  std::vector<Change> changes;
  for (const auto& one : series) {
    const auto accepted = [&](std::size_t first) -> std::optional<Accepted> {
      const auto reason = reasons.find(id_of(one, first));
      if (reason == reasons.end()) { return std::nullopt; }
      return acceptance(one, first, reason->second);
    };
    for (const auto& level : level_changes(one.values, rule, accepted)) {
      const auto id = id_of(one, level.first);
      const auto reason = reasons.find(id);
      Change change;
      change.id = id;
      change.state = state_of(level, one, reason != reasons.end());
      change.series = &one;
      change.level = level;
      change.regression = (level.ratio < 1) == one.higher_is_better();
      if (reason != reasons.end()) { change.why = reason->second.why; }
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

std::string change_percent(double ratio) {
  return fmt::format("{:+.1f} %", (ratio - 1) * 100);
}

std::string day_words(const Night& night) {
  constexpr std::size_t date_bytes = 10;
  return night.started_at.empty() ? night.experiment : night.started_at.substr(0, date_bytes);
}

std::string change_sentence(const Change& change) {
  const auto& level = change.level;
  const auto interval =
      level.ci && level.confirmed_on
          ? fmt::format(" ({} to {})", change_percent(level.ci->low), change_percent(level.ci->high))
          : "";
  return fmt::format("{}{}, {}, since {}, {}", change_percent(level.ratio), interval,
                     change.regression ? "worse" : "better", day_words(change.first_night()),
                     to_string(change.state));
}

}  // namespace virtrain::results
