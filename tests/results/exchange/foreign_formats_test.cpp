// Files of other tools, in the forms that their sources write (data/README.md).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "results/exchange/exporters/exporters.h"
#include "results/tables/render.h"
#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

TEST_CASE("nvbandwidth's JSON becomes probes, what was waived is named") {
  const auto got = others("nvbandwidth.json", {.experiment = "e", .arm = "vm"});
  const auto probes = got.probes();
  REQUIRE(probes.size() == 5);
  CHECK(probes[0].name == "host_to_device");
  CHECK(probes[0].value == Approx(25.5e9));
  CHECK(probes[2].name == "device_to_device_memcpy_read_ce");
  CHECK(probes[2].detail["column"] == 1);
  CHECK(probes[4].unit == "s");
  CHECK(probes[4].value == Approx(772.5e-9));
  CHECK(got.report.report.notes.at(0) == "left out: multicast: Waived");
  const auto failed =
      replaced(text_of("others/nvbandwidth.json"), "\"status\" : \"Passed\"", "\"status\" : \"Error\"");
  CHECK(ImportedText("n.json", failed, of_probes).probes().size() == 3);
  CHECK_THAT(changed("nvbandwidth.json", "\"testcases\"", "\"cases\""), Contains("testcases"));
  CHECK_THAT(refusal_of("n.json", R"({"nvbandwidth":{"testcases":[]}})", of_probes),
             Contains("no test case"));
}

TEST_CASE("dllogger's summary is a trial, of all GPUs that its parameters name") {
  auto settings = asked();
  settings.gpus_per_node.reset();
  const auto got = others("dllogger.log", settings);
  const auto trial = got.trials().at(0);
  CHECK(in_images(trial.throughput) == 7766.125);
  CHECK(trial.gpus_per_node == 8);
  CHECK(trial.batch_size == 128);
  CHECK(trial.environment["model"] == "resnet50");
  const auto text = text_of("others/dllogger.log");
  // Today's ConvNets say their model's own parameters in a record of its own.
  const std::string more =
      R"(DLLL {"type": "LOG", "step": "PARAMETER", "data": {"model.last_bn_0_init": false}})"
      "\n";
  CHECK_THAT(
      refusal_of("d.log", text.substr(0, text.find('\n') + 1) + more + text.substr(text.find('\n') + 1),
                 [&] {
                   auto of_rank = settings;
                   of_rank.scope = Scope::rank;
                   return of_rank;
                 }()),
      Contains("give --scope trial"));
  settings.scope = Scope::rank;
  CHECK_THAT(refusal_of("d.log", text, settings), Contains("give --scope trial"));
  const auto of_somebody = replaced(text, ", \"world_size\": 8", "");
  settings.scope.reset();
  CHECK_THAT(refusal_of("d.log", of_somebody, settings), Contains("--gpus-per-node"));
  settings.gpus_per_node = 8;
  CHECK_THAT(refusal_of("d.log", of_somebody, settings), Contains("--scope rank or --scope trial"));
  settings.gpus_per_node = 4;
  CHECK_THAT(refusal_of("d.log", text, settings), Contains("is of 8 GPUs, which are not 1 node with 4 each"));
  settings.gpus_per_node = 8;
  settings.batch_size = 64;
  CHECK_THAT(refusal_of("d.log", text, settings), Contains("is of batch size 128, and --batch-size says 64"));
  settings.batch_size.reset();
  settings.nodes.reset();
  CHECK_THAT(refusal_of("d.log", text, settings), Contains("--nodes"));
  const auto unfinished = text.substr(0, text.rfind('\n', text.find("\"step\": []")) + 1);
  CHECK_THAT(refusal_of("d.log", unfinished, asked()), Contains("is a summary"));
}

TEST_CASE("dllogger's throughput in another unit is not one of images") {
  const std::string summary = R"(DLLL {"type": "LOG", "step": [], "data": {"train_throughput": 120.5}})";
  const auto unit = [](const std::string& words) {
    return R"(DLLL {"type": "METADATA", "metric": "train_throughput", "metadata": {"unit": ")" + words +
           "\"}}\n";
  };
  CHECK_THAT(refusal_of("d.log", unit("samples/s") + summary, asked()), Contains("in images a second"));
  CHECK(in_images(ImportedText("d.log", unit("images/s") + summary, asked()).trials().at(0).throughput) ==
        120.5);
  // Wide & Deep counts samples, Transformer-XL tokens: neither says so.
  CHECK_THAT(refusal_of("d.log", summary, asked()), Contains("train_throughput in no stated unit"));
  const auto both = replaced(summary, "120.5}", "120.5, \"train.total_ips\": 99.5}");
  const ImportedText got("d.log", both, asked());
  CHECK(in_images(got.trials().at(0).throughput) == 99.5);
  CHECK(got.report.report.notes.at(0) == "left out: train_throughput in no stated unit");
}

TEST_CASE("torchvision's img/s become images over time, without the first of an epoch") {
  const auto got = others("torchvision.log", asked());
  const auto trial = got.trials().at(0);
  const double images_per_second = 2 / (1 / 399.90234375 + 1 / 410.09765625);
  CHECK(in_images(trial.throughput) == Approx(images_per_second));
  CHECK_THAT(got.report.report.notes.at(1), Contains("leave out the loading of data"));
  CHECK(got.store.tenants(trial.id).at(0).loss_last == 6.91);
  auto settings = asked();
  settings.gpus_per_node = 4;
  settings.scope = Scope::rank;
  CHECK(in_images(others("torchvision.log", settings).trials().at(0).throughput) ==
        Approx(4 * images_per_second));
  CHECK_THAT(changed("torchvision.log", "img/s: 399.90234375", "img/s: nan"),
             StartsWith("torchvision.log:5: "));
}

TEST_CASE("MLPerf logs are read, and what virtrain exported comes back") {
  const auto got = others("resnet-mlperf.log", asked());
  CHECK(in_images(got.trials().at(0).throughput) == Approx(2 / (1 / 2400.0 + 1 / 2410.0)));
  CHECK(got.report.report.notes.at(0) == "the harmonic mean of 2 throughput records");
  // An epoch at 100 images a second and one at 300: as many images in 1/100 + 1/300 for each of both.
  const auto uneven =
      replaced(replaced(text_of("others/resnet-mlperf.log"), "2400.0", "100"), "2410.0", "300");
  CHECK(in_images(ImportedText("m.log", uneven, asked()).trials().at(0).throughput) == Approx(150));
  CHECK(got.trials().at(0).started_at == "2025-11-20T08:00:00.000Z");
  CHECK_THAT(changed("resnet-mlperf.log", "\"resnet\"", "\"bert\""), Contains("\"bert\""));
  CHECK_THAT(changed("resnet-mlperf.log", "run_stop", "stopped"), Contains("did not finish"));

  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  Trial measured = a_trial("e", "one/2", "vm", 1);
  measured.status = Status::finished;
  measured.throughput = of_images(100.5);
  measured.nodes = 2;
  measured.virtualization = "kvm";
  measured.precision = "bf16";
  measured.batch_size = 16;
  store.import_trial(measured);
  add_finished(store, "e", "one/2", "bare_metal", 1, 104.25, 2);
  std::ostringstream log;
  export_mlperf(store, {"e"}, log);
  const ImportedText again("our.log", log.str(), {});
  const auto trials = again.trials();
  REQUIRE(trials.size() == 2);
  CHECK(trials[0].arm == "vm");
  CHECK(in_images(trials[0].throughput) == 100.5);
  CHECK(trials[0].pair == 1);
  CHECK(trials[0].nodes == 2);
  CHECK(trials[0].virtualization == "kvm");
  CHECK(trials[0].precision == "bf16");
  CHECK(trials[0].batch_size == 16);
  CHECK(in_images(trials[1].throughput) == 104.25);
}

TEST_CASE("how a trial ended goes to MLPerf's log and comes back") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  auto trial = a_trial("e", "c", "vm", 1);
  trial.throughput = of_images(100.5);
  trial.status = Status::finished;
  trial.valid = false;
  trial.invalid_reason = "wrong cores";
  store.import_trial(trial);
  trial = a_trial("e", "c", "vm", 2);
  trial.throughput = of_images(98.5);
  trial.status = Status::interrupted;
  store.import_trial(trial);
  trial = a_trial("e", "c", "vm", 3);
  trial.status = Status::failed;
  trial.failure_reason = "exit 1";
  store.import_trial(trial);
  std::ostringstream log;
  export_mlperf(store, {"e"}, log);
  CHECK(log.str().find("\"status\":\"success\"") == std::string::npos);
  const auto trials = ImportedText("our.log", log.str(), {}).trials();
  REQUIRE(trials.size() == 3);
  CHECK_FALSE(trials[0].valid);
  CHECK(trials[0].status == Status::finished);
  CHECK(trials[0].invalid_reason == "wrong cores");
  CHECK(trials[1].status == Status::interrupted);
  CHECK(in_images(trials[1].throughput) == 98.5);
  CHECK(trials[2].status == Status::failed);
  CHECK(trials[2].failure_reason == "exit 1");
}

TEST_CASE("a foreign MLPerf log counts a figure once, has rates above zero and says what was aborted") {
  const auto text = text_of("others/resnet-mlperf.log");
  const std::string stats = R"("key": "tracked_stats", "value": {"throughput": 2400.0})";
  for (const char* bad : {"0", "-5", "\"fast\""}) {
    CHECK_THAT(changed("resnet-mlperf.log", "2400.0", bad),
               StartsWith("resnet-mlperf.log:3: the throughput is ") && Contains("above zero"));
  }
  const auto both = replaced(text, stats, R"("key": "throughput", "value": 2000.0)");
  CHECK(in_images(ImportedText("m.log", both, asked()).trials().at(0).throughput) == 2000.0);
  const ImportedText aborted("m.log", replaced(text, "\"success\"", "\"aborted\""), asked());
  CHECK(aborted.trials().at(0).status == Status::finished);
  CHECK(in_images(aborted.trials().at(0).throughput) == Approx(2 / (1 / 2400.0 + 1 / 2410.0)));
  CHECK_THAT(aborted.report.report.notes.at(1), Contains("aborted"));
  auto without = replaced(text, "\"success\"", "\"aborted\"");
  while (without.find("\"throughput\"") != std::string::npos) {
    without = replaced(without, "\"throughput\"", "\"epochs\"");
  }
  CHECK(ImportedText("m.log", without, asked()).trials().at(0).status == Status::failed);
}

TEST_CASE("PerfKitBenchmarker's samples become trials and probes, others are named") {
  auto settings = asked();
  settings.gpus_per_node.reset();
  settings.case_name.clear();
  settings.scope = Scope::trial;
  const auto got = others("perfkitbenchmarker_results.json", settings);
  const auto trial = got.trials().at(0);
  CHECK(trial.case_name == "tensorflow/resnet50");
  CHECK(in_images(trial.throughput) == 1234.5);
  CHECK(trial.gpus_per_node == 4);
  CHECK(trial.batch_size == 64);
  CHECK(trial.precision == "fp16");
  const auto probes = got.probes();
  REQUIRE(probes.size() == 1);
  CHECK(probes[0].name == "iperf/Throughput");
  CHECK(probes[0].value == Approx(1e9));
  CHECK(got.report.report.notes.at(0) == "left out: End to End Runtime in seconds, lscpu in no unit");
  CHECK_THAT(changed("perfkitbenchmarker_results.json", "1234.5,", "\"many\","),
             StartsWith("perfkitbenchmarker_results.json:1: ") && Contains("number \"value\""));
  const auto inference = replaced(text_of("others/perfkitbenchmarker_results.json"), "|forward_only:False|",
                                  "|forward_only:True|");
  const ImportedText none("p.json", inference, settings);
  CHECK(none.trials().empty());
  CHECK_THAT(none.report.report.notes.at(0), Contains("Training synthetic data (forward_only)"));
}

TEST_CASE("PerfKitBenchmarker's spellings of bits and bytes a second are bytes a second") {
  const std::pair<const char*, double> units[] = {{"Gbps", 1.25e8}, {"Mbps", 1.25e5}, {"Kbps", 125},
                                                  {"GB/sec", 1e9},  {"MB/sec", 1e6},  {"KB/sec", 1e3}};
  for (const auto& [unit, bytes_per_second] : units) {
    CAPTURE(unit);
    const auto text = fmt::format(R"({{"metric":"bandwidth","value":8,"unit":"{}","test":"iperf"}})", unit);
    const auto probe = ImportedText("p.json", text, asked()).probes().at(0);
    CHECK(probe.value == Approx(8 * bytes_per_second));
    CHECK(probe.unit == "B/s");
  }
}

TEST_CASE("ReFrame's performance logs become trials and probes") {
  const auto old = others("reframe-3.log", asked());
  CHECK(in_images(old.trials().at(0).throughput) == 390.5);
  CHECK(old.probes().at(0).name == "StreamTest/Copy");
  CHECK(old.probes().at(0).value == Approx(24762.2e6));
  CHECK(old.probes().at(1).name == "Osu_bibw/max_bandwidth");  // its unit stands before the reference
  CHECK(old.probes().at(1).value == Approx(6117.5e6));
  CHECK(old.report.report.notes.at(0) == "left out: Nodes in no unit");
  const auto recent = others("reframe-4.log", asked());
  REQUIRE(recent.probes().size() == 1);
  CHECK(recent.probes().at(0).name == "SombreroBenchmark %tasks=2 %cpus_per_task=2/flops");
  CHECK(recent.probes().at(0).value == Approx(1.25e9));
  CHECK(recent.probes().at(0).unit == "FLOP/s");
  CHECK_THAT(changed("reframe-3.log", "Copy=24762.2", "Copy=fast"), StartsWith("reframe-3.log:1: "));
  CHECK(old.probes().at(0).measured_at.empty());  // its time has no zone
  CHECK(old.probes().at(1).measured_at == "2026-11-20T07:10:00Z");
  CHECK(old.probes().at(1).detail["system"] == "cluster");
  CHECK(old.probes().at(1).detail["partition"] == "roce-gcc9-openmpi4-ucx");
  CHECK(old.probes().at(1).detail["environ"] == "omb");
  CHECK(recent.probes().at(0).detail ==
        nlohmann::json(
            {{"source", "reframe"}, {"system", "c"}, {"partition", "compute-node"}, {"environ", "default"}}));
  CHECK(recent.probes().at(0).measured_at.empty());
  CHECK_THAT(changed("reframe-4.log", "1.25|", "fast|"), StartsWith("reframe-4.log:2: ") && Contains("fast"));
  CHECK_THAT(changed("reframe-4.log", "|58384|", "|"), Contains("20 cells where the header names 21"));
}

TEST_CASE("rows of ReFrame keep where they ran, and that they failed") {
  const std::string header =
      "result|job_completion_time|environ|job_completion_time_unix|name|partition|copy_value|copy_unit|"
      "triad_value|triad_unit|speed_value|speed_unit|system\n";
  const ImportedText got("r.log",
                         header +
                             "pass|2024-02-21T22:51:16|gnu|1708555876.746763|stream|compute|21116.7|MB/s|"
                             "14813.0|MB/s|100.5|img/s|pc\n"
                             "fail|2024-02-21T22:51:19+01:00|clang|null|stream|null|18405.7|MB/s|null|MB/s|"
                             "80.5|img/s|pc\n",
                         asked());
  const auto probes = got.probes();
  REQUIRE(probes.size() == 3);
  CHECK(probes[0].detail["environ"] == "gnu");
  CHECK(probes[0].detail["partition"] == "compute");
  CHECK_FALSE(probes[0].detail.contains("result"));
  CHECK_THAT(probes[0].measured_at, StartsWith("2024-02-21T22:51:16.74"));
  CHECK(probes[2].detail["environ"] == "clang");
  CHECK_FALSE(probes[2].detail.contains("partition"));
  CHECK(probes[2].detail["result"] == "fail");
  CHECK(probes[2].measured_at == "2024-02-21T21:51:19Z");
  auto alike = probes;  // no median over two environments, however alike their names are
  alike[1].name = alike[0].name, alike[1].size_bytes = alike[0].size_bytes;
  alike[0].detail["environ"] = std::string(60, 'x') + "a";
  alike[1].detail["environ"] = std::string(60, 'x') + "b";
  CHECK(probe_figures(alike).size() == 3);
  const auto trials = got.trials();
  REQUIRE(trials.size() == 2);
  CHECK(trials[0].environment["system"] == "pc");
  CHECK(trials[1].environment["result"] == "fail");
  CHECK(trials[1].started_at == "2024-02-21T21:51:19Z");
  const auto& notes = got.report.report.notes;
  REQUIRE(notes.size() == 2);
  CHECK_THAT(notes[0], StartsWith("the figures of 1 row with the result fail were taken"));
  CHECK(notes[1] == "left out: triad of a failed test");
  const auto at_place = text_of("others/reframe-3.log");
  const auto recent = replaced(at_place, "StreamTest on cluster:gpu using gnu|jobid=58384|Copy",
                               "StreamTest /abcd @c:gpu+default|jobid=58384|Copy");
  const auto detail = ImportedText("r.log", recent, asked()).probes().at(0).detail;
  CHECK((detail["system"] == "c" && detail["partition"] == "gpu" && detail["environ"] == "default"));
}

TEST_CASE("a value below zero is refused with its place, not by the database") {
  CHECK_THAT(changed("reframe-3.log", "Copy=24762.2", "Copy=-24762.2"),
             StartsWith("reframe-3.log:1: Copy is -24762.2, it must not be negative"));
  CHECK_THAT(changed("reframe-3.log", "throughput=390.5", "throughput=-390.5"),
             StartsWith("reframe-3.log:3: throughput is -390.5, it must not be negative"));
  CHECK_THAT(changed("reframe-4.log", "|1.25|", "|-1.25|"),
             StartsWith("reframe-4.log:2: flops is -1.25, it must not be negative"));
  CHECK_THAT(changed("nvbandwidth.json", "25.5", "-25.5"),
             StartsWith("nvbandwidth.json:") && Contains(": value is -2.55e+10, it must be at least 0"));
}

TEST_CASE("damaged JSON is said to be that, with line and column, and nothing of other options") {
  const auto damage_of = [](const std::string& text, const std::string& place) {
    const auto message = refusal_of("f.json", text, of_probes);
    CHECK_THAT(message, StartsWith("f.json:" + place + ": this is not JSON: ") &&
                            !Contains("exchange records") && !Contains("json.exception"));
    return message;
  };
  const auto place_of = [](const std::string& text, std::size_t at) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
    return fmt::format("{}:{}", line, at - (text.rfind('\n', at) + 1) + 1);
  };
  const auto document = text_of("others/nvbandwidth.json");
  const std::string sum = "\"sum\" : ";
  const auto figure = document.find(sum) + sum.size();
  const auto number = document.substr(figure, document.find_first_of(",\n", figure) - figure);
  const auto with_sum = [&](const std::string& value) {
    return replaced(document, sum + number, sum + value);
  };
  const auto place = place_of(document, figure);
  CHECK_THAT(damage_of(document.substr(0, figure - 1), place_of(document, figure - 1)),
             Contains("unexpected end of input") && !Contains("NaN"));
  CHECK_THAT(damage_of(with_sum("NaN"), place), Contains("NaN and Infinity"));
  CHECK_THAT(damage_of(with_sum("1e999"), place), Contains("1e999") && !Contains("NaN"));
  damage_of(document + document, place_of(document + document, document.size()));

  const auto samples = text_of("others/perfkitbenchmarker_results.json");
  const auto value = samples.find("1234.5,");
  damage_of(replaced(samples, "1234.5,", "NaN,"), place_of(samples, value));
  damage_of(replaced(samples, "1234.5,", "1e999,"), place_of(samples, value));
  damage_of(samples.substr(0, value), place_of(samples, value));
  damage_of(text_of("results-summary.jsonl").substr(0, 100), "1:101");
  CHECK_THAT(refusal_of("a.jsonl", "{\n  \"record\": \"trial\"\n}\n"),
             StartsWith("a.jsonl:1: ") && Contains("one each"));
}

TEST_CASE("SuperBench gets each rank of each run, also of imported ones without a place in their node") {
  const auto trial = [](int first, int second) {
    return fmt::format(
        R"({{"record":"trial","experiment":"e","scenario":"s","case":"c","arm":"vm","nodes":1,"gpus_per_node":2,)"
        R"("images_per_second":{},"tenants":[{{"tenant_index":0,"nodes":1,"images_per_second":{},)"
        R"("ranks":[{{"rank":0,"node":"n","images_per_second":{}}},{{"rank":1,"node":"n","images_per_second":{}}}]}}]}})"
        "\n",
        first + second, first + second, first, second);
  };
  const ImportedText imported("t.jsonl", trial(100, 200) + trial(300, 400), {});
  std::ostringstream summary;
  export_superbench(imported.store, {"e"}, summary);
  for (const auto* figure : {"/0/unknown_train_throughput:0\":100", "/0/unknown_train_throughput:1\":200",
                             "/1/unknown_train_throughput:0\":300", "/1/unknown_train_throughput:1\":400"}) {
    CHECK_THAT(summary.str(), Contains(figure));
  }
}

TEST_CASE(
    "SuperBench gets the model and the precision that a record names, and unknown where it names none") {
  const auto exported = [](const ImportedText& imported) {
    std::ostringstream summary;
    export_superbench(imported.store, {"e"}, summary);
    return summary.str();
  };
  const ImportSettings settings{.experiment = "e", .arm = "vm", .gpus_per_node = 1};
  const ImportedText dense(
      "r.jsonl", R"({"node":"a","densenet_models/pytorch-densenet169/fp16_train_throughput:0":400.5})",
      settings);
  CHECK_THAT(
      exported(dense),
      StartsWith(R"({"model-benchmarks:densenet_models-pytorch-densenet169-fp16/virtrain-unknown/fp16_)"));

  const std::string record =
      R"({"record":"trial","experiment":"e","scenario":"s","case":"c","arm":"vm","nodes":1,"gpus_per_node":1,)"
      R"("images_per_second":99.5,"environment":{"model":"densenet121"}})";
  const auto own = exported(ImportedText("t.jsonl", record, {}));
  CHECK(own == R"({"model-benchmarks:c/virtrain-densenet121/unknown_train_throughput":99.5,"node":"e/vm"})"
               "\n");
  const auto back = ImportedText("r.jsonl", own, settings).trials().at(0);
  CHECK(back.case_name == "c/virtrain-densenet121/unknown");
  CHECK(back.precision.empty());
  CHECK(in_images(back.throughput) == 99.5);
}

TEST_CASE("any CSV is read by naming its columns") {
  auto settings = asked();
  settings.arm.clear();
  settings.columns = {{"ips", "images_per_second"}, {"where", "arm"}};
  const ImportedText got("runs.csv", "when,where,ips\nmonday,vm,99.5\ntuesday,bare_metal,101\n", settings);
  REQUIRE(got.trials().size() == 2);
  CHECK(got.trials()[0].arm == "vm");
  CHECK(in_images(got.trials()[0].throughput) == 99.5);
  CHECK(got.report.report.notes.at(0) == "left out: when");
  CHECK_THAT(refusal_of("runs.csv", "when,ips\nmonday,99.5\n", settings), Contains("no column \"where\""));
  CHECK_THAT(refusal_of("runs.csv", "where;ips\nvm;99.5\n", settings),
             Contains("no column") && Contains("separated by commas here, not semicolons; there are: "));
  CHECK_THAT(refusal_of("runs.csv", "where\tips\nvm\t99.5\n", settings),
             Contains("no column") && Contains("the cells are separated by tabs"));
  settings.columns["where"] = "arms";
  CHECK_THAT(refusal_of("runs.csv", "where,ips\nvm,99.5\n", settings), Contains("did you mean \"arm\""));
}

TEST_CASE("what an exported view of trials has beyond a record is no hindrance to its import") {
  auto settings = asked();
  settings.case_name.clear();
  const auto names = [&](const std::string& text) {
    const ImportedText got("v.csv", text, settings);
    CHECK(got.report.report.notes.empty());
    return got.trials().at(0).case_name;
  };
  CHECK(names("case,images_per_second,trial_id,case_name\none,99.5,17,one\n") == "one");
  CHECK(names("images_per_second,trial_id,case_name\n99.5,17,two\n") == "two");
}

TEST_CASE("documents of unknown content are skipped in a folder, damaged records are not") {
  const TemporaryFolder folder;
  std::ofstream(folder.path / "plan.json") << "{\n  \"trials\": 2\n}\n";
  std::ofstream(folder.path / "all_reduce.json") << text_of("others/all_reduce.json");
  Store store(folder.path / "x" / "results.db");
  std::istringstream nothing;
  CHECK(import_paths(store, {folder.path / "plan.json", folder.path / "all_reduce.json"},
                     {.skip_failed = true, .experiment = "e", .arm = "vm"}, nothing)
            .size() == 2);
  CHECK_THAT(refusal_of("a.jsonl", "{\"record\":\"trial\"\n"), StartsWith("a.jsonl:1"));
}

TEST_CASE("JSON of unknown content is said to be that, and is records where that is given") {
  auto settings = asked();
  for (const char* text : {R"({"level":"info","images":5})", "{\n  \"trials\": 2\n}\n", R"({"record":1})",
                           R"({"record":""})", "{}"}) {
    CAPTURE(text);
    CHECK_THAT(refusal_of("x.json", text, settings),
               StartsWith("x.json:1: this is JSON of no format that import reads (give --format: jsonl"));
  }
  settings = {.format = FileFormat::jsonl};
  CHECK_THAT(refusal_of("x.json", R"({"level":"info"})", settings), Contains("record is"));
}
