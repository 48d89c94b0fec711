#include "results/reading/read_probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "results/comparison/case_rows.h"
#include "results/comparison/selector.h"

namespace virtrain::results {
namespace {

constexpr const char* usual_baseline = "bare_metal";

/// Probes of one experiment, and what tells whether a side means them.
struct MeasuredExperiment {
  ComparisonExperiment experiment;
  std::vector<Probe> probes;
  std::set<std::string> emulated;  ///< arms
};

bool selects(const Selector& selector, const MeasuredExperiment& one, const Probe& probe) {
  const auto& start = probe.measured_at.empty() ? one.experiment.started_at : probe.measured_at;
  const auto starts = start.empty() ? std::set<std::string>() : std::set<std::string>{start};
  return (selector.arm.empty() || probe.arm == selector.arm) && selects(selector, one.experiment, starts);
}

/// Probes that the selector means, in this arm.
ProbeSide side_of(const std::vector<MeasuredExperiment>& measured, const Selector& selector,
                  const std::string& arm, const std::string& probe_name) {
  ProbeSide side{.name = selector.text.empty() || !selector.beyond_arms() ? arm : selector.text};
  if (selector.beyond_arms() && selector.arm.empty()) { side.name += ", " + arm; }
  for (const auto& one : measured) {
    std::vector<Probe> wanted;
    for (const auto& probe : one.probes) {
      const bool is_named = probe_name.empty() || probe.name == probe_name;
      if (is_named && probe.arm == arm && selects(selector, one, probe)) { wanted.push_back(probe); }
    }
    side.is_emulated = side.is_emulated || (!wanted.empty() && one.emulated.contains(arm));
    append_runs(side.probes, std::move(wanted));
  }
  return side;
}

}  // namespace

std::vector<std::string> probe_experiments_of(const Store& store, const CompareRequest& request) {
  auto wanted = request.selection;
  wanted.experiments = store.full_ids(wanted.experiments);
  std::vector<std::string> ids;
  for (const auto& one : store.list_experiments()) {
    const bool is_selected =
        (wanted.experiments.empty() || contains(wanted.experiments, one.experiment.id)) &&
        (wanted.scenario.empty() || wanted.scenario == one.experiment.scenario) &&
        (wanted.label.empty() || wanted.label == one.experiment.label);
    if (is_selected && one.probes > 0) { ids.push_back(one.experiment.id); }
  }
  const bool is_selection = wanted.all || !wanted.experiments.empty() || !wanted.scenario.empty() ||
                            !wanted.label.empty() || selector_of(request.baseline).beyond_arms() ||
                            selector_of(request.candidate).beyond_arms();
  if (!is_selection && ids.size() > 1) { ids.erase(ids.begin(), ids.end() - 1); }
  return ids;
}

ProbeStudy compare_probes(const Store& store, const CompareRequest& request) {
  std::vector<MeasuredExperiment> measured;
  std::set<std::string> arms, names;
  for (auto& experiment : store.comparison_experiments(probe_experiments_of(store, request))) {
    auto& one = measured.emplace_back();
    one.probes = store.probes(experiment.id);
    one.emulated = emulated_arms(store.trials(experiment.id));
    one.experiment = std::move(experiment);
    for (const auto& probe : one.probes) {
      arms.insert(probe.arm);
      names.insert(probe.name);
    }
  }
  const auto baseline = selector_of(request.baseline), candidate = selector_of(request.candidate);
  const bool is_by_arm = !baseline.beyond_arms() && !candidate.beyond_arms();
  const std::string first = baseline.arm.empty() ? usual_baseline : baseline.arm;
  ProbeStudy study{.settings = request.settings};
  for (const auto& arm : arms) {
    if (!candidate.arm.empty() && arm != candidate.arm) { continue; }
    const auto& against = is_by_arm ? first : baseline.arm.empty() ? arm : baseline.arm;
    if (is_by_arm && arm == against) { continue; }
    compare_probes(side_of(measured, baseline, against, request.case_name),
                   side_of(measured, candidate, arm, request.case_name), study);
  }
  if (study.figures.empty()) {
    const auto words = [](const std::set<std::string>& all) {
      return all.empty() ? "none" : excerpt(fmt::format("{}", fmt::join(all, ", ")), 400);
    };
    throw Error(
        "compare probes", ErrorCode::not_found,
        fmt::format("no figure{} was measured on both sides (probes: {}; arms: {}); virtrain show --probes "
                    "prints them, --baseline and --candidate choose the sides",
                    request.case_name.empty() ? "" : " of " + excerpt(request.case_name), words(names),
                    words(arms)));
  }
  correct_for_all(study);
  return study;
}

std::set<std::string> emulated_arms(const std::vector<Trial>& trials) {
  std::set<std::string> arms;
  for (const auto& trial : trials) {
    if (is_usable(trial) && is_emulation(trial.virtualization)) { arms.insert(trial.arm); }
  }
  return arms;
}

}  // namespace virtrain::results
