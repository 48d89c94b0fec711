#include "results/report/data/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "common/error.h"
#include "results/reading/reading.h"

namespace virtrain::results {
namespace {

TenantRecord read_tenant(const Store& store, const Tenant& tenant) {
  TenantRecord record{.index = tenant.tenant_index, .name = tenant.name, .samples = {}, .nodes = {}};
  for (const auto& rank : store.ranks(tenant.id)) { record.samples.push_back(store.samples(rank.id)); }
  for (const auto& node : store.nodes(tenant.id)) {
    record.nodes.push_back({node.name, store.telemetry(node.id)});
  }
  return record;
}

bool has_samples(const std::vector<TenantRecord>& tenants) {
  return std::ranges::any_of(tenants, [](const TenantRecord& tenant) {
    return std::ranges::any_of(tenant.samples, [](const auto& samples) { return !samples.empty(); });
  });
}

/// The trials nearest to the median first; those without samples are passed over.
void read_record(const Store& store, std::vector<const ReportTrial*> candidates, ReportData& data) {
  std::vector<double> throughputs;
  throughputs.reserve(candidates.size());
  for (const auto* one : candidates) { throughputs.push_back(one->trial.throughput->value); }
  const double median = quantile(throughputs, 0.5);
  std::ranges::stable_sort(candidates, [&](const auto* a, const auto* b) {
    return std::abs(a->trial.throughput->value - median) < std::abs(b->trial.throughput->value - median);
  });
  for (const auto* one : candidates) {
    TrialRecord record{
        .trial = one->trial, .trials = static_cast<std::int64_t>(candidates.size()), .tenants = {}};
    for (const auto& tenant : one->tenants) { record.tenants.push_back(read_tenant(store, tenant)); }
    if (!has_samples(record.tenants)) { continue; }
    data.records.push_back(std::move(record));
    return;
  }
}

/// Cases in the order of their comparisons, arms in the order they were first run.
void read_records(const Store& store, ReportData& data) {
  const auto trials = usable_trials(data.trials);
  for (const auto& comparison : data.comparisons) {
    if (!comparison.first_of_case) { continue; }
    std::vector<std::pair<std::string, std::vector<const ReportTrial*>>> arms;
    const auto of_case = trials.find({comparison.case_name, comparison.throughput_unit});
    if (of_case == trials.end()) { continue; }
    for (const auto* one : of_case->second) {
      if (one->trial.arm_key.is_beside()) { continue; }
      auto known = std::ranges::find_if(arms, [&](const auto& arm) { return arm.first == one->trial.arm; });
      if (known == arms.end()) { known = arms.insert(arms.end(), {one->trial.arm, {}}); }
      known->second.push_back(one);
    }
    for (const auto& [arm, candidates] : arms) {
      if (data.records.size() >= most_records) { return; }
      read_record(store, candidates, data);
    }
  }
}

/// Facts of imported trials that have no rule are shown too, so all of their environment is read.
std::vector<std::string> environment_fields(const std::vector<ReportTrial>& trials) {
  const auto ruled = fields_with_rules();
  std::set<std::string> fields(ruled.begin(), ruled.end());
  for (const auto& one : trials) {
    if (!one.trial.environment.is_object()) { continue; }
    for (const auto& [key, value] : one.trial.environment.items()) { fields.insert(key); }
  }
  return {fields.begin(), fields.end()};
}

}  // namespace

namespace {

/// A page of more would be of hundreds of megabytes, which no browser shows.
void require_size(const Store& store, const std::vector<std::string>& experiments) {
  constexpr std::int64_t most_trials = 20'000;
  const std::set<std::string> chosen(experiments.begin(), experiments.end());
  std::int64_t trials = 0;
  for (const auto& summary : store.list_experiments()) {
    if (chosen.contains(summary.experiment.id)) { trials += summary.trials; }
  }
  if (trials <= most_trials) { return; }
  throw Error(
      "make the report", ErrorCode::bad_input,
      fmt::format("{}: {} trials are chosen (allowed in one report: {}); choose fewer experiments with "
                  "--experiment, --scenario or --label, or export them",
                  store.file().string(), trials, most_trials));
}

}  // namespace

TrialsOfCases usable_trials(const std::vector<ReportTrial>& trials) {
  TrialsOfCases by_case;
  for (const auto& one : trials) {
    if (is_usable(one.trial)) { by_case[{one.trial.case_name, one.trial.throughput->unit}].push_back(&one); }
  }
  return by_case;
}

namespace {

/// The heat maps show what neighbours cost. All else is about arms by themselves: of twenty conditions of
/// four arms no legend is readable.
void leave_out_neighbours(ReportData& data) {
  for (const auto& one : data.trials) {
    const auto& key = one.trial.arm_key;
    if (key.is_beside()) { data.beside.emplace(one.trial.arm, key.like); }
  }
  if (data.request.compare.candidate.empty()) { std::erase_if(data.comparisons, &CaseComparison::is_beside); }
  for (auto& comparison : data.comparisons) {
    std::erase_if(comparison.arms, [&](const ArmSummary& arm) {
      return data.beside.contains(arm.arm) && arm.arm != comparison.baseline &&
             arm.arm != comparison.candidate;
    });
  }
}

/// Reads the changes of scenarios of which so many nights were chosen that their series has a chart.
void read_change_logs(const Store& store, ReportData& data) {
  std::map<std::string, std::size_t> nights;
  for (const auto& experiment : data.experiments) { ++nights[experiment.scenario]; }
  for (const auto& [scenario, count] : nights) {
    if (count < least_nights) { continue; }
    data.changes.push_back(std::make_shared<const ChangeLog>(read_changes_of(store, scenario)));
  }
}

/// Those with trials; where there are none, those with probes.
std::vector<std::string> reported_experiments(const Store& store, const CompareRequest& request) {
  try {
    return experiments_of(store, request);
  } catch (const Error& error) {
    auto ids = probe_experiments_of(store, request);
    if (error.code() != ErrorCode::not_found || ids.empty()) { throw; }
    return ids;
  }
}

/// Comparisons of trials; where there are no trials, of probes.
void read_comparisons(const Store& store, const CompareRequest& request, ReportData& data) {
  try {
    data.comparisons = compare(store, request);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) { throw; }
    const bool has_probes = !probe_experiments_of(store, request).empty();
    if (data.security.empty() && !has_probes) { throw; }
    if (data.security.empty()) { data.probe_study = compare_probes(store, request); }
  }
}

}  // namespace

ReportData read_report_data(const Store& store, const ReportRequest& request) {
  ReportData data;
  data.request = request;
  data.database = store.file().string();
  const auto ids = reported_experiments(store, request.compare);
  require_size(store, ids);
  for (const auto& id : ids) {
    const auto security = store.leak_searches(id);
    data.security.insert(data.security.end(), security.begin(), security.end());
  }
  read_comparisons(store, request.compare, data);
  for (const auto& id : ids) {
    data.experiments.push_back(*store.experiment(id));
    append_runs(data.probes, store.probes(id));
    std::ranges::move(store.trial_figures(id), std::back_inserter(data.figures));
    std::ranges::move(host_readings(store, id), std::back_inserter(data.hosts));
    auto trials = store.trials(id);
    data.emulated.merge(emulated_arms(trials));
    for (auto& trial : trials) {
      auto tenants = store.tenants(trial.id);
      data.trials.push_back({std::move(trial), std::move(tenants)});
    }
  }
  leave_out_neighbours(data);
  if (!data.comparisons.empty()) {  // titles name the arms
    auto& asked = data.request.compare;
    if (asked.baseline.empty()) { asked.baseline = data.comparisons.front().baseline; }
    if (asked.candidate.empty()) { asked.candidate = data.comparisons.front().candidate; }
  }
  read_records(store, data);
  read_change_logs(store, data);
  auto stored = store.comparison_data(ids, environment_fields(data.trials));
  stored.neighbours = store.comparison_neighbours(ids);
  stored.neighbour_rates = store.comparison_neighbour_rates(ids);
  stored.later_steps = store.comparison_later_steps(ids);
  data.isolation = isolation_study(stored, request.isolation_margin, request.compare.settings.alpha);
  for (auto& fact : stored.facts) {
    const auto alone = data.beside.find(fact.arm);
    data.facts[alone == data.beside.end() ? fact.arm : alone->second][fact.key].insert(fact.value);
  }
  return data;
}

}  // namespace virtrain::results
