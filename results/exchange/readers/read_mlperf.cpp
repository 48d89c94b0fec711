// The lines are those of mlcommons/logging, mllog: ":::MLLOG {…}", with whatever a launcher puts in front.
#include <fmt/format.h>

#include "common/system/time.h"
#include "common/text/json.h"
#include "common/text/text.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/records/json_lines.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

constexpr std::string_view mlperf_mark = ":::MLLOG ";

/// One run, from run_start to run_stop.
struct MlperfRun {
  std::string position;
  json metadata;
  std::int64_t start_ms = 0;
  double sum = 0;
  std::int64_t count = 0;
};

class MlperfReader {
 public:
  MlperfReader(LineReader& lines, const ImportSettings& settings, RecordImporter& importer)
      : lines_(lines), settings_(settings), importer_(importer) {}

  void read() {
    while (lines_.next()) {
      const auto line = lines_.line();
      const auto mark = line.find(mlperf_mark);
      if (mark == line.npos) { continue; }
      const auto start = mark + mlperf_mark.size();
      if (is_torn(lines_, start)) {
        left_out_.add(torn_line);
        break;
      }
      take(parse_part(lines_, start, {}));
    }
    if (run_) { lines_.refuse("the log ends without run_stop: the run did not finish"); }
    if (runs_ == 0) { lines_.refuse("there is no run_start in it"); }
    left_out_.report(importer_);
  }

 private:
  void take(const json& line) {
    const auto key = text_in(line, "key");
    const auto& value = member(line, "value");
    if (key == "submission_benchmark") {
      benchmark_ = value.is_string() ? value.get<std::string>() : "";
    } else if (key == "run_start") {
      if (run_) { lines_.refuse("run_start within a run"); }
      run_ = MlperfRun{lines_.position(), member(line, "metadata")};
      const auto ms = number_of(member(line, "time_ms"));
      constexpr double last_ms = 4e12;  // the year 2096
      run_->start_ms = ms && *ms > 0 && *ms < last_ms ? static_cast<std::int64_t>(*ms) : 0;
    } else if (run_ && (key == "throughput" || key == "tracked_stats")) {
      const auto rate = number_of(key == "throughput" ? value : member(value, "throughput"));
      if (!rate) { return; }
      run_->sum += *rate;
      ++run_->count;
    } else if (run_ && key == "run_stop") {
      finish();
    }
  }

  void finish() {
    const bool is_ours =
        !text_in(run_->metadata, "experiment").empty() && !text_in(run_->metadata, "arm").empty();
    if (!benchmark_.starts_with("resnet") && !is_ours) {
      lines_.refuse("submission_benchmark is \"{}\"; only resnet's throughput is in images per second",
                    excerpt(benchmark_));
    }
    importer_.add(is_ours ? our_trial() : foreign_trial(), run_->position);
    run_.reset();
    ++runs_;
  }

  /// What virtrain export --format mlperf wrote says all of itself.
  json our_trial() const {
    json record = {{"record", "trial"}};
    for (const char* key : {"experiment", "scenario", "label", "case", "arm", "pair", "virtualization",
                            "nodes", "gpus_per_node", "batch_size", "precision"}) {
      if (const auto& value = member(run_->metadata, key); !value.is_null()) { record[key] = value; }
    }
    if (!record.contains("nodes")) { record["nodes"] = value_json(settings_.nodes); }
    if (!record.contains("gpus_per_node")) { record["gpus_per_node"] = value_json(settings_.gpus_per_node); }
    if (record["nodes"].is_null() || record["gpus_per_node"].is_null()) {
      lines_.refuse("this run does not say its nodes and GPUs: give --nodes and --gpus-per-node");
    }
    if (run_->start_ms > 0) { record["started_at"] = started_at(); }
    if (run_->count > 0) { record["images_per_second"] = run_->sum / static_cast<double>(run_->count); }
    return record;
  }

  json foreign_trial() {
    if (run_->count == 0) {
      lines_.refuse("the run has no throughput (a record throughput, or tracked_stats with one)");
    }
    if (run_->count > 1) { importer_.note(fmt::format("the mean of {} throughput records", run_->count)); }
    const TrainingFigure figure{
        run_->sum / static_cast<double>(run_->count), benchmark_, "throughput", {}, {{"source", "mlperf"}}};
    auto record = trial_of(figure, settings_, lines_);
    if (run_->start_ms > 0 && record["started_at"].is_null()) { record["started_at"] = started_at(); }
    return record;
  }

  std::string started_at() const { return iso8601(run_->start_ms * 1'000'000); }

  LineReader& lines_;
  const ImportSettings& settings_;
  RecordImporter& importer_;
  std::string benchmark_;
  std::optional<MlperfRun> run_;
  std::int64_t runs_ = 0;
  LeftOut left_out_;
};

}  // namespace

void read_mlperf(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  MlperfReader(lines, settings, importer).read();
}

}  // namespace virtrain::results
