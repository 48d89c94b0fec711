#include "harness/experiment/pair_looks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/system/time.h"
#include "results/comparison/verdict.h"
#include "results/reading/reading.h"

namespace virtrain::harness {
namespace {

/// How many comparisons of its kind there are, of which any may be worse: of VMs with bare metal, or of arms
/// with those they are like.
std::size_t family_size(const results::CaseComparison& comparison, const Scenario& scenario) {
  if (results::is_of_virtualization(comparison)) { return scenario.cases.size(); }
  const bool of_virtualization = has_arm(scenario, arm_vm) && has_arm(scenario, arm_bare_metal);
  const std::size_t others = of_virtualization ? 2 : 1;
  return scenario.cases.size() *
         std::max<std::size_t>(1, scenario.arms.size() - std::min(others, scenario.arms.size()));
}

/// All comparisons of a case must have ended; the reason is that of the last to end.
std::string ended(const std::vector<results::CaseComparison>& comparisons,
                  const results::SequentialTest& sequential, const Scenario& scenario) {
  std::string words;
  for (const auto& comparison : comparisons) {
    // Both arms have had trials that count, but of no pair both.
    if (!comparison.test && comparison.reason == "too_few_pairs") { return ""; }
    // Also where one of the arms has failed, or been invalid, each time so far.
    if (!comparison.test || !comparison.n || comparison.verdict == results::Verdict::not_comparable) {
      words = fmt::format("no verdict can be given: {}", results::verdict_remark(comparison));
      continue;
    }
    switch (sequential.look(*comparison.test, *comparison.n, family_size(comparison, scenario))) {
      case results::Stop::go_on:
        return "";
      case results::Stop::verdict:
        words = fmt::format("{} pairs are enough for a verdict", *comparison.n);
        break;
      case results::Stop::futility:
        words = fmt::format("after {} pairs no verdict is in sight", *comparison.n);
        break;
      case results::Stop::at_most:
        words = "all pairs were run";
        break;
    }
  }
  return words;
}

}  // namespace

PairLooks::PairLooks(const Scenario& scenario, const results::Store& store, std::string experiment,
                     std::function<std::int64_t()> clock)
    : scenario_(scenario),
      store_(store),
      experiment_(std::move(experiment)),
      clock_(std::move(clock)),
      began_ns_(clock_()),
      settings_(scenario.vm_vs_bare_metal.value_or(results::Settings())) {
  if (scenario.until && scenario.until->verdict) { sequential_.emplace(scenario.until->looks, settings_); }
}

std::string PairLooks::look(const std::string& case_name, std::int64_t pairs) const {
  const auto& until = *scenario_.until;
  if (until.budget_ns && clock_() - began_ns_ > *until.budget_ns) {
    return fmt::format("the budget of {:.3g} h is spent", static_cast<double>(*until.budget_ns) / 3.6e12);
  }
  if (!sequential_ || pairs < until.looks.first) { return ""; }
  results::CompareRequest request;
  request.selection.experiments = {experiment_};
  request.case_name = case_name;
  request.settings = settings_;
  request.by_test = scenario_.by_test;
  try {
    return ended(results::compare(store_, request), *sequential_, scenario_);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) { throw; }  // no trial has finished yet
    return "";
  }
}

const std::string& PairLooks::reason_against(const std::string& case_name, std::int64_t pair) {
  auto& seen = seen_[case_name];
  if (scenario_.until && seen.reason.empty() && pair > seen.pair) {
    seen.reason = look(case_name, pair - 1);
    seen.pair = pair;
  }
  return seen.reason;
}

}  // namespace virtrain::harness
