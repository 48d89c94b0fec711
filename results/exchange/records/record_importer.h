#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "results/exchange/records/exchange_columns.h"
#include "results/exchange/records/import_settings.h"
#include "results/store/store.h"

namespace virtrain::results {

/// Checks the exchange records of one file and stores them. Every reader of another format makes such records
/// too, so that all of them are held to the same rules.
class RecordImporter {
 public:
  /// `is_run`: the file is what one run of a tool printed.
  RecordImporter(Store& store, bool is_run) : store_(store), is_run_(is_run) {}

  /// Stores one record; what is wrong with it is an Error(bad_input) that starts with the position.
  void add(const nlohmann::json& record, const std::string& position);
  /// Counts what a reader had to leave aside.
  void leave_out(std::int64_t count) { report_.left_out += count; }
  /// Tells the user something about the file.
  void note(const std::string& words);
  const ImportReport& report() const { return report_; }

 private:
  /// The state of an experiment after the records of this file so far.
  struct ImportedExperiment {
    std::string scenario;
    std::string label;
    std::vector<std::int64_t> trials = {};  ///< row ids, in the order of their records
    std::optional<std::int64_t> run = {};   ///< of this file's probes
  };

  void add_record(const nlohmann::json& record, const std::string& position);
  void add_experiment(ObjectReader& reader);
  void add_trial(ObjectReader& reader);
  void add_tenant(std::int64_t trial, const std::optional<Throughput>& whole, const nlohmann::json& object,
                  const std::string& position);
  void add_sample(ObjectReader& reader);
  void add_telemetry(ObjectReader& reader);
  void add_figure(ObjectReader& reader);
  void add_event(ObjectReader& reader);
  void add_probe(ObjectReader& reader);
  void add_leak_search(ObjectReader& reader);
  ImportedExperiment& experiment_of(const ObjectReader& reader, const std::string& id,
                                    const std::string& scenario, const std::string& label);
  std::int64_t take_tenant(ObjectReader& reader);
  std::int64_t trial_row(const ObjectReader& reader, const std::string& experiment, std::int64_t ordinal);

  Store& store_;
  bool is_run_;
  ImportReport report_;
  std::map<std::string, ImportedExperiment> experiments_;
  // Row ids of what this file brought, by owner and index, name or rank.
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> tenants_;
  std::map<std::pair<std::int64_t, std::string>, std::int64_t> nodes_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> ranks_;
};

}  // namespace virtrain::results
