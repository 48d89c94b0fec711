#include "results/tables/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/error.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/arms.h"
#include "results/tables/render.h"

namespace virtrain::results {
namespace {

/// Why a trial has no result, or must not be compared.
std::string remark(const Trial& trial) {
  if (!trial.valid) { return "invalid: " + trial.invalid_reason; }
  if (trial.failure_reason.empty()) { return ""; }
  return trial.failed_stage.empty() ? trial.failure_reason : trial.failed_stage + ": " + trial.failure_reason;
}

std::vector<TenantMean> tenant_values(const Store& store, std::int64_t trial) {
  std::vector<TenantMean> values;
  for (const auto& tenant : store.tenants(trial)) {
    values.push_back({.tenant_index = tenant.tenant_index,
                      .name = tenant.name,
                      .throughput = value_of(tenant.throughput),
                      .unit = unit_of(tenant.throughput)});
  }
  return values;
}

using E = ExperimentSummary;
constexpr ColumnOf<E> experiment_columns[] = {
    {"experiment", "experiment", [](const E& of) { return cell(of.experiment.id); }},
    {"scenario", "scenario", [](const E& of) { return cell(of.experiment.scenario); }},
    {"label", "label", [](const E& of) { return cell(of.experiment.label); }},
    {"started_at", "started", [](const E& of) { return cell(of.experiment.started_at); }},
    {"status", "status", [](const E& of) { return cell(to_string(of.experiment.status)); }},
    {"trials", "trials", [](const E& of) { return cell(of.trials); }, true},
    {"finished", "finished", [](const E& of) { return cell(of.finished); }, true},
    {"failed", "failed", [](const E& of) { return cell(of.failed); }, true},
    {"interrupted", "interrupted", [](const E& of) { return cell(of.interrupted); }, true},
    {"probes", "probes", [](const E& of) { return of.probes > 0 ? cell(of.probes) : Cell{}; }, true, true}};

struct TrialRow {
  Trial trial;
  std::vector<TenantMean> tenants;
};

using T = TrialRow;
constexpr ColumnOf<T> trial_columns[] = {
    {"trial_order", "#", [](const T& of) { return cell(of.trial.order); }, true},
    {"case", "case", [](const T& of) { return cell(of.trial.case_name); }},
    {"arm", "arm", [](const T& of) { return cell(of.trial.arm); }},
    {"pair", "pair", [](const T& of) { return cell(of.trial.pair); }, true},
    {"nodes", "nodes", [](const T& of) { return cell(of.trial.nodes); }, true},
    {"status", "status", [](const T& of) { return cell(to_string(of.trial.status)); }},
    {"images_per_second", "images/s",
     [](const T& of) { return throughput_cell(in_images(of.trial.throughput)); }, true, true},
    {"throughput", "throughput",
     [](const T& of) { return other_unit_cell(value_of(of.trial.throughput), unit_of(of.trial.throughput)); },
     true, true},
    {"unit", "unit",
     [](const T& of) { return unit_cell(value_of(of.trial.throughput), unit_of(of.trial.throughput)); },
     false, true},
    {"tenants", "of each tenant", [](const T& of) { return tenants_cell(of.tenants); }, true},
    {"virtualization", "virtual", [](const T& of) { return cell(of.trial.virtualization); }},
    {"started_at", "started", [](const T& of) { return cell(of.trial.started_at); }},
    {"remark", "remark", [](const T& of) { return cell(remark(of.trial)); }}};

}  // namespace

std::vector<std::pair<const char*, std::string>> experiment_facts(const Experiment& experiment) {
  std::vector<std::pair<const char*, std::string>> facts = {{"scenario", experiment.scenario},
                                                            {"label", experiment.label},
                                                            {"status", to_string(experiment.status)},
                                                            {"started", experiment.started_at},
                                                            {"ended", experiment.ended_at},
                                                            {"host", experiment.host_name},
                                                            {"boot", experiment.boot_id},
                                                            {"virtrain", experiment.virtrain_version}};
  std::erase_if(facts, [](const auto& one) { return one.second.empty(); });
  return facts;
}

Table experiments_table(const Store& store) {
  auto table = table_of(experiment_columns, store.list_experiments());
  if (table.rows.empty()) { table.notes.push_back("no experiments in " + store.file().string()); }
  return table;
}

/// Remarks on its trials: events that are more than the beginning of a stage.
void append_remarks(const Store& store, const std::string& id, std::vector<std::string>& notes) {
  std::map<std::int64_t, std::int64_t> order_of;
  for (const auto& trial : store.trials(id)) { order_of[trial.id] = trial.order.value_or(0); }
  for (const auto& event : store.events(id)) {
    if (event.stage == "pairs" && event.detail.is_object()) {
      notes.push_back(printable(text_in(event.detail, "case") + ": " + text_in(event.detail, "reason")));
      continue;
    }
    const bool is_remark = event.stage == "agent" || event.stage == "collect" || event.stage == "tear_down";
    if (!is_remark || event.message.starts_with("stage ")) { continue; }
    const auto trial = event.trial ? fmt::format("trial {}: ", order_of[*event.trial]) : std::string();
    notes.push_back("noticed: " + trial + event.message);
    const auto xml = text_in(event.detail, "xml_that_mends_it");
    if (!xml.empty()) { notes.push_back("in the domain's XML this would mend it:\n" + xml); }
  }
}

Table show_experiment(const Store& store, const std::string& id) {
  const auto experiment = store.experiment(id);
  if (!experiment) {
    throw Error("show experiment " + id, ErrorCode::not_found,
                "there is none of this id in " + store.file().string() + " (virtrain list shows them)");
  }
  std::vector<std::string> facts;
  for (const auto& [name, fact] : experiment_facts(*experiment)) {
    facts.push_back(fmt::format("{} {}", name, fact));
  }
  std::vector<TrialRow> rows;
  for (auto& trial : store.trials(id)) {
    auto tenants = tenant_values(store, trial.id);
    rows.push_back({std::move(trial), std::move(tenants)});
  }
  auto table = table_of(trial_columns, rows);
  table.title = "experiment " + id + ": " + join(facts, ", ");
  for (auto& sentence : variant_sentences(experiment->plan)) { table.notes.push_back(std::move(sentence)); }
  if (const auto probes = store.probes(id).size(); probes > 0) {
    table.notes.push_back(fmt::format("{}{}: virtrain show {} --probes",
                                      table.rows.empty() ? "no trials, " : "", counted(probes, "probe"), id));
  }
  append_remarks(store, id, table.notes);
  for (const auto& [key, value] : experiment->fingerprint) {
    table.notes.push_back(fmt::format("{}: {}", key, value));
  }
  return table;
}

}  // namespace virtrain::results
