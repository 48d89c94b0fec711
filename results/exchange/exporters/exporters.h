#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "results/reading/reading.h"
#include "results/store/store.h"
#include "results/tables/render.h"

namespace virtrain::results {

// Exports for other tools. All of them read the database's views, and equal data gives equal bytes.

/// Experiments that an export is about: as Store::select, but with `all` or by name also those without
/// trials.
std::vector<std::string> experiments_to_export(const Store& store, const Selection& selection);

/// The experiment of an id that experiments_to_export() gave; Error(bad_input) where the database contradicts
/// itself.
Experiment experiment_to_export(const Store& store, const std::string& id);

/// A view's rows as a table; numbers in full precision.
Table view_table(const Store& store, const std::vector<std::string>& experiments, const std::string& view);

/// SuperBench's results-summary.jsonl: a line a node, whose metrics are
/// "model-benchmarks:CASE/virtrain-resnet50/[RUN/]PRECISION_train_throughput[:RANK]", images per second of
/// one rank (of one GPU), so that its rules can hold a VM's line against bare metal's.
void export_superbench(const Store& store, const std::vector<std::string>& experiments, std::ostream& out);

/// Nodes of its lines that took part in fewer cases than others of their experiment: `sb result diagnosis`
/// takes each metric that a node lacks for a failed test.
std::vector<std::string> superbench_incomplete_nodes(const Store& store,
                                                     const std::vector<std::string>& experiments);

/// MLPerf logging (mlcommons/logging, mllog): for each trial run_start, throughput and run_stop. Its
/// throughput has no unit, so trials in another than images/s are left out.
void export_mlperf(const Store& store, const std::vector<std::string>& experiments, std::ostream& out);

/// Trials in each unit that superbench and mlperf cannot say: all but images/s.
std::map<std::string, std::int64_t> trials_in_other_units(const Store& store,
                                                          const std::vector<std::string>& experiments);

/// Prometheus's text format for node_exporter's textfile collector.
void export_prometheus(const Store& store, const std::vector<std::string>& experiments, std::ostream& out);

/// Changes as JUnit XML for CI systems: a suite for each scenario, a test case for each series of its present
/// text. An open loss is a failure; all other changes are the output of a test case that passed.
/// `database_option` as changes_table() has it.
void export_changes_junit(const ChangeLog& log, std::ostream& out, const std::string& database_option = "");

/// The level, last night, verdict and changes of each series in Prometheus's text format.
void export_changes_prometheus(const ChangeLog& log, std::ostream& out);

/// One row of a view, by the names of its columns.
class ViewRow {
 public:
  ViewRow(const ViewRows& view, std::size_t index) : view_(view), row_(view.rows[index]) {}

  const nlohmann::json& operator[](std::string_view column) const { return row_[view_.column(column)]; }
  /// Empty where it is null; numbers as JSON writes them.
  std::string text(std::string_view column) const {
    const auto& value = (*this)[column];
    if (value.is_string()) { return value.get<std::string>(); }
    return value.is_null() ? "" : value.dump();
  }
  std::int64_t whole(std::string_view column, std::int64_t otherwise) const {
    const auto& value = (*this)[column];
    return value.is_number() ? value.get<std::int64_t>() : otherwise;
  }

 private:
  const ViewRows& view_;
  const std::vector<nlohmann::json>& row_;
};

/// Whether the trial of this row ended well and its figures count.
inline bool is_good_trial(const ViewRow& row) {
  return row.text("status") == "finished" && row["valid"] == 1;
}

/// Calls `visit` with each row of the view.
template <typename Visit>
void for_each_row(const ViewRows& view, Visit&& visit) {
  for (std::size_t i = 0; i < view.rows.size(); ++i) { visit(ViewRow(view, i)); }
}

}  // namespace virtrain::results
