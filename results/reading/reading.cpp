#include "results/reading/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "results/comparison/case_rows.h"
#include "results/comparison/guard/comparability.h"
#include "results/comparison/selector.h"
#include "results/comparison/sweep.h"

namespace virtrain::results {

std::vector<std::string> experiments_of(const Store& store, const CompareRequest& request) {
  const auto baseline = selector_of(request.baseline);
  const auto candidate = selector_of(request.candidate);
  Selection selection = request.selection;
  if (!baseline.beyond_arms() && !candidate.beyond_arms()) { return store.select(selection); }
  selection.all = true;
  const auto selected = store.select(selection);
  const auto all = store.comparison_experiments(selected);
  std::vector<std::string> chosen;
  std::map<const Selector*, bool> found;
  const bool by_date = !baseline.dates.empty() || !candidate.dates.empty();
  for (const auto& experiment : all) {
    const auto starts = by_date ? store.comparison_starts(experiment.id) : std::set<std::string>();
    bool meant = false;
    for (const auto* side : {&baseline, &candidate}) {
      if (!selects(*side, experiment, starts)) { continue; }
      found[side] = meant = true;
    }
    if (meant) { chosen.push_back(experiment.id); }
  }
  for (const auto* side : {&baseline, &candidate}) {
    if (found[side]) { continue; }
    throw Error(
        "compare", ErrorCode::not_found,
        fmt::format("no experiment with trials is {} (virtrain list shows what there is)", side->text));
  }
  return chosen;
}

std::vector<CaseComparison> compare(const Store& store, const CompareRequest& request) {
  const auto experiments = experiments_of(store, request);
  auto data = store.comparison_data(experiments, fields_with_rules());
  const bool needs_power =
      std::ranges::any_of(data.rows, [](const auto& row) { return sweeps_power(row.case_key); });
  if (request.explain || needs_power) { data.numbers = store.comparison_numbers(experiments); }
  if (request.explain || !request.predict.empty()) { data.probes = store.comparison_probes(experiments); }
  auto result = compare(data, request);
  if (result.empty()) {
    throw Error(
        "compare", ErrorCode::not_found,
        request.case_name.empty()
            ? fmt::format("no trial is {} or {}", request.baseline, request.candidate)
            : fmt::format("experiment {} has no case {}", fmt::join(experiments, ", "), request.case_name));
  }
  return result;
}

IsolationStudy isolation_study(const Store& store, const std::vector<std::string>& experiments,
                               std::optional<double> margin, double alpha) {
  auto data = store.comparison_data(experiments, fields_with_rules());
  data.neighbours = store.comparison_neighbours(experiments);
  data.neighbour_rates = store.comparison_neighbour_rates(experiments);
  data.later_steps = store.comparison_later_steps(experiments);
  return isolation_study(data, margin, alpha);
}

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

namespace {

constexpr std::size_t most_nights_of_facts = 20;

/// Facts of nights, each read once however many series ask.
class FactsOfNights {
 public:
  explicit FactsOfNights(const Store& store) : store_(store) {}

  /// Those of the nights [begin, end) of a series.
  std::vector<NightFacts> between(const Series& series, std::size_t begin, std::size_t end) {
    std::vector<NightFacts> facts;
    for (std::size_t i = begin; i < end; ++i) {
      const Night& night = *series.nights[i];
      const auto [known, is_new] = nights_.try_emplace(night.number);
      if (is_new) { known->second = store_.night_facts(night.number); }
      facts.push_back(facts_of(night, known->second, series.case_name));
    }
    return facts;
  }

 private:
  const Store& store_;
  std::map<std::int64_t, std::vector<ArmFact>> nights_;
};

std::vector<Suspect> suspects_of(FactsOfNights& facts, const Change& change) {
  const auto& level = change.level;
  const std::size_t first = level.first;
  const std::size_t begin = first - std::min(first, most_nights_of_facts);
  const std::size_t last = level.back_since.value_or(change.series->nights.size());
  const std::size_t end = std::min(last, first + most_nights_of_facts);
  const auto good = facts.between(*change.series, begin, first);
  const auto bad = facts.between(*change.series, first, end);
  return rank_suspects(good, bad, {first - level.earliest, level.latest - first});
}

SeriesNoise noise_of(const Series& series, std::span<const Change> changes, const ChangeRule& rule) {
  std::vector<LevelChange> levels;
  for (const auto& change : changes) {
    if (change.series == &series) { levels.push_back(change.level); }
  }
  return series_noise(series.values, levels, rule);
}

ChangeLog read_where(const Store& store, const std::function<bool(const Series&)>& counts,
                     const ChangeRule& rule) {
  ChangeLog log;
  log.nights = store.nights();
  log.series = series_of(log.nights, store.night_figures());
  std::erase_if(log.series, [&](const Series& one) { return !counts(one); });
  const auto acknowledgements = store.acknowledgements();
  log.changes = find_changes(log.series, acknowledgements, rule);
  for (const auto& one : log.series) { log.noise.push_back(noise_of(one, log.changes, rule)); }
  FactsOfNights facts(store);
  for (auto& change : log.changes) {
    if (change.level.confirmed_on) { change.suspects = suspects_of(facts, change); }
  }
  return log;
}

}  // namespace

ChangeLog read_changes(const Store& store, const std::string& series_text, const ChangeRule& rule) {
  const auto has_text = [&](const Series& one) { return one.name().find(series_text) != std::string::npos; };
  return read_where(store, has_text, rule);
}

ChangeLog read_changes_of(const Store& store, const std::string& scenario) {
  return read_where(store, [&](const Series& one) { return one.scenario == scenario; }, {});
}

void acknowledge(Store& store, const std::string& change, const std::string& why, const std::string& now) {
  const std::string operation = "acknowledge change " + change;
  constexpr std::size_t most_bytes = 1000;
  if (trim(why).empty() || why.size() > most_bytes || find_invalid_utf8(why) != std::string::npos) {
    throw Error(operation, ErrorCode::usage, "say why, in at most 1000 bytes of UTF-8");
  }
  const auto log = read_changes(store);
  const auto found = std::ranges::find_if(log.changes, [&](const Change& one) { return one.id == change; });
  if (found == log.changes.end()) {
    throw Error(operation, ErrorCode::not_found,
                "the database has no such change; virtrain changes lists them");
  }
  if (!found->level.confirmed_on || found->level.mended_on) {
    throw Error(operation, ErrorCode::usage,
                fmt::format("it is {}, there is nothing to acknowledge", to_string(found->state)));
  }
  store.acknowledge({change, why, now});
}

}  // namespace virtrain::results
