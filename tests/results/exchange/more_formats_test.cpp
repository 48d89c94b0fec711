// Forms of other tools' output that people have at hand: what is printed to a terminal, reports, tables of
// pandas.
#include <fmt/format.h>

#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

const std::string horovod_log =
    "Model: resnet50\nBatch size: 64\nNumber of GPUs: 4\nRunning warmup...\nRunning benchmark...\n"
    "Iter #0: 100.0 img/sec per GPU\nIter #1: 102.0 img/sec per GPU\nImg/sec per GPU: 101.0 +-2.0\n"
    "Total img/sec on 4 GPU(s): 404.0 +-7.8\n";

ImportSettings on_one_node() {
  auto settings = asked();
  settings.gpus_per_node.reset();
  return settings;
}

}  // namespace

TEST_CASE("the synthetic benchmark of Horovod and BytePS is a trial of all its GPUs") {
  const ImportedText got("h.log", horovod_log, on_one_node());
  CHECK(got.report.format == FileFormat::horovod);
  const auto trials = got.trials();
  REQUIRE(trials.size() == 1);
  CHECK(in_images(trials[0].throughput) == 404.0);
  CHECK(trials[0].gpus_per_node == 4);
  CHECK(trials[0].batch_size == 64);
  CHECK(trials[0].environment["model"] == "resnet50");
  std::string tagged;
  for (const auto& line : split(trim(horovod_log), '\n')) { tagged += "[1,0]<stdout>:" + line + "\n"; }
  CHECK(in_images(ImportedText("h.log", tagged, on_one_node()).trials().at(0).throughput) == 404.0);
  auto settings = on_one_node();
  settings.scope = Scope::rank;
  CHECK_THAT(refusal_of("h.log", horovod_log, settings), StartsWith("h.log:9: ") && Contains("scope trial"));
  settings = on_one_node();
  settings.gpus_per_node = 8;
  CHECK_THAT(refusal_of("h.log", horovod_log, settings),
             Contains("of 4 GPUs, which are not 1 node with 8 each"));
  settings.gpus_per_node.reset();
  settings.nodes.reset();
  CHECK_THAT(refusal_of("h.log", horovod_log, settings), Contains("--nodes"));
  CHECK_THAT(refusal_of("h.log", horovod_log.substr(0, horovod_log.find("Total")), on_one_node()),
             Contains("it did not finish"));
  CHECK_THAT(refusal_of("h.log", replaced(horovod_log, "404.0", "808.0"), on_one_node()),
             Contains("a total of 808 on 4 devices, and 101 on one"));
  CHECK_THAT(refusal_of("h.log", replaced(horovod_log, "404.0", "nan"), on_one_node()), Contains("finite"));
  // Each rank may print it; a second run begins anew.
  const auto again = horovod_log + "Img/sec per GPU: 101.0 +-2.0\nTotal img/sec on 4 GPU(s): 404.1 +-7.8\n";
  const ImportedText ranks("h.log", again, on_one_node());
  CHECK(ranks.trials().size() == 1);
  CHECK_THAT(ranks.report.report.notes.at(0), StartsWith("1 more total of the same run"));
  CHECK(ImportedText("h.log", horovod_log + horovod_log, on_one_node()).trials().size() == 2);
  // TensorFlow 1 calls its device by name, and without GPUs each is a process.
  const auto by_name =
      ImportedText("h.log", "Total img/sec on 2 /gpu:0(s): 200.5 +-0.1\n", on_one_node()).trials();
  CHECK(by_name.at(0).gpus_per_node == 2);
  const auto on_cpus =
      ImportedText("h.log", "Total img/sec on 2 CPU(s): 20.5 +-0.1\n", on_one_node()).trials();
  CHECK(on_cpus.at(0).gpus_per_node == 0);
  CHECK(in_images(on_cpus.at(0).throughput) == 20.5);
}

TEST_CASE("dllogger's lines for the terminal say what its JSON says") {
  const std::string text =
      "some program's own words\n"
      "DLL 2025-01-01 00:00:00.000001 - PARAMETER arch : resnet50  epochs : 1  batch_size : 64  amp : False\n"
      "DLL 2025-01-01 00:00:30.000001 - Epoch: 0 Iteration: 1  train.loss : 7.1  train.total_ips : 120.44 "
      "img/s\n"
      "DLL 2025-01-01 00:01:00.000001 - Summary: train.loss : 7.0  train.total_ips : 250.50 img/s\n"
      "DLL 2025-01-01 00:01:00.000002 - Summary: train.compute_ips : 251.00 img/s train.data_time : 0.001 "
      "s\n";
  const ImportedText got("d.log", text, asked());
  CHECK(got.report.format == FileFormat::dllogger);
  const auto trial = got.trials().at(0);
  CHECK(in_images(trial.throughput) == 250.5);
  CHECK(trial.batch_size == 64);
  CHECK(trial.environment["model"] == "resnet50");
  CHECK_THAT(refusal_of("d.log", text.substr(0, text.find("DLL 2025-01-01 00:01:00.000001")), asked()),
             Contains("did not finish"));
  CHECK_THAT(
      refusal_of("d.log", replaced(text, "250.50 img/s", "250.50 tokens/s").substr(0, text.size() - 80),
                 asked()),
      Contains("in images a second"));
  // Where both backends wrote to one file, each figure stands there twice.
  const std::string json = "DLLL {\"type\":\"LOG\",\"step\":[],\"data\":{\"train.total_ips\":250.5}}\n";
  CHECK(ImportedText("d.log", text + json, asked()).trials().size() == 1);
}

TEST_CASE("ReFrame's report in JSON becomes trials and probes") {
  const std::string recent = R"({"session_info": {"data_version": "4.1"}, "runs": [{"testcases": [
 {"name": "train", "display_name": "train %model=a", "system": "c", "partition": "gpu", "environ": "gnu", "result": "pass",
  "job_completion_time_unix": 1708555876.7, "perfvalues": {"c:gpu:throughput": [390.5, 0, null, null, "img/s", "pass"],
  "c:gpu:copy": [24.5, 0, null, null, "GB/s", "pass"]}},
 {"name": "broken", "system": "c", "partition": "gpu", "environ": "gnu", "result": "fail",
  "perfvalues": {"c:gpu:copy": [null, 0, null, null, "GB/s"]}}]}]})";
  const ImportedText got("r.json", recent, asked());
  CHECK(got.report.format == FileFormat::reframe);
  CHECK(in_images(got.trials().at(0).throughput) == 390.5);
  CHECK_THAT(got.trials().at(0).started_at, StartsWith("2024-02-21T22:51:16.7"));
  REQUIRE(got.probes().size() == 1);
  CHECK(got.probes()[0].name == "train %model=a/copy");
  CHECK(got.probes()[0].value == Approx(24.5e9));
  CHECK(got.probes()[0].detail["partition"] == "gpu");
  CHECK(got.report.report.notes.at(0) == "left out: copy of a failed test");
  const std::string old =
      R"({"session_info": {"data_version": "2.0"}, "runs": [{"testcases": [{"name": "t", "system": "c:gpu",
"environment": "gnu", "result": "success", "perfvars": [{"name": "per_gpu", "value": 100, "unit": "img/s"},
{"name": "total", "value": 100.5, "unit": "img/s"}]}, {"name": "u", "system": "c:gpu", "result": "success", "perfvars": null}]}]})";
  const auto trials = ImportedText("r.json", old, asked()).trials();
  REQUIRE(trials.size() == 1);
  CHECK(in_images(trials[0].throughput) == 100.5);
  CHECK(trials[0].environment["partition"] == "gpu");
  CHECK(trials[0].environment["environ"] == "gnu");
}

TEST_CASE("tables of pandas, with an index without a name and counts with a point, are read") {
  auto settings = asked();
  settings.case_name.clear();
  settings.gpus_per_node.reset();
  const std::string text = ",gpus,ips\nfirst,1.0,100.5\nsecond,2.0,200.5\n";
  CHECK_THAT(refusal_of("t.csv", replaced(text, "gpus,ips", "gpus_per_node,images_per_second"), settings),
             StartsWith("t.csv:1:1: this column has no name") && Contains("--map =KEY"));
  settings.columns = {{"", "case"}, {"gpus", "gpus_per_node"}, {"ips", "images_per_second"}};
  const auto trials = ImportedText("t.csv", text, settings).trials();
  REQUIRE(trials.size() == 2);
  CHECK(trials[0].case_name == "first");
  CHECK(trials[1].gpus_per_node == 2);
  for (const char* bad : {"1.5", "1.", ".0", "1,0", "-1.0", "1e0"}) {
    CAPTURE(bad);
    CHECK_THAT(refusal_of("t.csv", replaced(text, "1.0", bad), settings), StartsWith("t.csv:2"));
  }
}
