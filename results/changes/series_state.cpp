#include "results/changes/series_state.h"

#include <algorithm>
#include <map>

namespace virtrain::results {
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
