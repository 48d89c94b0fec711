// Logs as other tools really leave them: with what newer versions add and what a debug level prints between.
#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

ImportSettings said() {
  return {.experiment = "e", .case_name = "c", .arm = "vm"};
}

}  // namespace

TEST_CASE("logs with a trailing epoch, a fractional batch or a loss of nan are read: the total is enough") {
  const auto text = text_of("two-gpus.log");
  const auto changed = replaced(replaced(replaced(text, "\t7.696", "\tnan"), "\t7.753", "\t7.753 0.01"),
                                "64 per device", "64.0 per device");
  const ImportedText got("a.log", replaced(changed, "10\timages/sec: 620.6", "ten\timages/sec: x"), said());
  const auto trial = got.trials().at(0);
  CHECK(trial.images_per_second == 619.87);
  CHECK(trial.batch_size == 64);
  CHECK(trial.environment["steps"] == 30);
  CHECK(got.store.tenants(trial.id).at(0).loss_last == 7.753);
  const auto& notes = got.report.report.notes;
  REQUIRE(notes.size() == 2);
  CHECK_THAT(notes[0], Contains("loss of 1 steps"));
  CHECK_THAT(notes[1], Contains("1 steps' lines"));
}

TEST_CASE("on how many nodes workers ran is asked, and their GPUs come from the batch sizes") {
  const auto text =
      replaced(replaced(text_of("two-gpus.log"), "['/gpu:0', '/gpu:1']",
                        "['/job:worker/replica:0/task:0/gpu:0', '/job:worker/replica:0/task:0/gpu:1']"),
               "128 global", "256.0 global");
  CHECK_THAT(refusal_of("w.log", text, said()), Contains("give --nodes"));
  auto settings = said();
  settings.nodes = 2;
  const auto trial = ImportedText("w.log", text, settings).trials().at(0);
  CHECK(trial.nodes == 2);
  CHECK(trial.gpus_per_node == 2);
}

TEST_CASE("messages of NCCL_DEBUG between and inside of the rows of nccl-tests are skipped, and noted") {
  const ImportSettings settings{.experiment = "e", .arm = "vm"};
  const auto text = text_of("nccl-tests/all_reduce_perf.txt");
  const auto row = text.find("   134217728");
  REQUIRE(row != std::string::npos);
  const std::string message = "node-a:4711:4720 [0] NCCL INFO comm 0x7f nranks 2 - Init COMPLETE\n";
  const ImportedText between("x.txt", text.substr(0, row) + message + text.substr(row), settings);
  CHECK(between.probes().size() == 6);
  CHECK(between.report.report.notes == std::vector<std::string>{"1 lines of NCCL_DEBUG were skipped"});

  const auto figures = text.find("-1", row) + 2;
  const ImportedText torn("x.txt", text.substr(0, figures) + message + text.substr(figures), settings);
  const auto probes = torn.probes();
  REQUIRE(probes.size() == 6);
  CHECK(probes[4].size_bytes == 134217728);
  CHECK(probes[4].value == Approx(11.69e9));
  CHECK_THAT(torn.report.report.notes.at(0), Contains("1 were put together, 0 were left out"));
  const auto end = text.find('\n', figures);
  const ImportedText lost("x.txt", text.substr(0, figures) + message + text.substr(end), settings);
  CHECK(lost.probes().size() == 4);
  CHECK_THAT(lost.report.report.notes.at(0), Contains("0 were put together, 1 were left out"));
}
