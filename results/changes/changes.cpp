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

namespace {

/// Without the nights of changes that were mended or are not certain, and those before a change that lasts.
std::vector<double> nights_at_level(const Series& series, const std::vector<const Change*>& changes,
                                    const ChangeRule& rule) {
  std::vector<bool> counts(series.values.size(), true);
  const auto leave_out = [&](std::size_t begin, std::size_t end) {
    std::fill(counts.begin() + static_cast<std::ptrdiff_t>(begin),
              counts.begin() + static_cast<std::ptrdiff_t>(end), false);
  };
  for (const Change* change : changes) {
    const auto& level = change->level;
    if (level.back_since) {
      leave_out(level.first, *level.back_since);
    } else if (level.confirmed_on) {
      leave_out(0, level.settled);
    } else {
      leave_out(level.first, counts.size());
    }
  }
  std::vector<double> values;
  for (std::size_t i = series.values.size(); i-- > 0 && values.size() < rule.most_history;) {
    if (counts[i]) { values.push_back(series.values[i]); }
  }
  return values;
}

SeriesVerdict verdict_of(const SeriesState& state) {
  if (state.changes.empty()) { return SeriesVerdict::level; }
  if (!state.open_losses.empty()) { return SeriesVerdict::loss; }  // whatever the newest night says
  const auto last = state.changes.back()->state;
  if (last == ChangeState::unconfirmed) { return SeriesVerdict::unconfirmed; }
  return last == ChangeState::open ? SeriesVerdict::gain : SeriesVerdict::level;
}

}  // namespace

std::vector<SeriesState> series_states(const ChangeLog& log, const ChangeRule& rule) {
  std::map<const Series*, std::vector<const Change*>> changes;
  for (const auto& change : log.changes) { changes[change.series].push_back(&change); }
  std::vector<SeriesState> states;
  for (std::size_t i = 0; i < log.series.size(); ++i) {
    const auto& series = log.series[i];
    if (!series.current || series.values.empty()) { continue; }
    SeriesState state;
    state.series = &series;
    if (i < log.noise.size()) { state.noise = log.noise[i]; }
    state.changes = changes[&series];
    std::ranges::sort(state.changes,
                      [](const Change* a, const Change* b) { return a->level.first < b->level.first; });
    std::copy_if(state.changes.begin(), state.changes.end(), std::back_inserter(state.open_losses),
                 [](const Change* change) { return is_alarm(*change); });
    state.verdict = verdict_of(state);
    const auto values = nights_at_level(series, state.changes, rule);
    state.level = values.empty() ? series.values.back() : quantile(values, 0.5);
    states.push_back(std::move(state));
  }
  return states;
}

}  // namespace virtrain::results
