// Runs that share a file, and what a file says of its own nodes, GPUs and settings.
#include <fmt/format.h>

#include "results/comparison/causes/probe_key.h"
#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

ImportSettings of_shape(std::int64_t nodes, std::int64_t gpus_per_node) {
  auto settings = of_trials;
  settings.nodes = nodes;
  settings.gpus_per_node = gpus_per_node;
  return settings;
}

std::string tf_run(const std::string& model, int batch, const char* total, const char* variables) {
  return fmt::format(
      "Model:       {}\nBatch size:  {} global\n             {} per device\nDevices:     ['{}gpu:0', "
      "'{}gpu:1']\n"
      "Variables:   {}\nStep\tImg/sec\ttotal_loss\n1\timages/sec: 300.0 +/- 0.0 (jitter = 0.0)\t8.001\n"
      "--------------------\ntotal images/sec: {}\n--------------------\n",
      model, 2 * batch, batch, std::string(variables) == "horovod" ? "horovod/" : "/",
      std::string(variables) == "horovod" ? "horovod/" : "/", variables, total);
}

std::string perfkit_sample(const std::string& metric, double value, const std::string& unit,
                           const std::string& labels) {
  return fmt::format(R"({{"metric":"{}","value":{},"unit":"{}","test":"t","run_uri":"r","labels":"{}"}})",
                     metric, value, unit, labels) +
         "\n";
}

}  // namespace

TEST_CASE("runs of tf_cnn_benchmarks behind each other in one file are refused, with both lines") {
  const auto first = tf_run("resnet50", 32, "600.00", "horovod");
  for (const auto& second :
       {tf_run("resnet50", 64, "600.50", "horovod"), tf_run("vgg16", 32, "601.00", "horovod"),
        tf_run("resnet50", 32, "602.00", "horovod")}) {
    CHECK_THAT(refusal_of("t.log", first + second, of_shape(1, 2)),
               Contains("a preamble begins on line 11, behind the total on line 9: two runs in one file"));
  }
  auto settings = of_shape(1, 2);
  settings.scope = Scope::trial;
  const auto alone = tf_run("resnet50", 32, "600.00", "replicated");
  CHECK_THAT(refusal_of("t.log", alone + tf_run("resnet50", 32, "700.00", "replicated"), settings),
             Contains("two runs in one file"));
  CHECK(in_images(ImportedText("t.log", first, of_shape(1, 2)).trials().at(0).throughput) == 600);
}

TEST_CASE("SuperBench's figure without a rank adds nothing to its ranks, and a missing rank is said") {
  const auto node = [](const std::string& figures) { return R"({"node": "n1")" + figures + "}\n"; };
  const auto figure = [](const std::string& rank, int value) {
    return fmt::format(R"(, "model-benchmarks:resnet/pytorch-resnet50/fp16_train_throughput{}": {})", rank,
                       value);
  };
  auto settings = of_trials;
  const auto two = figure(":0", 800) + figure(":1", 802);
  const ImportedText both("s.jsonl", node(figure("", 801) + two), settings);
  CHECK(in_images(both.trials().at(0).throughput) == 1602);
  CHECK(both.trials().at(0).gpus_per_node == 2);
  CHECK_THAT(both.report.report.notes.at(0), Contains("the figure without a rank (801) is left out"));
  CHECK_THAT(refusal_of("s.jsonl", node(figure("", 300) + two), settings),
             Contains("300 without a rank, and 1602 is the sum"));
  const auto missing =
      ImportedText("s.jsonl", node(figure(":0", 800) + figure(":2", 800)), settings).trials().at(0);
  CHECK(missing.gpus_per_node == 3);
  CHECK_FALSE(missing.valid);
  CHECK_THAT(missing.invalid_reason, Contains("rank 1 of 3 has no throughput"));
  settings.gpus_per_node = 8;
  CHECK_THAT(refusal_of("s.jsonl", node(two), settings), Contains("2 ranks, and --gpus-per-node says 8"));
}

TEST_CASE("lines of ReFrame 3 of one test and moment are one run, with or without a job's number") {
  const auto line = [](const std::string& time, const std::string& test, const std::string& job,
                       const std::string& variable, const char* unit) {
    return "2021-06-24T00:27:" + time + "|reframe 3.9.0|" + test + " on dom:gpu using gnu|" + job + variable +
           "|ref=0 (l=null, u=null)|" + unit + "\n";
  };
  const auto job = std::string("jobid=12|");
  const auto one = line("06", "train", "", "per_gpu=100", "images/s");
  const auto job_one = line("06.101", "train", job, "per_gpu=100", "images/s");
  const auto job_all = line("06.102", "train", job, "total=800", "images/s");
  const auto settings = of_shape(1, 8);
  for (const auto& text : {one + line("06", "train", "", "total=800", "images/s"), job_one + job_all,
                           job_one + line("06", "stream", "jobid=13|", "Copy=24000", "MB/s") + job_all}) {
    const auto trials = ImportedText("r.log", text, settings).trials();
    REQUIRE(trials.size() == 1);
    CHECK(in_images(trials[0].throughput) == 800);
  }
  CHECK_THAT(refusal_of("r.log", one + line("06", "train", "", "total=1600", "images/s"), settings),
             Contains("per_gpu is 100 and total is 1600, which are not 8 devices"));
  const auto repeated = job_one + job_all + line("40", "train", "jobid=14|", "total=810", "images/s");
  CHECK(ImportedText("r.log", repeated, settings).trials().size() == 2);
}

TEST_CASE("PerfKitBenchmarker's throughput of one GPU stands beside the total, and must fit it") {
  const std::string labels = "|model:resnet-50|,|num_gpus:8|";
  const auto text = perfkit_sample("Average throughput per GPU", 150, "images/sec", labels) +
                    perfkit_sample("Total throughput", 1200, "images/sec", labels);
  auto settings = of_trials;
  settings.nodes = 1;
  const auto trials = ImportedText("p.json", text, settings).trials();
  REQUIRE(trials.size() == 1);
  CHECK(in_images(trials[0].throughput) == 1200);
  CHECK_THAT(refusal_of("p.json", replaced(text, "1200", "1500"), settings),
             StartsWith("p.json:1: ") && Contains("is 150 and the total of the same run is 1500"));
  settings.scope = Scope::rank;
  CHECK_THAT(refusal_of("p.json", text.substr(text.find('\n') + 1), settings),
             Contains("the scope trial: leave --scope out"));
}

TEST_CASE("options that contradict what a file says of its nodes and devices are refused with both figures") {
  const std::string reframe =
      "job_completion_time|name|num_tasks|num_gpus_per_node|job_nodelist|total_value|total_unit\n"
      "2025-01-01T00:00:00+00:00|train|16|8|n1,n2|1600|images/s\n";
  CHECK(ImportedText("r.log", reframe, of_trials).trials().at(0).nodes == 2);
  CHECK_THAT(refusal_of("r.log", reframe, of_shape(1, 8)), Contains("of 2 nodes, and --nodes says 1"));
  CHECK_THAT(refusal_of("r.log", reframe, of_shape(2, 4)),
             Contains("8 GPUs on each node") && Contains("says 4"));
  CHECK_THAT(refusal_of("r.log", replaced(reframe, "n1,n2", "null"), of_shape(1, 8)),
             Contains("of 16 processes") && Contains("1 node with 8 GPUs"));
  const std::string report =
      R"({"session_info": {"version": "4.6"}, "runs": [{"testcases": [{"name": "r", "result": "pass", )"
      R"("num_tasks": 16, "num_gpus_per_node": 8, "job_nodelist": ["n1", "n2"], )"
      R"("perfvalues": {"d:g:images_total": [1600, 0, null, null, "images/s", "pass"]}}]}]})";
  CHECK_THAT(refusal_of("r.json", report, of_shape(1, 8)), Contains("of 2 nodes, and --nodes says 1"));
  const std::string tasks =
      "2021-06-24T00:27:06|reframe 3.9.0|r on d:g using gnu|jobid=1|num_tasks=16|total=800|ref=0|images/s\n";
  CHECK_THAT(refusal_of("r.log", tasks, of_shape(1, 8)), Contains("16 processes"));
  CHECK(ImportedText("r.log", tasks, of_shape(2, 8)).trials().size() == 1);

  for (const char* label : {"num_vms", "vm_count"}) {
    const auto text =
        perfkit_sample("Throughput", 1200, "images/sec", fmt::format("|num_gpus:4|,|{}:2|", label));
    CHECK_THAT(refusal_of("p.json", text, of_shape(1, 4)), Contains("of 2 nodes, and --nodes says 1"));
  }
  std::string steps = "Namespace(model='resnet50', device='cuda', batch_size=32, world_size=8, rank=0)\n";
  for (int i = 0; i < 3; ++i) { steps += fmt::format("Epoch: [0]  [{}/9]  img/s: 300  loss: 6.9\n", i); }
  CHECK_THAT(refusal_of("t.log", steps, of_shape(1, 4)), Contains("of 8 GPUs, which are not 1 node with 4"));
  auto settings = of_shape(1, 8);
  settings.batch_size = 64;
  CHECK_THAT(refusal_of("t.log", steps, settings), Contains("of batch size 32, and --batch-size says 64"));

  const auto mllog = [](const std::string& key, const std::string& value) {
    return R"(:::MLLOG {"key": ")" + key + R"(", "value": )" + value + "}\n";
  };
  const auto mlperf = mllog("submission_benchmark", "\"resnet\"") + mllog("number_of_nodes", "4") +
                      mllog("number_of_ranks", "32") + mllog("run_start", "null") +
                      mllog("tracked_stats", R"({"throughput": 26000.0})") + mllog("run_stop", "null");
  CHECK_THAT(refusal_of("m.log", mlperf, of_shape(1, 8)), Contains("of 4 nodes, and --nodes says 1"));
  CHECK_THAT(refusal_of("m.log", mlperf, of_shape(4, 4)), Contains("of 32 processes"));

  const std::string horovod =
      "Model: resnet50\nNumber of GPUs: 16\nTotal img/sec on 8 GPU(s): 1968.0 +-9.4\n";
  CHECK_THAT(refusal_of("h.log", horovod, of_shape(1, 8)), Contains("of 8 devices") && Contains("says 16"));
}

TEST_CASE("labels of PerfKitBenchmarker's settings tell figures apart, whatever they end with") {
  const std::pair<const char*, const char*> labels[] = {
      {"sending_thread_count:1", "sending_thread_count:32"},
      {"receiving_zone:a", "receiving_zone:b"},
      {"data_disk_0_type:pd-standard", "data_disk_0_type:local-nvme"},
      {"gpu_type:k80", "gpu_type:a100"},
      {"gpu_memory_clock:877", "gpu_memory_clock:300"},
      {"numa_nodes:1", "numa_nodes:2"}};
  for (const auto& [one, other] : labels) {
    CAPTURE(one);
    const ImportedText got(
        "p.json",
        perfkit_sample("b", 1, "MB/s", fmt::format("|{}|,|zone:a|,|run_number:0|", one)) +
            perfkit_sample("b", 2, "MB/s", fmt::format("|{}|,|zone:b|,|run_number:1|", other)) +
            perfkit_sample("b", 3, "MB/s", fmt::format("|{}|,|zone:c|,|vm_1_vm_count:1|", other)),
        of_probes);
    CHECK(probe_figures(got.probes()).size() == 2);
  }
}

TEST_CASE("how nccl-tests launched, and on which of several devices, is part of the figure") {
  const auto table = [](const std::string& settings, const std::string& device) {
    return "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: "
           "2(factor) " +
           settings + "\n#  Rank  0 Group  0 Pid 1 on a device  0 [0x07] " + device +
           "\n#  Rank  1 Group  0 Pid 2 on a device  1 [0x08] " + device +
           "\n#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
           "  8  2  float  sum  -1  100.0  10.00  10.00  0  100.0  10.00  10.00  0\n"
           "# Avg bus bandwidth    : 10.0\n";
  };
  const auto figures = [](const std::string& text) {
    return probe_figures(ImportedText("n.txt", text, of_probes).probes()).size();
  };
  const auto plain = table("agg iters: 1 validation: 1 graph: 0", "A100");
  CHECK(figures(plain + plain) == 2);  // in place and out of it
  CHECK(figures(plain + table("agg iters: 8 validation: 1 graph: 0", "A100")) == 4);
  CHECK(figures(plain + table("agg iters: 1 validation: 1 graph: 10", "A100")) == 4);
  CHECK(figures(plain + table("agg iters: 1 validation: 1 graph: 0", "H100")) == 4);
  const std::string document =
      R"({"args":["all_reduce_perf"],"config":{"graph":10,"agg_iters":1},"results":[{"size":8,"type":"float",)"
      R"("redop":"sum","root":"-1","out_of_place":{"time":1.0,"alg_bw":4.0,"bus_bw":6.0}}],)"
      R"("average_bus_bandwidth":6.0})";
  const ImportedText json("n.json", document, of_probes);
  CHECK(json.probes().at(0).detail["settings"] == nlohmann::json{{"graph", 10}});
}

TEST_CASE("accelerators of other names than GPU are counted as GPUs") {
  for (const char* name : {"HPU", "XPU", "GPU"}) {
    const auto text =
        fmt::format("Model: resnet50\nNumber of {0}s: 8\nTotal img/sec on 8 {0}(s): 800.0 +-4.9\n", name);
    auto settings = of_trials;
    settings.nodes = 1;
    CHECK(ImportedText("h.log", text, settings).trials().at(0).gpus_per_node == 8);
  }
}

TEST_CASE("dllogger's steps fall wherever its lines have them") {
  const auto line = [](const std::string& step, const char* name, int value) {
    return fmt::format(R"(DLLL {{"type": "LOG", "step": {}, "data": {{"{}": {}}}}})", step, name, value) +
           "\n";
  };
  struct Case {
    const char *step, *name;
  };
  for (const auto& [step, name] : {Case{"[{}]", "train.total_ips"}, Case{"{}", "train.total_ips"},
                                   Case{"[0, {}]", "train.compute_ips"}, Case{"[0, {}]", "total_ips"}}) {
    CAPTURE(step, name);
    std::string text;
    for (int i = 0; i < 20; ++i) {
      text += line(replaced(step, "{}", std::to_string(i)), name, i < 10 ? 800 : 100);
    }
    const auto trial =
        ImportedText("d.json", text + line("[]", "train.total_ips", 450), of_shape(1, 1)).trials().at(0);
    CHECK_FALSE(trial.valid);
    CHECK_THAT(trial.invalid_reason, Contains("the steps fall from about 800 to 100"));
  }
}

TEST_CASE("a second tool's output in a file is said to be left out") {
  auto settings = of_trials;
  settings.nodes = 1;
  const std::string text =
      "Model: resnet50\nTotal img/sec on 4 GPU(s): 400.0 +-4.9\n# nThread 1 nGpus 2 minBytes 8 maxBytes 8\n";
  const ImportedText got("h.log", text, settings);
  CHECK(got.trials().size() == 1);
  CHECK_THAT(got.report.report.notes.at(0), Contains("from line 3 on there is output of nccl-tests too"));
}
