#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/comparison/causes/probe_key.h"
#include "results/statistics/statistics.h"

// Micro-benchmarks of two sides, figure by figure. The unit is a run: one of a tool, or a trial.
namespace virtrain::results {

/// One side's probes and what to call it.
struct ProbeSide {
  std::string name = {};
  std::vector<Probe> probes = {};
  bool is_emulated = false;  ///< some of it ran in VMs without hardware virtualization
};

/// One figure on both sides. Rates are bus bandwidths in B/s where both have them, else the values, of times
/// those a second.
struct ProbeComparison {
  ProbeKey key = {};
  std::string baseline = {}, candidate = {};  ///< the sides' names
  std::string unit = {};                      ///< of the two values
  double baseline_value = 0;                  ///< median of the readings
  double candidate_value = 0;
  std::optional<std::int64_t> n_baseline = {};   ///< runs; absent: nobody says which run measured what
  std::optional<std::int64_t> n_candidate = {};  ///< likewise
  std::optional<double> ratio = {};              ///< of rates: candidate / baseline
  std::optional<RatioTest> test = {};            ///< where the runs of both sides are known
  std::optional<double> p_worse_holm = {};       ///< of test->p_worse, corrected for all figures
  Verdict verdict = Verdict::inconclusive;
  std::string reason = {};  ///< too_few_runs, runs_not_known, wrong_data, no_rate, emulated or empty
};

/// Compares one figure's readings.
ProbeComparison compare_readings(const ProbeKey& key, const ProbeReadings& baseline,
                                 const ProbeReadings& candidate, bool is_emulated, const Settings& settings);

struct ProbeStudy {
  std::vector<ProbeComparison> figures = {};  ///< by candidate and figure
  std::int64_t one_sided = 0;                 ///< figures that one side alone has measured
  Settings settings = {};
};

/// Compares the figures that both sides have measured and adds them to the study.
void compare_probes(const ProbeSide& baseline, const ProbeSide& candidate, ProbeStudy& study);
/// Holm's correction over all figures of the study.
void correct_for_all(ProbeStudy& study);

/// Appends probes of a further experiment; their runs are others.
void append_runs(std::vector<Probe>& all, std::vector<Probe> more);

/// "vm is slower than bare_metal in 3 of 16 figures, at most by 43.8 % (all_reduce, 8 GiB)"; for people.
std::string probe_summary(const ProbeStudy& study);

}  // namespace virtrain::results
