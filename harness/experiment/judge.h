#pragma once

#include <optional>
#include <vector>

#include "harness/experiment/experiment.h"
#include "harness/scenario/scenario.h"
#include "results/comparison/compare.h"
#include "results/comparison/probe_comparison.h"
#include "results/store/store.h"

namespace virtrain::harness {

inline constexpr int exit_worse = 1;       ///< an expectation failed, or a loss is open
inline constexpr int exit_no_verdict = 5;  ///< the data do not decide

/// Exit status of `run` and of a gated `compare`; of several that apply the one that says most goes first.
int judge(const ExperimentOutcome& outcome, const std::vector<results::CaseComparison>& comparisons,
          bool expectations);
/// The part that expectations decide: exit_worse where a case is, else exit_no_verdict where one has none,
/// else 0. Of several cases one is worse only if it is after Holm's correction; before it only, it has no
/// verdict.
int judge_verdicts(const std::vector<results::CaseComparison>& comparisons);
/// The same of micro-benchmarks, figure by figure.
int judge_probes(const results::ProbeStudy& study);
/// Exit status of leak searches: exit_worse where something leaked, exit_no_verdict where one was
/// inconclusive, else 0.
int judge_security(const std::vector<results::LeakSearch>& searches);

/// An error of what follows the begin of an experiment. Never busy: that would say that nothing was done, and
/// ask for another run.
Error after_begin(const Error& error);

/// Margin and alpha that a scenario asks verdicts of virtualization to be given by; of one with isolation and
/// no expectation, isolation's margin. Nothing where it says neither.
std::optional<results::Settings> expected_settings(const Scenario& scenario);
/// Margin and alpha that the scenario of the newest compared experiment expects; nothing where none says, or
/// where other arms than vm and bare_metal are compared.
std::optional<results::Settings> expected_settings(const results::Store& store,
                                                   const results::CompareRequest& request);

}  // namespace virtrain::harness
