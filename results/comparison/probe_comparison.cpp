#include "results/comparison/probe_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

bool has_bus(const ProbeReadings& readings) {
  return !readings.bus.empty() && readings.bus.size() == readings.values.size();
}

/// Mean rate of each run, in the order of runs.
std::vector<double> rates_by_run(const std::vector<double>& rates, const std::vector<std::int64_t>& runs) {
  std::map<std::int64_t, std::pair<double, double>> sums;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    auto& [sum, count] = sums[runs[i]];
    sum += rates[i];
    count += 1;
  }
  std::vector<double> means;
  means.reserve(sums.size());
  for (const auto& [run, sum] : sums) { means.push_back(sum.first / sum.second); }
  return means;
}

bool are_rates(const std::vector<double>& rates) {
  return !rates.empty() &&
         std::ranges::all_of(rates, [](double rate) { return rate > 0 && std::isfinite(rate); });
}

}  // namespace

ProbeComparison compare_readings(const ProbeKey& key, const ProbeReadings& baseline,
                                 const ProbeReadings& candidate, bool is_emulated, const Settings& settings) {
  const bool is_bus = has_bus(baseline) && has_bus(candidate);
  const bool is_time = !is_bus && key.unit == "s";
  const auto rates_of = [&](const ProbeReadings& readings) {
    auto rates = is_bus ? readings.bus : readings.values;
    if (is_time) {
      std::ranges::transform(rates, rates.begin(), [](double time) { return 1 / time; });
    }
    return rates;
  };
  ProbeComparison compared;
  compared.key = key;
  compared.unit = is_bus ? "B/s" : key.unit;
  compared.baseline_value = quantile(is_bus ? baseline.bus : baseline.values, 0.5);
  compared.candidate_value = quantile(is_bus ? candidate.bus : candidate.values, 0.5);
  const auto ours = rates_of(baseline), theirs = rates_of(candidate);
  const auto decide = [&](Verdict verdict, const std::string& reason) {
    compared.verdict = verdict;
    compared.reason = reason;
    return compared;
  };
  if (baseline.wrong + candidate.wrong > 0) { return decide(Verdict::not_comparable, "wrong_data"); }
  if (!are_rates(ours) || !are_rates(theirs)) { return decide(Verdict::not_comparable, "no_rate"); }
  compared.ratio = quantile(theirs, 0.5) / quantile(ours, 0.5);
  if (!baseline.knows_runs() || !candidate.knows_runs()) {
    return decide(is_emulated ? Verdict::not_comparable : Verdict::inconclusive,
                  is_emulated ? "emulated" : "runs_not_known");
  }
  const auto our_runs = rates_by_run(ours, baseline.runs), their_runs = rates_by_run(theirs, candidate.runs);
  compared.n_baseline = std::ssize(our_runs);
  compared.n_candidate = std::ssize(their_runs);
  compared.test = compare_unpaired(our_runs, their_runs, settings).test;
  compared.ratio = compared.test->ratio;
  if (is_emulated) { return decide(Verdict::not_comparable, "emulated"); }
  return decide(compared.test->verdict, compared.test->reason);
}

void compare_probes(const ProbeSide& baseline, const ProbeSide& candidate, ProbeStudy& study) {
  std::vector<Probe> both;
  const auto add = [&](const ProbeSide& side, const char* arm) {
    for (const auto& probe : side.probes) {
      both.push_back(probe);
      both.back().arm = arm;
    }
  };
  add(baseline, "baseline");
  add(candidate, "candidate");
  for (const auto& [key, sides] : probe_figures(both)) {
    if (sides.size() < 2) {
      ++study.one_sided;
      continue;
    }
    study.figures.push_back(compare_readings(key, sides.at("baseline"), sides.at("candidate"),
                                             baseline.is_emulated || candidate.is_emulated, study.settings));
    study.figures.back().baseline = baseline.name;
    study.figures.back().candidate = candidate.name;
  }
}

void correct_for_all(ProbeStudy& study) {
  std::vector<double> p_values;
  for (const auto& one : study.figures) {
    if (one.test && one.test->p_worse) { p_values.push_back(*one.test->p_worse); }
  }
  auto corrected = holm(p_values);
  auto next = corrected.begin();
  for (auto& one : study.figures) {
    if (one.test && one.test->p_worse) { one.p_worse_holm = *next++; }
  }
}

void append_runs(std::vector<Probe>& all, std::vector<Probe> more) {
  std::int64_t last = 0;
  for (const auto& probe : all) { last = std::max(last, probe.run.value_or(0)); }
  for (auto& probe : more) {
    if (probe.run) { *probe.run += last; }
    all.push_back(std::move(probe));
  }
}

std::string probe_summary(const ProbeStudy& study) {
  const ProbeComparison* slowest = nullptr;
  std::int64_t slower = 0;
  for (const auto& one : study.figures) {
    if (!one.ratio || one.verdict == Verdict::not_comparable) { continue; }
    slower += *one.ratio < 1 - study.settings.margin ? 1 : 0;
    if (!slowest || *one.ratio < *slowest->ratio) { slowest = &one; }
  }
  if (!slowest || slower == 0) { return ""; }
  const auto& key = slowest->key;
  const auto size = key.size_bytes < 0 ? "" : ", " + format_size(static_cast<std::uint64_t>(key.size_bytes));
  return fmt::format(
      "{} of {} more than {:.3g} % slower; the slowest against its baseline is {}{} with {:.1f} %", slower,
      counted(std::ssize(study.figures), "figure"), study.settings.margin * 100, key.name, size,
      *slowest->ratio * 100);
}

}  // namespace virtrain::results
