#include "results/comparison/data_index.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "common/model/workload.h"
#include "common/text/json.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

/// Adds what the store calls facts of a trial's own columns.
void add_row_facts(const ComparisonRow& row, Facts& facts) {
  facts["nodes"].insert(std::to_string(row.nodes));
  facts["gpus_per_node"].insert(std::to_string(row.gpus_per_node));
  if (row.batch_size) { facts["batch_size"].insert(std::to_string(*row.batch_size)); }
  if (!row.precision.empty()) { facts["precision"].insert(row.precision); }
  if (!row.backend.empty()) { facts["backend"].insert(row.backend); }
}

/// Facts that decide nothing, such as temperatures, may be other ones in each of a hundred thousand trials.
bool decides(const std::string& field) {
  const auto rules = field_rules();
  return std::ranges::any_of(rules, [&](const FieldRule& rule) {
    return rule.field == field && rule.rule != FactRule::informative;
  });
}

/// A tenant's workload; an empty object where nothing is known of it.
nlohmann::json workload_of(const TenantMean& tenant) {
  auto workload = parse_json_or_null(tenant.workload);
  return workload.is_object() ? workload : nlohmann::json::object();
}

/// Facts that add_row_facts() takes from a trial's row already.
constexpr std::array<std::string_view, 3> facts_of_columns{"batch_size", "precision", "backend"};

/// Adds the other facts about the work in a step. The numbers of steps for warm-up and measurement do not
/// count.
void add_workload_facts(const nlohmann::json& workload, Facts& facts) {
  const auto add = [&](const auto& field) {
    const auto found = workload.find(field.name);
    const bool is_known = found != workload.end() && !found->is_null();
    const bool is_of_column = std::ranges::find(facts_of_columns, field.name) != facts_of_columns.end();
    if (!field.is.guard || !is_known || is_of_column) { return; }
    facts[field.name].insert(found->is_string() ? found->template get<std::string>() : dump_json(*found));
  };
  for_each_field<Workload>(add);
  for_each_field<Job>(add);
}

/// Micro-batches of a step; one where an imported workload does not give them.
double micro_batches(const nlohmann::json& workload) {
  const auto found = workload.find("accumulate_steps");
  return found != workload.end() && found->is_number() ? found->get<double>() : 1;
}

/// The CUDA trainer sends gradients in the two bytes of fp16 and bf16, sums over micro-batches and all others
/// in fp32.
bool sends_half(const nlohmann::json& workload) {
  if (text_in(workload, "backend") != "cuda") { return false; }
  const auto precision = text_in(workload, "precision");
  return (precision == "fp16" || precision == "bf16") && micro_batches(workload) == 1;
}

/// Point of a collective between nodes; where the nodes are unknown, each rank is one. None for other
/// figures, and for figures whose data was wrong.
std::optional<AllReducePoint> all_reduce_point(const Probe& probe) {
  const auto ranks = probe.nodes.value_or(probe.ranks.value_or(1));
  const auto bytes = static_cast<double>(probe.size_bytes.value_or(0));
  const bool is_one = probe.name == "all_reduce" && probe.unit == "B/s" && bytes > 0 && probe.value > 0;
  if (!is_one || ranks < 2 || probe.wrong.value_or(0) > 0) { return std::nullopt; }
  return AllReducePoint{ranks, bytes, probe.seconds.value_or(bytes / probe.value)};
}

}  // namespace

DataIndex::DataIndex(const ComparisonData& data) : data_(data), cases_(by_case(data)) {
  const auto place = [](const auto& row) { return Place(row.case_name, row.arm, row.unit); };
  for (const auto& one : cases_) { rows_of_case_[{one.name, one.unit}] = &one.rows; }
  for (const auto& row : data.rows) {
    const auto& start = start_of(experiment_of(data, row), row);
    if (!start.empty()) { starts_[row.experiment].insert(start); }
  }
  for (const auto& fact : data.facts) {
    const auto trials = decides(fact.key) ? parse_json_or_null(fact.trials) : nlohmann::json();
    if (!trials.is_array()) { facts_[{fact.experiment, place(fact)}].push_back(&fact); }
    for (const auto& trial : trials) { own_facts_[trial.get<std::int64_t>()].push_back(&fact); }
  }
  for (const auto& steps : data.step_times) { step_times_[place(steps)].push_back(&steps); }
  for (const auto& mean : data.published) { published_[place(mean)].push_back(&mean); }
  for (const auto& number : data.numbers) { numbers_[place(number)].push_back(&number); }
  for (const auto& tenant : data.tenants) { tenants_[place(tenant)].push_back(&tenant); }
  for (const auto& one : cases_) {
    std::set<std::string> arms;
    for (const auto* row : one.rows) { arms.insert(row->arm); }
    for (const auto& arm : arms) {
      const auto found = tenants_.find({one.name, arm, one.unit});
      if (found == tenants_.end()) { continue; }
      const auto& tenants = found->second;
      const bool alone = std::ranges::all_of(tenants, [](const auto* t) { return t->tenant_index == 0; });
      if (!alone) { continue; }
      // Experiments may have the same case with workloads that differ.
      std::set<Shape> shapes;
      for (const auto* t : tenants) {
        shapes.insert({arm, t->nodes, t->gpus_per_node, t->workload, t->unit});
      }
      for (const auto& shape : shapes) { alone_cases_[shape].push_back(one.name); }
    }
  }
}

bool DataIndex::means(const Selector& selector, std::int64_t experiment) const {
  ComparisonRow row;
  row.experiment = experiment;
  const auto& where = experiment_of(data_, row);
  const auto starts = starts_.find(experiment);
  if (starts == starts_.end()) { return selects(selector, where, std::set<std::string>()); }
  return std::ranges::all_of(starts->second, [&](const std::string& start) {
    return selects(selector, where, std::set<std::string>{start});
  });
}

Rows DataIndex::rows(const std::string& case_name, const std::string& unit, const Selector& selector) const {
  const auto found = rows_of_case_.find({case_name, unit});
  return found == rows_of_case_.end() ? Rows{} : rows_of(data_, *found->second, selector);
}

std::vector<TenantMean> DataIndex::tenants(const std::string& case_name, const std::string& unit,
                                           const Selector& selector) const {
  const auto found = tenants_.find({case_name, selector.arm, unit});
  if (found == tenants_.end()) { return {}; }
  std::map<std::int64_t, TenantMean> merged;
  for (const auto* tenant : found->second) {
    if (!means(selector, tenant->experiment)) { continue; }
    const auto [known, fresh] = merged.try_emplace(tenant->tenant_index, *tenant);
    if (fresh || !tenant->throughput) { continue; }
    auto& all = known->second;
    const double before = all.throughput ? static_cast<double>(all.runs) : 0;
    const double here = static_cast<double>(tenant->runs);
    all.throughput = (all.throughput.value_or(0) * before + *tenant->throughput * here) / (before + here);
    all.runs = static_cast<std::int64_t>(before) + tenant->runs;
  }
  std::vector<TenantMean> list;
  list.reserve(merged.size());
  for (auto& [index, tenant] : merged) { list.push_back(std::move(tenant)); }
  return list;
}

const std::string* DataIndex::alone_case(const TenantMean& tenant, const Selector& selector) const {
  const auto found =
      alone_cases_.find({selector.arm, tenant.nodes, tenant.gpus_per_node, tenant.workload, tenant.unit});
  if (found == alone_cases_.end()) { return nullptr; }
  const std::string* first = nullptr;
  for (const auto& name : found->second) {
    const auto means_here = tenants(name, tenant.unit, selector);
    if (means_here.empty() || !means_here.front().throughput) { continue; }
    if (means_here.front().name == tenant.name) { return &name; }
    if (first == nullptr) { first = &name; }
  }
  return first;
}

std::vector<double> DataIndex::step_seconds(const Place& place, const Selector& selector,
                                            std::int64_t tenant_index) const {
  std::vector<double> all;
  const auto found = step_times_.find(place);
  if (found == step_times_.end()) { return all; }
  for (const auto* steps : found->second) {
    if (steps->tenant_index == tenant_index && means(selector, steps->experiment)) {
      all.insert(all.end(), steps->seconds.begin(), steps->seconds.end());
    }
  }
  return all;
}

std::optional<TenantsAlone> DataIndex::tenants_alone(const std::vector<TenantMean>& tenants,
                                                     const Selector& selector) const {
  if (tenants.size() < 2) { return std::nullopt; }
  TenantsAlone result;
  std::vector<double> slowdowns;
  for (const auto& tenant : tenants) {
    if (!tenant.throughput) { continue; }
    const auto* name = alone_case(tenant, selector);
    if (name == nullptr) { continue; }
    const double alone = *this->tenants(*name, tenant.unit, selector).front().throughput;
    slowdowns.push_back(alone / *tenant.throughput);
    result.tenants.push_back(
        {tenant.tenant_index, tenant.name, *name, alone, *tenant.throughput, tenant.unit, slowdowns.back()});
    const auto steps_alone = step_seconds({*name, selector.arm, tenant.unit}, selector, 0);
    const auto steps_shared =
        step_seconds({tenant.case_name, selector.arm, tenant.unit}, selector, tenant.tenant_index);
    if (!steps_alone.empty() && !steps_shared.empty()) {
      result.tenants.back().tail = tail_inflation(steps_alone, steps_shared);
    }
  }
  if (slowdowns.empty()) { return std::nullopt; }
  if (slowdowns.size() == tenants.size()) { result.isolation = isolation_of(slowdowns); }
  return result;
}

const Facts& DataIndex::facts_of(const ComparisonRow& row) const {
  const Place place{row.case_name, row.arm, row.unit};
  const Origin origin{row.experiment, place};
  const Columns columns{row.nodes, row.gpus_per_node, row.batch_size, row.precision, row.backend};
  const auto own = own_facts_.find(row.trial);
  const auto [known, fresh] = trial_facts_.try_emplace(
      {origin, columns, own == own_facts_.end() ? std::vector<const ArmFact*>() : own->second});
  auto& facts = known->second;
  if (!fresh) { return facts; }
  for (const auto* fact : std::get<2>(known->first)) { facts[fact->key].insert(fact->value); }
  if (const auto found = facts_.find(origin); found != facts_.end()) {
    for (const auto* fact : found->second) { facts[fact->key].insert(fact->value); }
  }
  add_row_facts(row, facts);
  if (const auto tenants = tenants_.find(place); tenants != tenants_.end()) {
    for (const auto* tenant : tenants->second) {
      if (tenant->experiment == row.experiment) { add_workload_facts(workload_of(*tenant), facts); }
    }
  }
  return facts;
}

ComparedFacts DataIndex::facts_of(const RowPairs& pairs) const {
  ComparedFacts compared;
  for (const auto& [key, pair] : pairs) {
    if (pair.is_complete()) { ++compared[{&facts_of(*pair.baseline), &facts_of(*pair.candidate)}]; }
  }
  return compared;
}

ComparedFacts DataIndex::facts_of(const Rows& baseline, const Rows& candidate) const {
  ComparedFacts compared;
  for (const auto* row : baseline) { ++compared[{&facts_of(*row), nullptr}]; }
  for (const auto* row : candidate) { ++compared[{nullptr, &facts_of(*row)}]; }
  return compared;
}

Evidence DataIndex::evidence(const CaseRows& one, const Side& side) const {
  Evidence evidence;
  evidence.name = side.name;
  std::set<const Facts*> seen;
  for (const auto* row : side.rows) {
    if (!usable(*row)) { continue; }
    if (!row->virtualization.empty()) { evidence.facts["virtualization"].insert(row->virtualization); }
    const auto& facts = facts_of(*row);
    if (!seen.insert(&facts).second) { continue; }
    for (const auto& [key, values] : facts) { evidence.facts[key].insert(values.begin(), values.end()); }
  }
  std::map<std::string, std::pair<double, double>> sums;
  const auto found = numbers_.find({one.name, side.selector.arm, one.unit});
  if (found == numbers_.end()) { return evidence; }
  for (const auto* number : found->second) {
    if (!means(side.selector, number->experiment)) { continue; }
    auto& [sum, count] = sums[number->name];
    sum += number->value * static_cast<double>(number->count);
    count += static_cast<double>(number->count);
  }
  for (const auto& [name, sum] : sums) { evidence.numbers[name] = sum.first / sum.second; }
  return evidence;
}

std::vector<const Probe*> DataIndex::probes(const Selector& selector) const {
  std::vector<const Probe*> probes;
  for (const auto& [experiment, probe] : data_.probes) {
    if (probe.arm == selector.arm && means(selector, experiment)) { probes.push_back(&probe); }
  }
  return probes;
}

std::pair<Evidence, Evidence> DataIndex::evidence(const CaseRows& one, const Side& baseline,
                                                  const Side& candidate) const {
  auto ours = evidence(one, baseline), theirs = evidence(one, candidate);
  // Probes belong to an arm, not to a case.
  const auto [known, fresh] = shared_probes_.try_emplace(
      {baseline.selector.text, baseline.selector.arm, candidate.selector.text, candidate.selector.arm});
  if (fresh) { known->second = shared_probes(probes(baseline.selector), probes(candidate.selector)); }
  const auto& shared = known->second;
  ours.numbers.insert(shared.baseline.begin(), shared.baseline.end());
  theirs.numbers.insert(shared.candidate.begin(), shared.candidate.end());
  for (const auto& [name, words] : shared.settings) { ours.facts[name].insert(words); }
  return {std::move(ours), std::move(theirs)};
}

ScalingEvidence DataIndex::scaling(const CaseKey& family, const std::string& unit, const Side& side) const {
  ScalingEvidence evidence;
  std::set<std::string> transports;
  double accumulated = 1;
  const auto one_node = runs_of(rows(printed(resized(family, 1)), unit, side.selector), side.pooled);
  for (const auto& one : cases_) {
    if (!one.key.scale || one.unit != unit || resized(one.key, {}) != family) { continue; }
    const auto runs =
        of_shared_experiments(runs_of(rows(one.name, one.unit, side.selector), side.pooled), one_node);
    for (const auto* row : runs) {
      evidence.runs.push_back({row->nodes, *row->throughput});
      if (row->batch_size && unit == images_unit) {
        evidence.images_per_step = static_cast<double>(
            *row->batch_size * row->ranks_per_node.value_or(std::max<std::int64_t>(1, row->gpus_per_node)));
      }
    }
    for (const auto& tenant : tenants(one.name, unit, side.selector)) {
      if (tenant.nodes > 1 && !tenant.transport.empty()) { transports.insert(tenant.transport); }
      const auto workload = workload_of(tenant);
      accumulated = micro_batches(workload);
      evidence.gradient_bytes = ScalingEvidence{}.gradient_bytes / (sends_half(workload) ? 2 : 1);
    }
  }
  if (evidence.images_per_step) { *evidence.images_per_step *= accumulated; }
  evidence.transport = join({transports.begin(), transports.end()}, ", ");
  std::map<std::string, std::vector<AllReducePoint>> sweeps;
  std::map<std::string, std::set<ProbeSettings>> settings;
  for (const auto* probe : probes(side.selector)) {
    const auto point = all_reduce_point(*probe);
    if (!point) { continue; }
    sweeps[probe->transport].push_back(*point);
    settings[probe->transport].insert(settings_of(*probe));
  }
  // Each transport has its own model: a sweep over another one says nothing about these runs.
  auto fitting = sweeps.find(evidence.transport);
  if (fitting == sweeps.end() && sweeps.size() == 1 && (evidence.transport.empty() || sweeps.contains(""))) {
    fitting = sweeps.begin();
  }
  if (fitting == sweeps.end()) { return evidence; }
  if (settings.at(fitting->first).size() > 1) {
    evidence.several_sweeps = true;
    return evidence;
  }
  if (evidence.transport.empty()) { evidence.transport = fitting->first; }
  evidence.probes = fitting->second;
  return evidence;
}

std::optional<PublishedSpeedup> DataIndex::published(const CaseRows& one_case, const std::string& name_of_one,
                                                     std::int64_t nodes, const Side& side) const {
  std::set<std::string> scenarios;
  for (const auto* row : side.rows) { scenarios.insert(experiment_of(data_, *row).scenario); }
  std::optional<PublishedSpeedup> newest;
  const auto steps = published_.find({one_case.name, side.selector.arm, one_case.unit});
  const auto ones = published_.find({name_of_one, side.selector.arm, one_case.unit});
  if (steps == published_.end() || ones == published_.end()) { return newest; }
  for (const auto* step : steps->second) {
    if (!scenarios.contains(step->scenario)) { continue; }
    for (const auto* one : ones->second) {
      if (one->experiment != step->experiment) { continue; }
      const double speedup = step->throughput / one->throughput;
      newest = {speedup, speedup / static_cast<double>(nodes), step->experiment};
    }
  }
  return newest;
}

}  // namespace virtrain::results
