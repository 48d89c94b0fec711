#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/text/text.h"
#include "common/text/units.h"
#include "results/report/page/page.h"

namespace virtrain::results {
namespace {

// A browser lays out a table anew with each part of it that arrives, so a long list is cut into tables. It
// skips none of them (content-visibility): what it skips is blank where the page is captured whole.
constexpr std::size_t rows_of_table = 200;

std::string throughput_words(const std::optional<Throughput>& throughput, Status status = Status::finished) {
  if (status != Status::finished) { return to_string(status); }
  if (!throughput) { return ""; }
  const auto& [value, unit] = *throughput;
  return unit == images_unit ? fmt::format("{:.{}f}", value, value < 10 ? 3 : 1)
                             : figure_words(value) + " " + unit;
}

std::string tenants_words(const std::vector<Tenant>& tenants) {
  std::vector<std::string> words;
  for (const auto& tenant : tenants) {
    if (tenant.throughput) { words.push_back(throughput_words(tenant.throughput)); }
  }
  return words.size() < 2 ? "" : join(words, " + ");
}

/// Virtualization of a trial, in words that nobody has to look up.
std::string virtual_words(const Trial& trial, const std::string& label) {
  static const std::map<std::string, std::string> words{
      {"none", "no"},
      {"kvm", "KVM"},
      {"kvm_nested", "KVM, nested"},
      {"kvm_on_emulated", "emulated (KVM on an emulated CPU)"},
      {"tcg", "emulated (TCG)"}};
  const auto found = words.find(trial.virtualization);
  const bool ran = trial.status == Status::finished;
  std::string text = found != words.end() ? found->second : ran ? "not stated" : "not known";
  if (label == "published" || (ran && trial.virtualization.empty())) { text += ", published"; }
  return text;
}

/// Why a trial has no result, or must not be compared.
std::string remark(const Trial& trial) {
  std::vector<std::string> parts;
  if (!trial.valid) { parts.push_back("invalid: " + trial.invalid_reason); }
  if (!trial.failure_reason.empty()) {
    parts.push_back(trial.failed_stage.empty() ? trial.failure_reason
                                               : trial.failed_stage + ": " + trial.failure_reason);
  }
  if (trial.oversubscribed) { parts.emplace_back("more ranks than cores"); }
  return join(parts, "; ");
}

/// "2026-11-20 08:06:49": to the second, as people write it.
std::string moment(const std::string& time) {
  std::string text = time.substr(0, 19);
  std::ranges::replace(text, 'T', ' ');
  return text;
}

nlohmann::json row_of(const ReportTrial& one, std::size_t number, const Experiment& experiment) {
  const auto& trial = one.trial;
  const auto remarks = remark(trial);
  return {{"number", number},
          {"case", trial.case_name},
          {"arm", arm_words(trial.arm)},
          {"pair", trial.pair ? std::to_string(*trial.pair) : ""},
          {"nodes", trial.nodes},
          {"throughput", throughput_words(trial.throughput, trial.status)},
          {"tenants", tenants_words(one.tenants)},
          {"virtual", virtual_words(trial, experiment.label)},
          {"started", moment(trial.started_at)},
          {"remark", remarks},
          {"odd", !remarks.empty() || trial.status != Status::finished}};
}

}  // namespace

nlohmann::json trials_model(const ReportData& data) {
  auto tables = nlohmann::json::array();
  std::size_t number = 0;
  const Experiment* experiment = nullptr;
  // Cells in another unit say it themselves.
  std::set<std::string> units;
  for (const auto& one : data.trials) {
    if (one.trial.throughput) { units.insert(one.trial.throughput->unit); }
  }
  const bool all_other = !units.empty() && !units.contains(images_unit);
  for (const auto& one : data.trials) {
    if (experiment == nullptr || experiment->id != one.trial.experiment ||
        tables.back()["rows"].size() == rows_of_table) {
      experiment = &*std::ranges::find_if(
          data.experiments, [&](const auto& candidate) { return candidate.id == one.trial.experiment; });
      tables.push_back({{"experiment", experiment->id},
                        {"first", number + 1},
                        {"throughput_head", all_other ? "Throughput" : "Images/s"},
                        {"has_remarks", false},
                        {"has_tenants", false},
                        {"has_started", false},
                        {"rows", nlohmann::json::array()}});
    }
    auto row = row_of(one, ++number, *experiment);
    if (row["odd"] == true) { tables.back()["has_remarks"] = true; }
    for (const auto& [has, cell] : {std::pair{"has_tenants", "tenants"}, {"has_started", "started"}}) {
      if (row[cell] != "") { tables.back()[has] = true; }
    }
    tables.back()["rows"].push_back(std::move(row));
    tables.back()["last"] = number;
  }
  return {{"count", number}, {"tables", tables}};
}

}  // namespace virtrain::results
