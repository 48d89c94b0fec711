#include "results/exchange/records/record_importer.h"

#include "common/error.h"
#include "common/model/leak.h"
#include "common/model/virtualization.h"
#include "common/text/printable.h"
#include "results/exchange/records/spellings.h"

namespace virtrain::results {
namespace {

/// Refuses what is not a time, and keeps it in UTC: what is chosen by time is compared as text.
void take_in_utc(const ObjectReader& reader, const char* key, std::string& time) {
  if (time.empty()) { return; }
  auto utc = in_utc(time);
  if (!utc) {
    reader.refuse("{} is \"{}\", it must be a time like 2022-05-01T00:00:00Z", key, excerpt(time));
  }
  time = *std::move(utc);
}

void require_at_least(const ObjectReader& reader, const char* key, std::optional<std::int64_t> value,
                      std::int64_t least) {
  if (!value || *value >= least) { return; }
  reader.refuse("{} is {}, it must be at least {}", key, *value, least);
}

/// Of what is counted in a trial. Two of them multiplied stay within 64 bits.
void require_count(const ObjectReader& reader, const char* key, std::optional<std::int64_t> value,
                   std::int64_t least) {
  constexpr std::int64_t most = 1'000'000'000;
  require_at_least(reader, key, value, least);
  if (value && *value > most) { reader.refuse("{} is {}, it must be at most {}", key, *value, most); }
}

/// Refuses what is out of range, and keeps times and the precision in their one spelling.
void check_trial(const ObjectReader& reader, Trial& trial) {
  require_count(reader, "nodes", trial.nodes, 1);
  require_count(reader, "gpus_per_node", trial.gpus_per_node, 0);
  require_count(reader, "pair", trial.pair, 0);
  require_count(reader, "batch_size", trial.batch_size, 1);
  require_count(reader, "ranks_per_node", trial.ranks_per_node, 1);
  take_in_utc(reader, "started_at", trial.started_at);
  take_in_utc(reader, "ended_at", trial.ended_at);
  trial.precision = precision_name(trial.precision);
  // Squares of what is far beyond any trainer would leave the range of doubles in every comparison.
  constexpr double least = 1e-6, most = 1e12;
  if (trial.images_per_second && !(*trial.images_per_second >= least && *trial.images_per_second <= most)) {
    reader.refuse("images_per_second is {}, it must be from {} to {} (null for a missing trial)",
                  *trial.images_per_second, least, most);
  }
  if (!trial.environment.is_null() && !trial.environment.is_object()) {
    reader.refuse("environment must be an object or null");
  }
  if (!trial.virtualization.empty() && !enum_of<Virtualization>(trial.virtualization)) {
    reader.refuse("virtualization is \"{}\", it must be {}", trial.virtualization,
                  enum_list<Virtualization>());
  }
}

/// What a tenant's list holds: a record that has these keys, and its facts where it has some.
template <typename Record>
Record record_in(const nlohmann::json& object, const std::string& position,
                 const std::vector<std::string_view>& keys) {
  ObjectReader reader(object, position);
  Record record;
  reader.take_columns(record);
  if constexpr (requires { record.fingerprint; }) { reader.take("fingerprint", record.fingerprint); }
  reader.finish();
  reader.require(keys);
  return record;
}

/// What a run has stored is evidence of that run and stays as it is.
void refuse_measured(const ObjectReader& reader, const Experiment& stored) {
  if (stored.virtrain_version.empty() && stored.command_line.empty() && stored.boot_id.empty()) { return; }
  reader.refuse(
      "experiment {} is in the database already, as virtrain measured it, and takes nothing from "
      "elsewhere (give these records another experiment, or import into another --db)",
      excerpt(stored.id));
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
  static const std::map<std::string_view, void (RecordImporter::*)(ObjectReader&)> kinds = {
      {"trial", &RecordImporter::add_trial},
      {"experiment", &RecordImporter::add_experiment},
      {"sample", &RecordImporter::add_sample},
      {"telemetry", &RecordImporter::add_telemetry},
      {"event", &RecordImporter::add_event},
      {"probe", &RecordImporter::add_probe},
      {"security", &RecordImporter::add_security_probe}};
  const auto found = kinds.find(kind);
  if (found == kinds.end()) {
    reader.refuse(
        "record is \"{}\", it must be trial, experiment, sample, telemetry, event, probe or security", kind);
  }
  (this->*found->second)(reader);
}

void RecordImporter::add_experiment(ObjectReader& reader) {
  Experiment experiment;
  experiment.status = Status::finished;
  reader.take_columns(experiment);
  reader.take("fingerprint", experiment.fingerprint);
  reader.finish();
  reader.require({"experiment", "scenario"});
  take_in_utc(reader, "started_at", experiment.started_at);
  take_in_utc(reader, "ended_at", experiment.ended_at);
  if (experiments_.contains(experiment.id)) {
    reader.refuse("experiment {} appears twice, or after its trials", experiment.id);
  }
  if (store_.experiment(experiment.id)) {
    reader.refuse("experiment {} is in {} already", experiment.id, store_.file().string());
  }
  store_.add_experiment(experiment);
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
  reader.take_columns(trial);
  const auto tenants = reader.take_list("tenants");
  reader.finish();
  reader.require({"experiment", "scenario", "case", "arm", "nodes", "gpus_per_node"});
  check_trial(reader, trial);
  if (!reader.has("status")) { trial.status = trial.images_per_second ? Status::finished : Status::failed; }
  auto& experiment = experiment_of(reader, trial.experiment, scenario, label);
  if (trial.pair && store_.has_pair(trial.experiment, trial.case_name, trial.arm, *trial.pair)) {
    reader.refuse("experiment {} has pair {} of case {} in the arm {} already", trial.experiment, *trial.pair,
                  trial.case_name, trial.arm);
  }
  const auto id = store_.import_trial(trial);
  experiment.trials.push_back(id);
  for (const auto& tenant : tenants) { add_tenant(id, tenant, reader.position()); }
  ++report_.trials;
  report_.missing += trial.images_per_second ? 0 : 1;
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
      known = {stored->scenario, stored->label, {}};
    } else {
      if (scenario.empty()) {
        experiments_.erase(found);
        reader.refuse("no record before it names experiment {}, and this one has no scenario", id);
      }
      store_.add_experiment({.id = id, .scenario = scenario, .label = label, .status = Status::finished});
      known = {scenario, label, {}};
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

void RecordImporter::add_tenant(std::int64_t trial, const nlohmann::json& object,
                                const std::string& position) {
  ObjectReader reader(object, position);
  Tenant tenant;
  reader.take_columns(tenant);
  const auto nodes = reader.take_list("node_list");
  const auto ranks = reader.take_list("ranks");
  const auto transports = reader.take_list("transports");
  reader.finish();
  reader.require({"tenant_index", "nodes"});
  require_count(reader, "tenant_index", tenant.tenant_index, 0);
  require_count(reader, "nodes", tenant.nodes, 1);
  const auto id = store_.save_tenant(trial, tenant);
  tenants_[{trial, tenant.tenant_index}] = id;
  for (const auto& one : nodes) {
    const auto node = record_in<Node>(one, position, {"name", "kind"});
    nodes_[{id, node.name}] = store_.save_node(id, node);
  }
  for (const auto& one : ranks) {
    const auto rank = record_in<Rank>(one, position, {"rank"});
    ranks_[{id, rank.rank}] = store_.save_rank(id, rank);
  }
  for (const auto& one : transports) {
    store_.save_transport(id, record_in<Transport>(one, position, {"from_node", "to_node", "transport"}));
  }
}

void RecordImporter::add_sample(ObjectReader& reader) {
  Sample sample;
  std::int64_t rank_number = 0;
  const auto tenant = take_tenant(reader);
  reader.take("rank", rank_number);
  reader.take_columns(sample);
  reader.finish();
  reader.require({"rank", "t_ns", "step", "images", "seconds"});
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
  reader.take_columns(reading);
  reader.finish();
  reader.require({"node", "t_ns", "source", "metric", "value"});
  const auto node = nodes_.find({tenant, node_name});
  if (node == nodes_.end()) { reader.refuse("its tenant has no node {}", node_name); }
  store_.add_telemetry(node->second, {&reading, 1});
  ++report_.telemetry;
}

void RecordImporter::add_event(ObjectReader& reader) {
  Event event;
  std::string experiment;
  std::optional<std::int64_t> trial;
  reader.take("experiment", experiment);
  reader.take("trial", trial);
  reader.take_columns(event);
  reader.finish();
  reader.require({"experiment", "t_ns", "message"});
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
  reader.take_columns(probe);
  reader.finish();
  reader.require({"experiment", "name", "arm", "value", "unit"});
  take_in_utc(reader, "measured_at", probe.measured_at);
  require_count(reader, "nodes", probe.nodes, 1);
  require_count(reader, "ranks", probe.ranks, 1);
  require_at_least(reader, "size_bytes", probe.size_bytes, 0);
  require_at_least(reader, "wrong", probe.wrong, 0);
  if (!(probe.value >= 0)) { reader.refuse("value is {}, it must be zero or more", probe.value); }
  if (probe.seconds && !(*probe.seconds > 0)) {
    reader.refuse("seconds is {}, it must be above zero", *probe.seconds);
  }
  if (probe.bus_bytes_per_second && !(*probe.bus_bytes_per_second >= 0)) {
    reader.refuse("bus_bytes_per_second is {}, it must be zero or more", *probe.bus_bytes_per_second);
  }
  static const std::set<std::string> units = {"B/s", "FLOP/s", "s"};
  if (!units.contains(probe.unit)) {
    reader.refuse("unit is \"{}\", it must be B/s, FLOP/s or s", probe.unit);
  }
  experiment_of(reader, experiment, scenario, label);
  store_.add_probes(experiment, {&probe, 1});
  ++report_.probes;
  report_.wrong += probe.wrong.value_or(0) > 0 ? 1 : 0;
}

void RecordImporter::add_security_probe(ObjectReader& reader) {
  SecurityProbe probe;
  std::string experiment;
  reader.take("experiment", experiment);
  reader.take_columns(probe);
  reader.finish();
  reader.require({"experiment", "arm", "name", "result"});
  take_in_utc(reader, "measured_at", probe.measured_at);
  static const std::set<std::string> units = {"", "B", "targets", "files"};
  if (!enum_of<LeakResult>(probe.result)) {
    reader.refuse("result is \"{}\", it must be {}", excerpt(probe.result), enum_list<LeakResult>());
  }
  if (!units.contains(probe.unit)) {
    reader.refuse("unit is \"{}\", it must be B, targets or files", excerpt(probe.unit));
  }
  if (probe.result == "not_found" && probe.control != true) {
    reader.refuse("result is not_found, which needs \"control\": true");
  }
  for (const auto& amount : {probe.scanned, probe.total}) {
    if (amount && *amount < 0) { reader.refuse("scanned and total must be at least 0"); }
  }
  if (!experiments_.contains(experiment)) {
    reader.refuse("no record before it names experiment " + experiment);
  }
  store_.add_security_probes(experiment, {&probe, 1});
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
