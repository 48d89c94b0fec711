#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/text/units.h"
#include "results/comparison/probe_comparison.h"
#include "results/reading/reading.h"
#include "results/statistics/statistics.h"
#include "results/tables/render.h"
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

/// One figure in one arm.
struct ProbeRow {
  ProbeKey key;
  std::string arm;
  ProbeReadings readings;
  std::optional<double> value;                       ///< median
  double bare_metal = 0;                             ///< the same there; 0: nobody measured it
  std::optional<ProbeComparison> against_bare = {};  ///< where runs of both are known and enough to decide
};

std::vector<ProbeRow> probe_rows(const std::vector<Probe>& probes, const std::set<std::string>& emulated) {
  std::vector<ProbeRow> rows;
  for (const auto& [key, arms] : probe_figures(probes)) {
    const auto base = arms.find("bare_metal");
    const double bare_metal = base == arms.end() ? 0 : median_of(base->second.values).value_or(0);
    for (const auto& [arm, readings] : arms) {
      rows.push_back({key, arm, readings, median_of(readings.values), bare_metal});
      if (base == arms.end() || arm == "bare_metal") { continue; }
      auto compared = compare_readings(key, base->second, readings, emulated.contains(arm), {});
      if (compared.test && compared.test->ci) { rows.back().against_bare = std::move(compared); }
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
std::optional<Interval> interval_of(const std::optional<ProbeComparison>& compared) {
  const bool is_shown = compared && compared->test && compared->verdict != Verdict::not_comparable;
  return is_shown ? compared->test->ci : std::nullopt;
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
    {"ci_low", "95 % from", [](const F& of) { return share_cell(low_of(interval_of(of.against_bare))); },
     true, true},
    {"ci_high", "to", [](const F& of) { return share_cell(high_of(interval_of(of.against_bare))); }, true,
     true},
    {"verdict", "verdict",
     [](const F& of) { return of.against_bare ? cell(to_string(of.against_bare->verdict)) : Cell{}; }, false,
     true},
    {"wrong", "wrong", [](const F& of) { return of.readings.wrong > 0 ? cell(of.readings.wrong) : Cell{}; },
     true, true}};

/// Whether a collective is much slower on the candidate's side.
bool has_slow_collective(const ProbeStudy& study) {
  return std::ranges::any_of(study.figures, [](const ProbeComparison& one) {
    return one.key.ranks > 1 && one.ratio && *one.ratio < slow_collective_share;
  });
}

/// "3", "3 and 5"; nothing where nobody said which run measured what.
Cell runs_cell(const ProbeComparison& of) {
  if (!of.n_baseline || !of.n_candidate) { return {}; }
  if (*of.n_baseline == *of.n_candidate) { return cell(*of.n_baseline); }
  return {nlohmann::json{*of.n_baseline, *of.n_candidate},
          fmt::format("{} and {}", *of.n_baseline, *of.n_candidate)};
}

/// A value of the test, for programs.
Cell test_cell(const ProbeComparison& of, std::optional<double> RatioTest::*value) {
  return of.test ? silent_cell(*of.test.*value) : Cell{};
}

constexpr ColumnOf<ProbeComparison> study_columns[] = {
    {"probe", "probe", [](const ProbeComparison& of) { return cell(of.key.name); }},
    {"data_type", "type", [](const ProbeComparison& of) { return cell(of.key.data_type); }, false, true},
    {"side", "side", [](const ProbeComparison& of) { return cell(side_words(of.key)); }, false, true},
    {"size_bytes", "size (B)", [](const ProbeComparison& of) { return cell(known(of.key.size_bytes)); }, true,
     true},
    {"nodes", "nodes", [](const ProbeComparison& of) { return cell(known(of.key.nodes)); }, true, true},
    {"ranks", "ranks", [](const ProbeComparison& of) { return cell(known(of.key.ranks)); }, true, true},
    {"baseline", "baseline", [](const ProbeComparison& of) { return cell(of.baseline); }},
    {"baseline_value", "median",
     [](const ProbeComparison& of) { return figure_cell(of.baseline_value, of.unit); }, true},
    {"candidate", "candidate", [](const ProbeComparison& of) { return cell(of.candidate); }},
    {"candidate_value", "median",
     [](const ProbeComparison& of) { return figure_cell(of.candidate_value, of.unit); }, true},
    {"unit", "", [](const ProbeComparison& of) { return silent_cell(of.unit); }, false, true},
    {"n", "runs", runs_cell, true, true},
    {"ratio", "ratio", [](const ProbeComparison& of) { return share_cell(of.ratio); }, true},
    {"ci_low", "95 % from", [](const ProbeComparison& of) { return share_cell(low_of(interval_of(of))); },
     true, true},
    {"ci_high", "to", [](const ProbeComparison& of) { return share_cell(high_of(interval_of(of))); }, true,
     true},
    {"verdict", "verdict", [](const ProbeComparison& of) { return cell(spaced(to_string(of.verdict))); }},
    {"reason", "", [](const ProbeComparison& of) { return text_cell(of.reason, false); }, false, true},
    {"tost_p", "", [](const ProbeComparison& of) { return test_cell(of, &RatioTest::tost_p); }, true, true},
    {"p_worse", "", [](const ProbeComparison& of) { return test_cell(of, &RatioTest::p_worse); }, true, true},
    {"p_worse_holm", "", [](const ProbeComparison& of) { return silent_cell(of.p_worse_holm); }, true, true}};

/// Meaning of the words of reasons, with the way out.
constexpr std::pair<const char*, const char*> reasons[] = {
    {"too_few_runs",
     "a verdict takes three runs of each side: run the benchmark again, and import each run's output"},
    {"runs_not_known",
     "nobody says which run measured what, so there are no verdicts: import each run's own output"},
    {"wrong_data",
     "figures with wrong data are not compared: look at the column wrong of virtrain show --probes"},
    {"no_rate", "figures that are 0 have no ratio"},
    {"emulated", "VMs were emulated, which says nothing of virtualization"}};

}  // namespace

Table probe_study_table(const ProbeStudy& study) {
  auto table = table_of(study_columns, study.figures);
  table.title = "Micro-benchmarks; the unit is a run";
  if (const auto words = probe_summary(study); !words.empty()) { table.notes.push_back(words); }
  for (const auto& [reason, words] : reasons) {
    const auto has_it = [reason = reason](const auto& one) { return one.reason == reason; };
    if (std::ranges::any_of(study.figures, has_it)) { table.notes.emplace_back(words); }
  }
  if (study.one_sided > 0) {
    table.notes.push_back(fmt::format("{} measured on one side only: virtrain show --probes prints them",
                                      counted(study.one_sided, "figure was", "figures were")));
  }
  if (has_slow_collective(study)) {
    table.notes.push_back(fmt::format(
        "a collective is slower than its baseline by more than 10 %: look at {} (docs/gpu-host.md; virtrain "
        "doctor)",
        slow_collective_causes));
  }
  return table;
}

Table probes_table(const std::vector<Probe>& probes, const std::set<std::string>& emulated) {
  return table_of(probe_columns, probe_rows(probes, emulated));
}

Table probes_table(const Store& store, const std::string& id) {
  store.known_experiment("show", id);
  auto table = probes_table(store.probes(id), emulated_arms(store.trials(id)));
  table.title = "probes of experiment " + id;
  if (table.rows.empty()) { table.notes.push_back("this experiment has no probes"); }
  return table;
}

}  // namespace virtrain::results
