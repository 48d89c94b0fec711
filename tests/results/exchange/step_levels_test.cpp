// Logs whose steps fall from one level to another, and logs that only look so.
#include "results/exchange/readers/logs/step_levels.h"

#include <fmt/format.h>

#include <functional>
#include <random>

#include "results/reading/reading.h"
#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

using Speed = std::function<double(int step)>;

std::vector<StepSpeed> steps_of(int count, const Speed& speed) {
  std::vector<StepSpeed> steps;
  for (int i = 0; i < count; ++i) { steps.push_back({speed(i), i + 1}); }
  return steps;
}

std::int64_t line_of_fall(int count, const Speed& speed) {
  const auto fall = find_fall(steps_of(count, speed));
  return fall ? fall->line : 0;
}

/// A log of tf_cnn_benchmarks whose lines are means over all steps so far.
std::string tf_log(int lines, int every, const Speed& speed, const std::string& devices = "['/gpu:0']") {
  std::string text =
      "Model:       resnet50\nBatch size:  64 global\n             64 per device\nDevices:     " + devices +
      "\nVariables:   replicated\nStep\tImg/sec\ttotal_loss\n";
  double time = 0;
  for (int line = 1; line <= lines; ++line) {
    for (int step = (line - 1) * every; step < line * every; ++step) { time += 1 / speed(step); }
    text += fmt::format("{}\timages/sec: {:.1f} +/- 0.1 (jitter = 0.6)\t7.5\n", line * every,
                        line * every / time);
  }
  const std::string rule(64, '-');
  return text + fmt::format("{}\ntotal images/sec: {:.2f}\n{}\n", rule, lines * every / time, rule);
}

/// 800, and an eighth of it from this step on.
Speed falls_at(int step) {
  return [step](int i) { return i < step ? 800.0 : 100.0; };
}

}  // namespace

TEST_CASE("a fall for good, or for a good while, is found at its line") {
  CHECK(line_of_fall(100, falls_at(50)) == 51);
  CHECK(line_of_fall(6, falls_at(3)) == 4);
  CHECK(line_of_fall(100, falls_at(15)) == 16);
  CHECK(line_of_fall(100, falls_at(88)) == 89);
  CHECK(line_of_fall(5000, falls_at(2517)) == 2518);
  CHECK(line_of_fall(100, [](int i) { return i < 60 ? 100.0 : 70.0; }) == 61);
  CHECK(line_of_fall(100, [](int i) { return i >= 40 && i < 60 ? 40.0 : 100.0; }) == 41);
  CHECK(line_of_fall(100, [](int i) { return i < 40 ? 12.0 : 100.0; }) == 41);  // a licence that came late
}

TEST_CASE("a slow start, single slow steps, pauses, noise and drift are no fall") {
  CHECK(line_of_fall(100, [](int i) { return i < 20 ? 20.0 : 100.0; }) == 0);
  CHECK(line_of_fall(10, [](int i) { return i < 3 ? 20.0 : 100.0; }) == 0);
  CHECK(line_of_fall(100, [](int i) { return i == 50 ? 5.0 : 100.0; }) == 0);
  CHECK(line_of_fall(100, [](int i) { return i % 10 == 9 ? 10.0 : 100.0; }) == 0);  // an evaluation
  CHECK(line_of_fall(400, [](int i) { return i % 100 > 95 ? 10.0 : 100.0; }) == 0);
  CHECK(line_of_fall(100, [](int i) { return 100.0 - 0.2 * i; }) == 0);
  CHECK(line_of_fall(100, [](int i) { return i < 50 ? 100.0 : 85.0; }) == 0);  // a mean says enough of it
  CHECK(line_of_fall(100, [](int i) { return i < 96 ? 100.0 : 10.0; }) == 0);  // the end of the run
  CHECK(line_of_fall(5, falls_at(2)) == 0);
  std::mt19937 random(1);
  for (const double noise : {0.05, 0.2, 0.5}) {
    std::lognormal_distribution<double> speed(std::log(100), noise);
    for (int trial = 0; trial < 300; ++trial) {
      CAPTURE(noise, trial);
      CHECK(line_of_fall(100, [&](int) { return speed(random); }) == 0);
      if (noise < 0.5) {
        CHECK(line_of_fall(100, [&](int i) { return speed(random) / (i < 50 ? 1 : 8); }) == 51);
      }
    }
  }
}

TEST_CASE("a log whose mean hides a fall is a trial without a verdict, with the line at which it falls") {
  auto settings = asked();
  settings.gpus_per_node.reset();
  const ImportedText got("a.log", tf_log(40, 100, falls_at(2000)), settings);
  const auto trial = got.trials().at(0);
  CHECK(in_images(trial.throughput).value() == Approx(177.78).margin(0.01));
  CHECK_FALSE(trial.valid);
  CHECK(trial.status == Status::finished);
  // Lines 7 to 46 are of steps 100 to 4000; the first slow one says step 2100.
  CHECK_THAT(trial.invalid_reason, StartsWith("the steps fall from about 800") &&
                                       Contains("to 100 images/s at ") && Contains("a.log:27, ") &&
                                       Contains("vGPU licence"));
  CHECK_THAT(got.report.report.notes.at(0), Contains("no verdict") && Contains("a.log:27"));
  CHECK(compare(got.store, {}).at(0).invalid_left_out == 1);
  const ImportedText again("r.jsonl", exported(got.store));
  CHECK(again.trials().at(0).invalid_reason == trial.invalid_reason);
  // Lines that are nearer to each other than their digits can tell.
  CHECK_FALSE(ImportedText("a.log", tf_log(200, 10, falls_at(1000)), settings).trials().at(0).valid);
  for (const auto& even :
       {tf_log(40, 100, [](int) { return 781.25; }), tf_log(2000, 1, [](int) { return 23.17; }),
        tf_log(40, 10, [](int i) { return i < 10 ? 50.0 : 400.0; })}) {
    CHECK(ImportedText("a.log", even, settings).trials().at(0).valid);
  }
}

TEST_CASE("other readers of steps see a fall too") {
  std::string vision, json, terminal, horovod = "Model: resnet50\nBatch size: 64\n", mlperf;
  terminal = "DLL 2025-01-01 00:00:00.1 - PARAMETER arch : resnet50  batch_size : 64\n";
  mlperf =
      ":::MLLOG {\"key\": \"submission_benchmark\", \"value\": \"resnet\"}\n:::MLLOG {\"key\": "
      "\"run_start\"}\n";
  const auto speed = falls_at(10);
  for (int i = 0; i < 20; ++i) {
    vision += fmt::format("Epoch: [0]  [{}/20]  lr: 0.1  img/s: {}  loss: 6.9\n", i, speed(i));
    json += fmt::format("DLLL {{\"type\":\"LOG\",\"step\":[0,{}],\"data\":{{\"train.total_ips\":{}}}}}\n", i,
                        speed(i));
    terminal += fmt::format(
        "DLL 2025-01-01 00:00:00.1 - Epoch: 0 Iteration: {}  train.loss : 7.0  train.total_ips : {} img/s\n",
        i, speed(i));
    horovod += fmt::format("Iter #{}: {} img/sec per GPU\n", i, speed(i));
    mlperf += fmt::format(":::MLLOG {{\"key\": \"throughput\", \"value\": {}}}\n", speed(i));
  }
  json += "DLLL {\"type\":\"LOG\",\"step\":[],\"data\":{\"train.total_ips\":200.5}}\n";
  terminal += "DLL 2025-01-01 00:00:01.1 - Summary: train.loss : 7.0  train.total_ips : 200.50 img/s\n";
  horovod += "Img/sec per GPU: 450.0 +-2.0\nTotal img/sec on 1 GPU(s): 450.0 +-7.8\n";
  mlperf += ":::MLLOG {\"key\": \"run_stop\", \"metadata\": {\"status\": \"success\"}}\n";
  const std::pair<std::string, int> logs[] = {
      {vision, 11}, {json, 11}, {terminal, 12}, {horovod, 13}, {mlperf, 13}};
  for (const auto& [text, line] : logs) {
    const auto trial = ImportedText("x.log", text, asked()).trials().at(0);
    CAPTURE(text.substr(0, 20), trial.invalid_reason);
    CHECK_FALSE(trial.valid);
    CHECK_THAT(trial.invalid_reason, Contains(fmt::format("x.log:{}, ", line)));
  }
}

TEST_CASE("processes of which one is much slower are said") {
  const auto devices = [](double total) {
    return fmt::format(
        "Model: resnet50\nDevices: ['/gpu:0']\nVariables: parameter_server\nBatch size: 64 global\n 64 per "
        "device\n"
        "--------\ntotal images/sec: {}\n--------\n",
        total);
  };
  auto settings = asked();
  settings.gpus_per_node.reset();
  settings.scope = Scope::rank;
  const ImportedText got("a.log", devices(411.9) + devices(96), settings);
  CHECK(in_images(got.trials().at(0).throughput) == Approx(507.9));
  CHECK_THAT(got.report.report.notes.at(0),
             StartsWith("the slowest of 2 processes runs at 23 % of the fastest"));
  CHECK(ImportedText("a.log", devices(411.9) + devices(405), settings).report.report.notes.empty());
}
