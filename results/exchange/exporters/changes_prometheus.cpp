#include <algorithm>

#include "common/system/time.h"
#include "results/changes/changes.h"
#include "results/exchange/exporters/exporters.h"
#include "results/exchange/exporters/prometheus_page.h"

namespace virtrain::results {
namespace {

constexpr const char* gauge = "gauge";

PrometheusLabels labels_of(const Series& series) {
  return {{"scenario", series.scenario},
          {"case", series.case_name},
          {"arm", series.arm},
          {"figure", series.figure_name()},
          {"unit", series.unit}};
}

/// One gauge for each verdict that there is, 1 for the one that holds: a state set.
void add_verdict(PrometheusPage& page, const SeriesState& state) {
  for (const auto verdict : enum_values<SeriesVerdict>()) {
    auto labels = labels_of(*state.series);
    labels.emplace_back("verdict", to_string(verdict));
    page.add("virtrain_series_verdict", gauge,
             "1 for the verdict on the last runs: level, unconfirmed, loss or gain.", labels,
             state.verdict == verdict ? 1 : 0);
  }
}

void add_series(PrometheusPage& page, const SeriesState& state) {
  const auto labels = labels_of(*state.series);
  page.add("virtrain_series_last_night", gauge, "The figure of the last run, in the label's unit.", labels,
           state.series->values.back());
  page.add("virtrain_series_level", gauge, "Median of the runs at the present level, in the label's unit.",
           labels, state.level);
  page.add("virtrain_series_nights", gauge, "Runs of the series.", labels,
           static_cast<double>(state.series->nights.size()));
  const auto add_known = [&](const char* name, const char* help, const std::optional<double>& value) {
    if (value) { page.add(name, gauge, help, labels, *value); }
  };
  add_known("virtrain_series_sigma", "Noise from run to run, a share of the figure.", state.noise.sigma);
  add_known("virtrain_series_least_loss",
            "Smallest loss that is detected by its fifteenth run in four of five times.",
            state.noise.least_loss_15_nights);
  page.add("virtrain_series_open_losses", gauge,
           "Losses that are confirmed and neither recovered nor acknowledged.", labels,
           static_cast<double>(state.open_losses.size()));
  page.add("virtrain_series_large_losses", gauge, "Those of them that are of 10 % or more.", labels,
           static_cast<double>(std::ranges::count_if(state.open_losses,
                                                     [](const Change* loss) { return loss->level.large; })));
  if (const auto at = seconds_of_iso8601(state.series->nights.back()->started_at)) {
    page.add("virtrain_series_last_night_timestamp_seconds", gauge, "Start of the last run.", labels,
             static_cast<double>(*at));
  }
  add_verdict(page, state);
}

/// Changes that somebody may still do something about, and those that were accepted.
void add_changes(PrometheusPage& page, const SeriesState& state) {
  for (const Change* change : state.changes) {
    if (change->state == ChangeState::mended) { continue; }
    auto labels = labels_of(*state.series);
    labels.emplace_back("change", change->id);
    labels.emplace_back("state", to_string(change->state));
    labels.emplace_back("direction", change->regression ? "worse" : "better");
    labels.emplace_back("large", change->level.large ? "yes" : "no");
    labels.emplace_back("first_experiment", change->first_night().experiment);
    if (!change->suspects.empty() && change->suspects.front().fits) {
      labels.emplace_back("suspect", change->suspects.front().fact);
    }
    page.add("virtrain_change_ratio", gauge, "Level since the change divided by the level before.", labels,
             change->level.ratio);
    if (!change->level.ci || !change->level.confirmed_on) { continue; }
    page.add("virtrain_change_low_ratio", gauge, "Lower end of its 95 % interval.", labels,
             change->level.ci->low);
    page.add("virtrain_change_high_ratio", gauge, "Upper end of its 95 % interval.", labels,
             change->level.ci->high);
  }
}

}  // namespace

void export_changes_prometheus(const ChangeLog& log, std::ostream& out) {
  PrometheusPage page;
  for (const auto& state : series_states(log)) {
    add_series(page, state);
    add_changes(page, state);
  }
  page.write(out);
}

}  // namespace virtrain::results
