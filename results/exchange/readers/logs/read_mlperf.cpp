// The lines are those of mlcommons/logging, mllog: ":::MLLOG {…}", with whatever a launcher puts in front.
#include <fmt/format.h>

#include <map>

#include "common/system/time.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/readers/logs/mark_fall.h"
#include "results/exchange/readers/logs/mllog_rates.h"
#include "results/exchange/readers/logs/step_levels.h"
#include "results/exchange/records/line_reader.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// Throughput records of one kind. Each is of one epoch, and epochs have as many images as each other: images
/// over time are N of them over the sum of 1 / rate, the harmonic mean. Where samples and seconds are known,
/// those count.
struct Rates {
  double last = 0, samples = 0, seconds = 0;
  std::int64_t count = 0;
  std::vector<StepSpeed> speeds = {};

  void add(const MllogRate& one, std::int64_t line) {
    const bool is_measured = one.seconds > 0;
    speeds.push_back({one.rate, line});
    last = one.rate;
    samples += is_measured ? one.samples : 1;
    seconds += is_measured ? one.seconds : 1 / one.rate;
    ++count;
  }
  /// One alone comes back to the last bit.
  double mean() const { return count == 1 ? last : samples / seconds; }
};

/// One run, from run_start to run_stop.
struct MlperfRun {
  std::string position;
  json metadata;
  std::int64_t start_ms = 0;
  std::map<MllogSource, Rates> by_source = {};
  bool was_aborted = false;

  /// Some programs log each figure under both keys, and all log time stamps: the best kind counts.
  const Rates& rates() const {
    static const Rates none;
    return by_source.empty() ? none : by_source.rbegin()->second;
  }
  bool is_by_stamps() const { return !by_source.empty() && by_source.rbegin()->first == MllogSource::stamps; }
};

class MlperfReader {
 public:
  MlperfReader(LineReader& lines, const ImportSettings& settings, RecordImporter& importer)
      : lines_(lines), settings_(settings), importer_(importer) {}

  void read() {
    while (lines_.next()) {
      const auto line = lines_.line();
      const auto mark = line.find(mllog_mark);
      if (mark == line.npos) { continue; }
      const auto start = mark + mllog_mark.size();
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
    take_shape(key, value);
    if (const auto rate = rates_.take(line); rate && run_) { take_rate(*rate); }
    if (key == "submission_benchmark") {
      benchmark_ = value.is_string() ? value.get<std::string>() : "";
    } else if (key == "run_start") {
      if (run_) { lines_.refuse("run_start within a run"); }
      run_.emplace();
      run_->position = lines_.position();
      run_->metadata = member(line, "metadata");
      const auto ms = number_of(member(line, "time_ms"));
      constexpr double last_ms = 4e12;  // the year 2096
      run_->start_ms = ms && *ms > 0 && *ms < last_ms ? static_cast<std::int64_t>(*ms) : 0;
    } else if (run_ && key == "run_stop") {
      // Facts that are known only at the end of a run: its status, and in our files whether it was valid.
      const auto& metadata = member(line, "metadata");
      if (metadata.is_object() && run_->metadata.is_object()) { run_->metadata.update(metadata); }
      run_->was_aborted = text_in(metadata, "status") == "aborted";
      finish();
    }
  }

  void take_shape(const std::string& key, const json& value) {
    constexpr std::int64_t most = 1'000'000;
    const auto number = number_of(value);
    if (!number || *number < 1 || *number > most) { return; }
    const auto count = static_cast<std::int64_t>(*number);
    if (key == "number_of_nodes") { nodes_ = count; }
    if (key == "number_of_ranks") { ranks_ = count; }
    if (key == "accelerators_per_node") { gpus_per_node_ = count; }
  }

  void take_rate(const MllogRate& one) {
    if (!(one.rate > 0)) {
      lines_.refuse("the throughput is {}, it must be a finite number above zero",
                    excerpt(dump_json(one.said)));
    }
    run_->by_source[one.source].add(one, lines_.number());
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

  /// A trial that virtrain export --format mlperf wrote has all its own facts.
  json our_trial() const {
    json record = {{"record", "trial"}};
    for (const char* key : {"experiment", "scenario", "label", "case", "arm", "pair", "virtualization",
                            "nodes", "gpus_per_node", "batch_size", "precision", "valid", "invalid_reason",
                            "failed_stage", "failure_reason"}) {
      if (const auto& value = member(run_->metadata, key); !value.is_null()) { record[key] = value; }
    }
    if (!record.contains("nodes")) { record["nodes"] = value_json(settings_.nodes); }
    if (!record.contains("gpus_per_node")) { record["gpus_per_node"] = value_json(settings_.gpus_per_node); }
    if (record["nodes"].is_null() || record["gpus_per_node"].is_null()) {
      lines_.refuse("this run does not say its nodes and GPUs: give --nodes and --gpus-per-node");
    }
    if (run_->start_ms > 0) { record["started_at"] = started_at(); }
    if (run_->rates().count > 0) { record["images_per_second"] = run_->rates().mean(); }
    if (const auto& status = member(run_->metadata, "trial_status"); !status.is_null()) {
      record["status"] = status;
    } else if (run_->was_aborted) {
      record["status"] = "failed";
    }
    return record;
  }

  json foreign_trial() {
    const auto& rates = run_->rates();
    if (rates.count == 0 && !run_->was_aborted) {
      lines_.refuse("the run has no throughput (a record throughput, or tracked_stats with one)");
    }
    if (run_->is_by_stamps()) {
      importer_.note(
          fmt::format("the log says no throughput: its samples over the time between the stamps of {}",
                      counted(rates.count, "epoch or block", "epochs or blocks")));
    } else if (rates.count > 1) {
      importer_.note(fmt::format("the harmonic mean of {} throughput records", rates.count));
    }
    TrainingFigure figure{
        rates.count > 0 ? rates.mean() : 0, benchmark_, "throughput", {}, {{"source", "mlperf"}}};
    figure.nodes = nodes_;
    figure.gpus_per_node = gpus_per_node_;
    figure.tasks = ranks_;
    auto record = trial_of(figure, settings_, lines_);
    if (rates.count == 0) { record["images_per_second"] = nullptr; }
    mark_fall(record, rates.speeds, lines_, importer_);
    // Runs end so that miss the accuracy wanted, or were to measure speed alone: what they reached counts.
    if (run_->was_aborted && rates.count > 0) {
      importer_.note("run_stop says aborted: the run ended early or missed its accuracy");
    } else if (run_->was_aborted) {
      record["status"] = "failed";
      record["failure_reason"] = "run_stop says that the run was aborted";
    }
    if (run_->start_ms > 0 && record["started_at"].is_null()) { record["started_at"] = started_at(); }
    return record;
  }

  std::string started_at() const { return iso8601(run_->start_ms * 1'000'000); }

  LineReader& lines_;
  const ImportSettings& settings_;
  RecordImporter& importer_;
  std::string benchmark_;
  std::optional<std::int64_t> nodes_, ranks_, gpus_per_node_;  ///< where the log says so
  MllogRates rates_;
  std::optional<MlperfRun> run_;
  std::int64_t runs_ = 0;
  LeftOut left_out_;
};

}  // namespace

void read_mlperf(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  MlperfReader(lines, settings, importer).read();
}

}  // namespace virtrain::results
