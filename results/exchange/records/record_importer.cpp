#include "results/exchange/records/record_importer.h"

#include <algorithm>
#include <utility>

#include "common/enum_text.h"
#include "common/error.h"
#include "common/text/printable.h"
#include "results/exchange/records/exchange_columns.h"
#include "results/exchange/records/record_rules.h"

namespace virtrain::results {
namespace {

/// Records of the exchange format, by their member "record".
VIRTRAIN_ENUM_CLASS(RecordKind, trial, experiment, sample, telemetry, figure, event, probe, security)

/// A throughput has one unit, which its key gives or `unit` beside it.
void check_unit(const ObjectReader& reader, const std::optional<Throughput>& throughput) {
  constexpr std::size_t longest_unit = 32;
  if (!reader.has("throughput") && !reader.has("unit")) { return; }
  if (!reader.has("throughput") || !reader.has("unit")) {
    reader.refuse(
        "{} (give both throughput and unit: 1234.5 and tokens/s)",
        reader.has("unit") ? "unit is of a throughput, and there is none" : "throughput has no unit");
  }
  if (reader.has("images_per_second")) {
    reader.refuse("throughput and images_per_second are both given (allowed: one)");
  }
  const auto& unit = throughput->unit;
  const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
  if (unit.size() < 3 || unit.size() > longest_unit || !unit.ends_with("/s") ||
      !std::ranges::all_of(unit, is_plain)) {
    reader.refuse_value("unit", "what is counted a second: images/s, tokens/s, samples/s, steps/s, B/s, …");
  }
}

/// All that is measured of one trial has one unit: `whole` is the trial's, `part` of a tenant or a rank.
void require_unit_of(const ObjectReader& reader, const std::optional<Throughput>& whole,
                     const std::optional<Throughput>& part) {
  check_unit(reader, part);
  if (!whole || !part || whole->unit == part->unit) { return; }
  reader.refuse("a throughput is in {}, and its trial's in {} (allowed in one trial: one unit)",
                excerpt(part->unit), excerpt(whole->unit));
}

/// Reads an object of a tenant's list, with its facts where it has some; `whole` is the trial's throughput.
template <typename Record>
Record record_in(const nlohmann::json& object, const std::string& position,
                 const std::optional<Throughput>& whole) {
  ObjectReader reader(object, position);
  Record record;
  if constexpr (requires { record.fingerprint; }) { reader.take("fingerprint", record.fingerprint); }
  take_record(reader, record);
  if constexpr (requires { record.throughput; }) { require_unit_of(reader, whole, record.throughput); }
  return record;
}

/// A run's own rows are evidence of that run and stay as they are.
void refuse_measured(const ObjectReader& reader, const Experiment& stored) {
  if (stored.virtrain_version.empty() && stored.command_line.empty() && stored.boot_id.empty()) { return; }
  reader.refuse(
      "experiment {} is in the database already, as virtrain measured it, and takes nothing from "
      "elsewhere (give these records another experiment, or import into another --db)",
      excerpt(stored.id));
}

/// Fields of a trial's key that have no names of their own. A record with none of them is read as one of
/// virtrain 0.2.0, whose names said it.
constexpr const char* key_fields[] = {"family", "scale", "point", "like", "neighbour", "level"};

/// The keys of the point in the order in which the case's name has them, for an object has none.
void order_point(const std::string& name, SweptPoint& point) {
  std::ranges::stable_sort(point.values, {},
                           [&](const auto& one) { return name.find(one.first + "=" + one.second); });
}

/// The case's name must be what its fields print. Where `family` is absent it is what the name has before
/// them, and a name without them gets them.
void settle_case(const ObjectReader& reader, Trial& trial) {
  auto& name = trial.case_name;
  auto& key = trial.case_key;
  order_point(name, key.point);
  if (key.scale && key.scale != trial.nodes) {
    reader.refuse("scale is {} and nodes is {} (scale is the nodes of one size of a weak scaling)",
                  *key.scale, trial.nodes);
  }
  const auto has = [&](const std::string& ending) {
    return key.family.empty() ? name.size() > ending.size() && name.ends_with(ending) : name == ending;
  };
  if (has(printed(resized(key, trial.nodes)))) { key.scale = trial.nodes; }
  const auto ending = printed(key);
  if (ending.empty()) { return; }
  if (key.family.empty()) { key.family = has(ending) ? name.substr(0, name.size() - ending.size()) : name; }
  const auto whole = printed(key);
  if (name == key.family) { name = whole; }
  if (name != whole) {
    reader.refuse("case is {}, and its family, point and scale say {}", excerpt(name), excerpt(whole));
  }
}

/// As settle_case(), of `like`, `neighbour` and `level`.
void settle_arm(const ObjectReader& reader, Trial& trial) {
  auto& key = trial.arm_key;
  const bool is_idle = key.neighbour == idle_neighbour;
  if (key.level && (key.neighbour.empty() || is_idle)) {
    reader.refuse("level is of an aggressor, which neighbour names");
  }
  if (key.neighbour.empty()) { return; }
  if (!key.level && !is_idle) { reader.refuse("neighbour {} has no level", excerpt(key.neighbour)); }
  if (key.like.empty()) {
    const auto ending = printed(key);
    const bool has_it = trial.arm.size() > ending.size() && trial.arm.ends_with(ending);
    key.like = has_it ? trial.arm.substr(0, trial.arm.size() - ending.size()) : trial.arm;
  }
  if (trial.arm == key.like) { trial.arm = printed(key); }
  if (trial.arm != printed(key)) {
    reader.refuse("arm is {}, and like, neighbour and level say {}", excerpt(trial.arm),
                  excerpt(printed(key)));
  }
}

void settle_key(const ObjectReader& reader, Trial& trial) {
  settle_case(reader, trial);
  settle_arm(reader, trial);
}

}  // namespace

void RecordImporter::add(const nlohmann::json& record, const std::string& position) {
  try {
    add_record(record, position);
  } catch (const Error& error) {
    // An Error of the store (a value that the schema refuses) gets the line's position.
    if (error.operation() == position || error.code() != ErrorCode::bad_input) { throw; }
    throw Error(position, ErrorCode::bad_input, error.what());
  }
}

void RecordImporter::note(const std::string& words) {
  constexpr std::size_t most_notes = 20, longest_note_bytes = 4000;
  if (report_.notes.size() < most_notes) { report_.notes.push_back(excerpt(words, longest_note_bytes)); }
}

void RecordImporter::add_record(const nlohmann::json& record, const std::string& position) {
  ObjectReader reader(record, position);
  std::string kind;
  reader.take("record", kind);
  const auto found = enum_of<RecordKind>(kind);
  if (!found) { reader.refuse("record is \"{}\", it must be {}", kind, enum_list<RecordKind>()); }
  switch (*found) {
    case RecordKind::trial:
      return add_trial(reader);
    case RecordKind::experiment:
      return add_experiment(reader);
    case RecordKind::sample:
      return add_sample(reader);
    case RecordKind::telemetry:
      return add_telemetry(reader);
    case RecordKind::figure:
      return add_figure(reader);
    case RecordKind::event:
      return add_event(reader);
    case RecordKind::probe:
      return add_probe(reader);
    case RecordKind::security:
      return add_leak_search(reader);
  }
}

void RecordImporter::add_experiment(ObjectReader& reader) {
  Experiment experiment;
  experiment.status = Status::finished;
  reader.take("fingerprint", experiment.fingerprint);
  take_record(reader, experiment);
  if (experiments_.contains(experiment.id)) {
    reader.refuse("experiment {} appears twice, or after its trials", experiment.id);
  }
  if (store_.experiment(experiment.id)) {
    reader.refuse("experiment {} is in {} already", experiment.id, store_.file().string());
  }
  store_.add_imported_experiment(experiment);
  experiments_[experiment.id] = {experiment.scenario, experiment.label, {}};
  ++report_.experiments;
}

void RecordImporter::add_trial(ObjectReader& reader) {
  Trial trial;
  std::string scenario;
  std::string label;
  reader.take("experiment", trial.experiment);
  reader.take("scenario", scenario);
  reader.take("label", label);
  const auto tenants = reader.take_list("tenants");
  take_record(reader, trial);
  trial.precision = precision_name(trial.precision);
  check_unit(reader, trial.throughput);
  const bool has_key = std::ranges::any_of(key_fields, [&](const char* key) { return reader.has(key); });
  if (has_key) { settle_key(reader, trial); }
  const bool is_measured = trial.throughput.has_value();
  if (!reader.has("status")) { trial.status = is_measured ? Status::finished : Status::failed; }
  auto& experiment = experiment_of(reader, trial.experiment, scenario, label);
  if (trial.pair && store_.has_pair(trial.experiment, trial.case_name, trial.arm, *trial.pair)) {
    reader.refuse("experiment {} has pair {} of case {} in the arm {} already", trial.experiment, *trial.pair,
                  trial.case_name, trial.arm);
  }
  const auto id = store_.import_trial(trial);
  if (!has_key) { store_.read_old_names(id); }
  experiment.trials.push_back(id);
  for (const auto& tenant : tenants) { add_tenant(id, trial.throughput, tenant, reader.position()); }
  ++report_.trials;
  report_.missing += is_measured ? 0 : 1;
}

/// The trial's experiment, made here if no record did; its scenario and label must not contradict.
RecordImporter::ImportedExperiment& RecordImporter::experiment_of(const ObjectReader& reader,
                                                                  const std::string& id,
                                                                  const std::string& scenario,
                                                                  const std::string& label) {
  const auto [found, fresh] = experiments_.try_emplace(id);
  auto& known = found->second;
  if (fresh) {
    if (const auto stored = store_.experiment(id)) {
      refuse_measured(reader, *stored);
      known = {stored->scenario, stored->label};
    } else {
      if (scenario.empty()) {
        experiments_.erase(found);
        reader.refuse("no record before it names experiment {}, and this one has no scenario", id);
      }
      store_.add_imported_experiment(
          {.id = id, .scenario = scenario, .label = label, .status = Status::finished});
      known = {scenario, label};
      ++report_.experiments;
    }
  }
  if (!scenario.empty() && known.scenario != scenario) {
    reader.refuse("experiment {} is of scenario {}, not {}", id, known.scenario, scenario);
  }
  if (known.label.empty() && !label.empty()) {
    store_.set_label(id, label);
    known.label = label;
  }
  if (!label.empty() && known.label != label) {
    reader.refuse("experiment {} has the label {}, not {}", id, known.label, label);
  }
  return known;
}

void RecordImporter::add_tenant(std::int64_t trial, const std::optional<Throughput>& whole,
                                const nlohmann::json& object, const std::string& position) {
  ObjectReader reader(object, position);
  Tenant tenant;
  const auto nodes = reader.take_list("node_list");
  const auto ranks = reader.take_list("ranks");
  const auto transports = reader.take_list("transports");
  take_record(reader, tenant);
  require_unit_of(reader, whole, tenant.throughput);
  const auto id = store_.save_tenant(trial, tenant);
  tenants_[{trial, tenant.tenant_index}] = id;
  for (const auto& one : nodes) {
    const auto node = record_in<Node>(one, position, whole);
    nodes_[{id, node.name}] = store_.save_node(id, node);
  }
  for (const auto& one : ranks) {
    const auto rank = record_in<Rank>(one, position, whole);
    ranks_[{id, rank.rank}] = store_.save_rank(id, rank);
  }
  for (const auto& one : transports) {
    store_.save_transport(id, record_in<Transport>(one, position, whole));
  }
}

void RecordImporter::add_sample(ObjectReader& reader) {
  Sample sample;
  std::int64_t rank_number = 0;
  const auto tenant = take_tenant(reader);
  reader.take("rank", rank_number);
  take_record(reader, sample);
  const auto rank = ranks_.find({tenant, rank_number});
  if (rank == ranks_.end()) { reader.refuse("its tenant has no rank {}", rank_number); }
  store_.add_samples(rank->second, {&sample, 1});
  ++report_.samples;
}

void RecordImporter::add_telemetry(ObjectReader& reader) {
  Telemetry reading;
  std::string node_name;
  const auto tenant = take_tenant(reader);
  reader.take("node", node_name);
  take_record(reader, reading);
  const auto node = nodes_.find({tenant, node_name});
  if (node == nodes_.end()) { reader.refuse("its tenant has no node {}", node_name); }
  store_.add_telemetry(node->second, {&reading, 1});
  ++report_.telemetry;
}

void RecordImporter::add_figure(ObjectReader& reader) {
  Figure figure;
  const auto tenant = take_tenant(reader);
  take_record(reader, figure);
  store_.add_figures(tenant, {&figure, 1});
  ++report_.figures;
}

void RecordImporter::add_event(ObjectReader& reader) {
  Event event;
  std::string experiment;
  std::optional<std::int64_t> trial;
  reader.take("experiment", experiment);
  reader.take("trial", trial);
  take_record(reader, event);
  if (trial) { event.trial = trial_row(reader, experiment, *trial); }
  if (!experiments_.contains(experiment)) {
    reader.refuse("no record before it names experiment " + experiment);
  }
  store_.add_event(experiment, event);
  ++report_.events;
}

void RecordImporter::add_probe(ObjectReader& reader) {
  Probe probe;
  std::string experiment;
  std::string scenario;
  std::string label;
  reader.take("experiment", experiment);
  reader.take("scenario", scenario);
  reader.take("label", label);
  take_record(reader, probe);
  auto& known = experiment_of(reader, experiment, scenario, label);
  if (is_run_ && !known.run) { known.run = store_.last_probe_run(experiment) + 1; }
  if (!probe.run) { probe.run = known.run; }
  store_.add_probes(experiment, {&probe, 1});
  ++report_.probes;
  report_.wrong += probe.wrong.value_or(0) > 0 ? 1 : 0;
}

void RecordImporter::add_leak_search(ObjectReader& reader) {
  LeakSearch probe;
  std::string experiment;
  reader.take("experiment", experiment);
  take_record(reader, probe);
  if (probe.result == "not_found" && probe.control != true) {
    reader.refuse("result is not_found, which needs \"control\": true");
  }
  if (!experiments_.contains(experiment)) {
    reader.refuse("no record before it names experiment " + experiment);
  }
  store_.add_leak_searches(experiment, {&probe, 1});
  ++report_.security;
}

/// Row id of the tenant that a sample or reading belongs to.
std::int64_t RecordImporter::take_tenant(ObjectReader& reader) {
  std::string experiment;
  std::int64_t trial = 0;
  std::int64_t tenant_index = 0;
  reader.take("experiment", experiment);
  reader.take("trial", trial);
  reader.take("tenant", tenant_index);
  reader.require({"experiment", "trial", "tenant"});
  const auto tenant = tenants_.find({trial_row(reader, experiment, trial), tenant_index});
  if (tenant != tenants_.end()) { return tenant->second; }
  reader.refuse("trial {} of experiment {} has no tenant {}", trial, experiment, tenant_index);
}

/// Row id of the n-th trial record of the experiment in this file.
std::int64_t RecordImporter::trial_row(const ObjectReader& reader, const std::string& experiment,
                                       std::int64_t ordinal) {
  const auto found = experiments_.find(experiment);
  const auto count = found == experiments_.end() ? 0 : std::ssize(found->second.trials);
  if (ordinal < 1 || ordinal > count) {
    reader.refuse("trial {} of experiment {} was not seen before it (there are {})", ordinal, experiment,
                  count);
  }
  return found->second.trials[static_cast<std::size_t>(ordinal - 1)];
}

}  // namespace virtrain::results
