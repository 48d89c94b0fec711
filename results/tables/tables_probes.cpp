#include <fmt/format.h>

#include <cmath>

#include "common/error.h"
#include "results/comparison/case_rows.h"
#include "results/statistics/statistics.h"
#include "results/tables/probe_figures.h"
#include "results/tables/tables.h"

namespace virtrain::results {
namespace {

/// Absent for no values.
std::optional<double> median_of(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(quantile(values, 0.5));
}

Cell figure_cell(const std::optional<double>& value, const std::string& unit) {
  return value ? Cell{*value, figure_with_unit(*value, unit)} : Cell{};
}

std::optional<std::int64_t> known(std::int64_t value) {
  return value < 0 ? std::nullopt : std::optional(value);
}

/// Whether a collective is much slower in an arm than on bare metal.
bool has_slow_collective(const std::vector<Probe>& probes) {
  for (const auto& [key, arms] : probe_figures(probes)) {
    const auto base = arms.find("bare_metal");
    if (base == arms.end() || base->second.bus.empty()) { continue; }
    for (const auto& [arm, readings] : arms) {
      if (!readings.bus.empty() &&
          *median_of(readings.bus) < slow_collective_share * *median_of(base->second.bus)) {
        return true;
      }
    }
  }
  return false;
}

/// One figure in one arm.
struct ProbeRow {
  ProbeKey key;
  std::string arm;
  ProbeReadings readings;
  std::optional<double> value;         ///< median
  double bare_metal = 0;               ///< the same there; 0: nobody measured it
  std::optional<RatioTest> test = {};  ///< against bare metal, where both were measured three times or more
};

/// Rates: bus bandwidths of collectives, else the values, of times those a second. None where any is no
/// number above 0.
std::vector<double> rates_of(const ProbeKey& key, const ProbeReadings& readings) {
  auto rates = readings.bus.size() == readings.values.size() ? readings.bus : readings.values;
  for (auto& rate : rates) {
    if (readings.bus.size() != readings.values.size() && key.unit == "s" && rate > 0) { rate = 1 / rate; }
    if (!(rate > 0) || !std::isfinite(rate)) { return {}; }
  }
  return rates;
}

std::optional<RatioTest> test_of(const ProbeKey& key, const ProbeReadings& baseline,
                                 const ProbeReadings& candidate) {
  constexpr std::size_t least = 3;
  const auto ours = rates_of(key, baseline), theirs = rates_of(key, candidate);
  if (ours.size() < least || theirs.size() < least) { return std::nullopt; }
  return compare_unpaired(ours, theirs, {}).test;
}

/// Whether each reading is of a run of its own.
bool are_of_runs(const std::string& arm, const ProbeReadings& readings, const TrialsOfArms& trials) {
  const auto found = trials.find(arm);
  return found != trials.end() && !readings.is_of_nodes && readings.values.size() <= found->second.count;
}

std::vector<ProbeRow> probe_rows(const std::vector<Probe>& probes, const TrialsOfArms& trials) {
  std::vector<ProbeRow> rows;
  for (const auto& [key, arms] : probe_figures(probes)) {
    const auto base = arms.find("bare_metal");
    const double bare_metal = base == arms.end() ? 0 : median_of(base->second.values).value_or(0);
    for (const auto& [arm, readings] : arms) {
      rows.push_back({key, arm, readings, median_of(readings.values), bare_metal});
      if (base == arms.end() || arm == "bare_metal" || !are_of_runs("bare_metal", base->second, trials) ||
          !are_of_runs(arm, readings, trials)) {
        continue;
      }
      rows.back().test = test_of(key, base->second, readings);
      if (rows.back().test && trials.at(arm).emulated) {
        rows.back().test->verdict = Verdict::not_comparable;
      }
    }
  }
  return rows;
}

std::optional<double> of_bare_metal(const ProbeRow& row) {
  const bool is_compared = row.value && row.bare_metal > 0 && row.arm != "bare_metal";
  return is_compared ? std::optional(*row.value / row.bare_metal) : std::nullopt;
}

std::optional<double> low_of(const std::optional<Interval>& interval) {
  return interval ? std::optional(interval->low) : std::nullopt;
}

std::optional<double> high_of(const std::optional<Interval>& interval) {
  return interval ? std::optional(interval->high) : std::nullopt;
}

/// Nothing where the two cannot be compared.
std::optional<Interval> interval_of(const ProbeRow& row) {
  return row.test && row.test->verdict != Verdict::not_comparable ? row.test->ci : std::nullopt;
}

using F = ProbeRow;
constexpr ColumnOf<F> probe_columns[] = {
    {"name", "probe", [](const F& of) { return cell(of.key.name); }},
    {"data_type", "type", [](const F& of) { return cell(of.key.data_type); }, false, true},
    {"side", "side", [](const F& of) { return cell(side_words(of.key)); }, false, true},
    {"size_bytes", "size (B)", [](const F& of) { return cell(known(of.key.size_bytes)); }, true, true},
    {"nodes", "nodes", [](const F& of) { return cell(known(of.key.nodes)); }, true, true},
    {"ranks", "ranks", [](const F& of) { return cell(known(of.key.ranks)); }, true, true},
    {"arm", "arm", [](const F& of) { return cell(of.arm); }},
    {"n", "n", [](const F& of) { return cell(std::ssize(of.readings.values)); }, true},
    {"value", "median", [](const F& of) { return figure_cell(of.value, of.key.unit); }, true},
    {"bus_bytes_per_second", "bus",
     [](const F& of) { return figure_cell(median_of(of.readings.bus), "B/s"); }, true, true},
    {"of_bare_metal", "of bare metal", [](const F& of) { return share_cell(of_bare_metal(of)); }, true, true},
    {"ci_low", "95 % from", [](const F& of) { return share_cell(low_of(interval_of(of))); }, true, true},
    {"ci_high", "to", [](const F& of) { return share_cell(high_of(interval_of(of))); }, true, true},
    {"verdict", "verdict", [](const F& of) { return of.test ? cell(to_string(of.test->verdict)) : Cell{}; },
     false, true},
    {"wrong", "wrong", [](const F& of) { return of.readings.wrong > 0 ? cell(of.readings.wrong) : Cell{}; },
     true, true}};

}  // namespace

Table probes_without_trials(const std::vector<Probe>& probes) {
  auto table = probes_table(probes);
  table.title = "no trials to compare; probes by arm, as virtrain show --probes prints them";
  table.notes.emplace_back(
      "probes get no verdict: that takes pairs of trials (virtrain run, or imported throughputs)");
  if (has_slow_collective(probes)) {
    table.notes.push_back(fmt::format(
        "a collective is slower than on bare metal by more than 10 %: look at {} (docs/gpu-host.md; virtrain "
        "doctor)",
        slow_collective_causes));
  }
  return table;
}

Table probes_table(const std::vector<Probe>& probes, const TrialsOfArms& arms) {
  return table_of(probe_columns, probe_rows(probes, arms));
}

void add_trial(TrialsOfArms& arms, const Trial& trial) {
  if (!is_usable(trial)) { return; }
  auto& arm = arms[trial.arm];
  ++arm.count;
  arm.emulated = arm.emulated || is_emulation(trial.virtualization);
}

Table probes_table(const Store& store, const std::string& id) {
  if (!store.experiment(id)) {
    throw Error("show experiment " + id, ErrorCode::not_found,
                "there is none of this id in " + store.file().string() + " (virtrain list shows them)");
  }
  TrialsOfArms arms;
  for (const auto& trial : store.trials(id)) { add_trial(arms, trial); }
  auto table = probes_table(store.probes(id), arms);
  table.title = "probes of experiment " + id;
  if (table.rows.empty()) { table.notes.push_back("this experiment has no probes"); }
  return table;
}

}  // namespace virtrain::results
