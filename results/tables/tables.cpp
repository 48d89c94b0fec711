#include "results/tables/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/error.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/selector.h"
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

/// "2026-11-29 00:16" of "2026-11-29T00:16:49.202Z", for people.
Cell minute_cell(const std::string& time) {
  constexpr std::size_t date_bytes = 10, minute_bytes = 16;
  auto result = cell(time);
  if (time.size() > minute_bytes) {
    result.text =
        time.substr(0, date_bytes) + " " + time.substr(date_bytes + 1, minute_bytes - date_bytes - 1);
  }
  return result;
}

/// A number that people see only if it is not zero.
Cell count_unless_zero(std::int64_t count) {
  return count > 0 ? cell(count) : silent_cell(count);
}

using E = ExperimentSummary;

/// "6", "5 of 6" where not all finished.
Cell trials_cell(const E& of) {
  auto result = cell(of.trials);
  if (of.finished != of.trials) { result.text = fmt::format("{} of {}", of.finished, of.trials); }
  return result;
}

constexpr ColumnOf<E> experiment_columns[] = {
    {.key = "experiment", .head = "experiment", .cell = [](const E& of) { return cell(of.experiment.id); }},
    {.key = "scenario",
     .head = "scenario",
     .cell = [](const E& of) { return cell(of.experiment.scenario); },
     .wraps = true},
    {.key = "label",
     .head = "label",
     .cell = [](const E& of) { return cell(of.experiment.label); },
     .hide_empty = true,
     .wraps = true},
    {.key = "started_at",
     .head = "started (UTC)",
     .cell = [](const E& of) { return minute_cell(of.experiment.started_at); }},
    {.key = "status",
     .head = "status",
     .cell = [](const E& of) { return cell(to_string(of.experiment.status)); }},
    {.key = "trials", .head = "trials", .cell = trials_cell, .right = true},
    {.key = "finished",
     .head = "",
     .cell = [](const E& of) { return silent_cell(of.finished); },
     .hide_empty = true},
    {.key = "failed",
     .head = "failed",
     .cell = [](const E& of) { return count_unless_zero(of.failed); },
     .right = true,
     .hide_empty = true,
     .spare = true},
    {.key = "interrupted",
     .head = "interrupted",
     .cell = [](const E& of) { return count_unless_zero(of.interrupted); },
     .right = true,
     .hide_empty = true,
     .spare = true},
    {.key = "probes",
     .head = "probes",
     .cell = [](const E& of) { return of.probes > 0 ? cell(of.probes) : Cell{}; },
     .right = true,
     .hide_empty = true}};

struct TrialRow {
  Trial trial;
  std::vector<TenantMean> tenants;
};

/// The throughput of each tenant; people see that of a single one with its trial.
Cell several_tenants(const std::vector<TenantMean>& tenants) {
  auto result = tenants_cell(tenants);
  if (tenants.size() < 2) { result.text.clear(); }
  return result;
}

using T = TrialRow;
constexpr ColumnOf<T> trial_columns[] = {
    {"trial_order", "#", [](const T& of) { return cell(of.trial.order); }, true},
    {.key = "case",
     .head = "case",
     .cell = [](const T& of) { return cell(of.trial.case_name); },
     .wraps = true},
    {.key = "arm", .head = "arm", .cell = [](const T& of) { return cell(of.trial.arm); }, .wraps = true},
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
    {.key = "tenants",
     .head = "of each tenant",
     .cell = [](const T& of) { return several_tenants(of.tenants); },
     .right = true,
     .hide_empty = true,
     .wraps = true},
    {"virtualization", "virtual", [](const T& of) { return cell(of.trial.virtualization); }},
    {.key = "started_at",
     .head = "started",
     .cell = [](const T& of) { return cell(of.trial.started_at); },
     .spare = true},
    {.key = "remark",
     .head = "remark",
     .cell = [](const T& of) { return cell(remark(of.trial)); },
     .hide_empty = true,
     .wraps = true}};

constexpr std::size_t most_property_bytes = 100, cut_property_bytes = 44;

/// Properties of the host and its software, those of packages as one count unless `all` are wanted.
std::vector<std::string> property_lines(const Experiment& experiment, bool all) {
  std::vector<std::string> lines;
  std::size_t packages = 0, cut = 0;
  for (const auto& [key, value] : experiment.fingerprint) {
    const bool is_package = key.starts_with("package.");
    packages += is_package ? 1 : 0;
    if (is_package && !all) { continue; }
    const bool is_cut = !all && value.size() > most_property_bytes;
    cut += is_cut ? 1 : 0;
    lines.push_back(fmt::format("{}: {}", key, is_cut ? excerpt(value, cut_property_bytes) : value));
  }
  if (all || packages + cut == 0) { return lines; }
  std::vector<std::string> parts;
  if (packages > 0) { parts.push_back(counted(packages, "package") + " of guests"); }
  if (cut > 0) { parts.push_back("the rest of " + counted(cut, "value")); }
  lines.push_back(fmt::format("Not shown: {} (--packages shows them).", join(parts, ", ")));
  return lines;
}

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
    if (!xml.empty()) { notes.push_back("this in the domain's XML fixes it:\n" + xml); }
  }
}

Table show_experiment(const Store& store, const std::string& id, bool all_properties) {
  const auto experiment = store.known_experiment("show", id);
  std::vector<std::string> facts;
  for (const auto& [name, fact] : experiment_facts(experiment)) {
    facts.push_back(fmt::format("{} {}", name, fact));
  }
  std::vector<TrialRow> rows;
  for (auto& trial : store.trials(id)) {
    auto tenants = tenant_values(store, trial.id);
    rows.push_back({std::move(trial), std::move(tenants)});
  }
  auto table = table_of(trial_columns, rows);
  table.title = "experiment " + id + ": " + join(facts, ", ");
  for (auto& sentence : variant_sentences(experiment.plan)) { table.notes.push_back(std::move(sentence)); }
  if (const auto probes = store.probes(id).size(); probes > 0) {
    table.notes.push_back(fmt::format("{}{}: virtrain show {} --probes",
                                      table.rows.empty() ? "no trials, " : "", counted(probes, "probe"), id));
  }
  if (const auto figures = store.trial_figures(id).size(); figures > 0) {
    table.notes.push_back(
        fmt::format("{} next to the throughput: virtrain show {} --figures", counted(figures, "figure"), id));
  }
  append_remarks(store, id, table.notes);
  for (auto& line : property_lines(experiment, all_properties)) { table.notes.push_back(std::move(line)); }
  return table;
}

}  // namespace virtrain::results
