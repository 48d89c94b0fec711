#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "common/text/json.h"
#include "common/version.h"
#include "results/exchange/exporters/exporters.h"
#include "results/exchange/exporters/view_row.h"

namespace virtrain::results {
namespace {

// mllog writes its keys in this order, and its parser wants all of them.
using Line = nlohmann::ordered_json;

/// Milliseconds since 1970 of "2026-11-20T08:00:00.123Z" (or with +01:00); 0 where the time is not known.
std::int64_t milliseconds_of(const std::string& time) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, used = 0;
  double second = 0;
  const int fields = std::sscanf(time.c_str(), "%4d-%2d-%2dT%2d:%2d:%lf%n", &year, &month, &day, &hour,
                                 &minute, &second, &used);
  if (fields != 6 || !(second >= 0 && second <= 60.999999999)) { return 0; }
  int offset_hours = 0, offset_minutes = 0;
  const std::string zone = time.substr(static_cast<std::size_t>(used));
  if (zone != "Z") { std::sscanf(zone.c_str(), "%3d:%2d", &offset_hours, &offset_minutes); }
  const int offset = offset_hours * 60 + (zone.starts_with('-') ? -offset_minutes : offset_minutes);
  const std::chrono::sys_days date = std::chrono::year(year) / month / day;
  const std::int64_t minutes =
      std::int64_t{date.time_since_epoch().count()} * 1440 + std::int64_t{hour} * 60 + minute - offset;
  return minutes * 60'000 + std::llround(second * 1000);
}

class MlperfLog {
 public:
  explicit MlperfLog(std::ostream& out) : out_(out) {}

  void write_trial(const ViewRow& trial) {
    metadata_ = Line::object();
    for (const char* key : {"experiment", "scenario", "label", "case", "arm", "pair", "trial",
                            "virtualization", "nodes", "gpus_per_node", "batch_size", "precision"}) {
      metadata_[key] = trial[key];
    }
    const auto start_ms = milliseconds_of(trial.text("started_at"));
    const auto end_ms = trial["ended_at"].is_null() ? start_ms : milliseconds_of(trial.text("ended_at"));
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
    metadata_["status"] = trial.text("status") == "finished" ? "success" : "aborted";
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
  for_each_row(store.view("v_trial_detail", experiments),
               [&](const ViewRow& trial) { log.write_trial(trial); });
}

}  // namespace virtrain::results
