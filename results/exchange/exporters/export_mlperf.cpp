#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "common/text/json.h"
#include "common/version.h"
#include "results/exchange/exporters/exporters.h"
#include "results/exchange/records/exchange_columns.h"

namespace virtrain::results {
namespace {

// mllog writes its keys in this order, and its parser wants all of them.
using Line = nlohmann::ordered_json;

class MlperfLog {
 public:
  explicit MlperfLog(std::ostream& out) : out_(out) {}

  void write_trial(const ViewRow& trial) {
    metadata_ = Line::object();
    for (const char* key : {"experiment", "scenario", "label", "case", "arm", "pair", "trial",
                            "virtualization", "nodes", "gpus_per_node", "batch_size", "precision"}) {
      metadata_[key] = trial[key];
    }
    const auto start_ms = milliseconds_of(trial.text("started_at")).value_or(0);
    const auto end_ms = milliseconds_of(trial.text("ended_at")).value_or(start_ms);
    const auto point = [&](const char* key, const nlohmann::json& value) {
      if (!value.is_null()) { write(start_ms, "POINT_IN_TIME", key, value); }
    };
    point("submission_benchmark", "resnet");
    point("submission_platform", fmt::format("virtrain {}", virtrain_version));
    const auto ranks = trial.whole("nodes", 1) * std::max<std::int64_t>({trial.whole("ranks_per_node", 0),
                                                                         trial.whole("gpus_per_node", 0), 1});
    if (trial["batch_size"].is_number()) {
      point("global_batch_size", trial["batch_size"].get<std::int64_t>() * ranks);
    }
    write(start_ms, "INTERVAL_START", "run_start", nullptr);
    if (!trial["images_per_second"].is_null()) {
      write(end_ms, "POINT_IN_TIME", "throughput", trial["images_per_second"]);
    }
    // MLPerf knows two ends of a run; the other keys say how ours ended, and `import` reads them back.
    metadata_["status"] = is_good_trial(trial) ? "success" : "aborted";
    metadata_["trial_status"] = trial["status"];
    metadata_["valid"] = trial["valid"] == 1;
    for (const char* key : {"invalid_reason", "failed_stage", "failure_reason"}) {
      if (!trial.text(key).empty()) { metadata_[key] = trial[key]; }
    }
    write(end_ms, "INTERVAL_END", "run_stop", nullptr);
  }

 private:
  void write(std::int64_t time_ms, const char* event_type, const char* key, const nlohmann::json& value) {
    const Line line = {{"namespace", ""}, {"time_ms", time_ms},   {"event_type", event_type},
                       {"key", key},      {"value", Line(value)}, {"metadata", metadata_}};
    out_ << ":::MLLOG " << safe_json_text(line.dump(-1, ' ', false, Line::error_handler_t::replace)) << '\n';
  }

  std::ostream& out_;
  Line metadata_;
};

}  // namespace

void export_mlperf(const Store& store, const std::vector<std::string>& experiments, std::ostream& out) {
  MlperfLog log(out);
  for_each_row(store.view("v_trial_detail", experiments), [&](const ViewRow& trial) {
    if (trial["unit"].is_null()) { log.write_trial(trial); }
  });
}

std::map<std::string, std::int64_t> trials_in_other_units(const Store& store,
                                                          const std::vector<std::string>& experiments) {
  std::map<std::string, std::int64_t> trials;
  for_each_row(store.view("v_trial_detail", experiments), [&](const ViewRow& trial) {
    if (!trial["unit"].is_null()) { ++trials[trial.text("unit")]; }
  });
  return trials;
}

}  // namespace virtrain::results
