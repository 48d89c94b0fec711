#include <ostream>

#include "common/error.h"
#include "common/text/printable.h"
#include "results/exchange/exchange.h"
#include "results/exchange/exporters/exporters.h"
#include "results/exchange/records/exchange_columns.h"
#include "results/store/canonical_json.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// Keys of a trial that are always written, null or not; the others only where something is known.
const std::set<std::string> always_written = {
    "arm",   "backend",  "batch_size",        "case",  "environment", "gpus_per_node",
    "nodes", "order",    "images_per_second", "pair",  "precision",   "started_at",
    "label", "scenario", "virtualization",    "status"};

void drop_unknown(json& object, const std::set<std::string>& keep = {}) {
  for (auto member = object.begin(); member != object.end();) {
    const bool drop = member->is_null() && !keep.contains(member.key());
    member = drop ? object.erase(member) : std::next(member);
  }
}

template <typename Record>
json sparse_json(const Record& record) {
  json object = columns_json(record);
  drop_unknown(object);
  return object;
}

/// One line each; remembers nothing but where to write.
class Exporter {
 public:
  Exporter(const Store& store, std::ostream& out) : store_(store), out_(out) {}

  void write(const std::string& id, bool with_measurements = true) {
    const auto experiment = experiment_to_export(store_, id);
    write_experiment(experiment);
    const auto trials = store_.trials(id);
    std::map<std::int64_t, std::int64_t> ordinals;
    for (const auto& trial : trials) {
      ordinals[trial.id] = std::ssize(ordinals) + 1;
      write_trial(experiment, trial);
    }
    for (const auto& trial : trials) {
      if (with_measurements) { write_measurements(id, trial.id, ordinals.at(trial.id)); }
      write_figures(id, trial.id, ordinals.at(trial.id), with_measurements);
    }
    for (const auto& probe : store_.probes(id)) { write_line("probe", id, sparse_json(probe)); }
    for (const auto& probe : store_.leak_searches(id)) { write_line("security", id, sparse_json(probe)); }
    for (const auto& event : store_.events(id)) {
      json object = columns_json(event);
      // A run that is live may have begun another trial meanwhile.
      if (event.trial && !ordinals.contains(*event.trial)) { continue; }
      object["trial"] = event.trial ? json(ordinals.at(*event.trial)) : json();
      write_line("event", id, object);
    }
  }

 private:
  void write_line(const char* record, const std::string& experiment, json object) {
    object["record"] = record;
    object["experiment"] = experiment;
    out_ << canonical_json(object) << '\n';
  }

  void write_experiment(const Experiment& experiment) {
    json object = columns_json(experiment);
    if (!experiment.fingerprint.empty()) { object["fingerprint"] = experiment.fingerprint; }
    drop_unknown(object, always_written);
    write_line("experiment", experiment.id, object);
  }

  void write_trial(const Experiment& experiment, const Trial& trial) {
    json object = columns_json(trial);
    object["scenario"] = experiment.scenario;
    object["label"] = value_json(experiment.label);
    for (const char* key : {"family", "scale"}) {
      object.erase(key);
    }  // `point` and `nodes` end the case's name
    if (!object["throughput"].is_null()) { object.erase("images_per_second"); }
    if (trial.valid) { object.erase("valid"); }
    if (!trial.oversubscribed) { object.erase("oversubscribed"); }
    for (const auto& tenant : store_.tenants(trial.id)) { object["tenants"].push_back(tenant_json(tenant)); }
    drop_unknown(object, always_written);
    write_line("trial", experiment.id, object);
  }

  json tenant_json(const Tenant& tenant) {
    json object = sparse_json(tenant);
    for (const auto& node : store_.nodes(tenant.id)) {
      auto& entry = object["node_list"].emplace_back(sparse_json(node));
      if (!node.fingerprint.empty()) { entry["fingerprint"] = node.fingerprint; }
    }
    for (const auto& rank : store_.ranks(tenant.id)) { object["ranks"].push_back(sparse_json(rank)); }
    for (const auto& transport : store_.transports(tenant.id)) {
      object["transports"].push_back(sparse_json(transport));
    }
    return object;
  }

  void write_measurements(const std::string& experiment, std::int64_t trial, std::int64_t ordinal) {
    for (const auto& tenant : store_.tenants(trial)) {
      const json owner = {{"trial", ordinal}, {"tenant", tenant.tenant_index}};
      for (const auto& rank : store_.ranks(tenant.id)) {
        for (const auto& sample : store_.samples(rank.id)) {
          json object = columns_json(sample);
          object.update(owner);
          object["rank"] = rank.rank;
          write_line("sample", experiment, object);
        }
      }
      for (const auto& node : store_.nodes(tenant.id)) {
        for (const auto& reading : store_.telemetry(node.id)) {
          json object = columns_json(reading);
          object.update(owner);
          object["node"] = node.name;
          write_line("telemetry", experiment, object);
        }
      }
    }
  }

  void write_figures(const std::string& experiment, std::int64_t trial, std::int64_t ordinal,
                     bool with_readings) {
    for (const auto& tenant : store_.tenants(trial)) {
      for (const auto& figure : store_.figures(tenant.id)) {
        if (figure.t_ns && !with_readings) { continue; }
        json object = sparse_json(figure);
        object.update({{"trial", ordinal}, {"tenant", tenant.tenant_index}});
        write_line("figure", experiment, object);
      }
    }
  }

  const Store& store_;
  std::ostream& out_;
};

}  // namespace

Experiment experiment_to_export(const Store& store, const std::string& id) {
  auto experiment = store.experiment(id);
  if (experiment) { return *std::move(experiment); }
  throw Error("read experiment " + excerpt(id), ErrorCode::bad_input,
              store.file().string() + ": it is listed and not there; this is not a sound virtrain database");
}

void export_jsonl(const Store& store, const Selection& selection, std::ostream& out) {
  Exporter exporter(store, out);
  for (const auto& id : experiments_to_export(store, selection)) { exporter.write(id); }
  out.flush();
}

void export_records(const Store& store, const std::string& experiment, std::ostream& out) {
  Exporter(store, out).write(experiment, false);
}

}  // namespace virtrain::results
