// Logs as other tools really leave them: with what newer versions add and what a debug level prints between.
#include "common/contains.h"
#include "common/text/text.h"
#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

TEST_CASE("logs with a trailing epoch, a fractional batch or a loss of nan are read: the total is enough") {
  const auto text = text_of("two-gpus.log");
  const auto changed = replaced(replaced(replaced(text, "\t7.696", "\tnan"), "\t7.753", "\t7.753 0.01"),
                                "64 per device", "64.0 per device");
  const ImportedText got("a.log", replaced(changed, "10\timages/sec: 620.6", "ten\timages/sec: x"),
                         of_trials);
  const auto trial = got.trials().at(0);
  CHECK(in_images(trial.throughput) == 619.87);
  CHECK(trial.batch_size == 64);
  CHECK(trial.environment["steps"] == 30);
  CHECK(got.store.tenants(trial.id).at(0).loss_last == 7.753);
  const auto& notes = got.report.report.notes;
  REQUIRE(notes.size() == 2);
  CHECK_THAT(notes[0], Contains("loss of 1 step is"));
  CHECK_THAT(notes[1], Contains("1 step's line could"));
}

TEST_CASE("on how many nodes workers ran is asked, and their GPUs come from the batch sizes") {
  const auto text =
      replaced(replaced(text_of("two-gpus.log"), "['/gpu:0', '/gpu:1']",
                        "['/job:worker/replica:0/task:0/gpu:0', '/job:worker/replica:0/task:0/gpu:1']"),
               "128 global", "256.0 global");
  CHECK_THAT(refusal_of("w.log", text, of_trials), Contains("give --nodes"));
  auto settings = of_trials;
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
  CHECK(between.report.report.notes == std::vector<std::string>{"1 line of NCCL_DEBUG was skipped"});

  const auto figures = text.find("-1", row) + 2;
  const ImportedText torn("x.txt", text.substr(0, figures) + message + text.substr(figures), settings);
  const auto probes = torn.probes();
  REQUIRE(probes.size() == 6);
  CHECK(probes[4].size_bytes == 134217728);
  CHECK(probes[4].value == Approx(11.69e9));
  CHECK_THAT(torn.report.report.notes.at(0), Contains("1 was put together, 0 were left out"));
  const auto end = text.find('\n', figures);
  const ImportedText lost("x.txt", text.substr(0, figures) + message + text.substr(end), settings);
  CHECK(lost.probes().size() == 4);
  CHECK_THAT(lost.report.report.notes.at(0), Contains("0 were put together, 1 was left out"));
}

TEST_CASE("a log of tf_cnn_benchmarks that is not of training is refused") {
  const auto text = text_of("two-gpus.log");
  for (const char* mode : {"forward-only", "evaluation"}) {
    CHECK_THAT(
        refusal_of("a.log", replaced(text, "Mode:        training", std::string("Mode: ") + mode), of_trials),
        StartsWith("a.log:5: ") && Contains(mode) && Contains("not those of training"));
  }
  CHECK(
      ImportedText("a.log", replaced(text, "training", "training + evaluation"), of_trials).trials().size() ==
      1);
}

TEST_CASE("options that contradict a log of tf_cnn_benchmarks are refused") {
  const auto text = text_of("two-gpus.log");
  auto settings = of_trials;
  settings.ranks = 4;
  CHECK_THAT(refusal_of("a.log", text, settings),
             Contains("a run of 2 ranks, not of 4") && Contains("--ranks"));
  settings.ranks = 2;
  settings.batch_size = 32;
  CHECK_THAT(refusal_of("a.log", text, settings), Contains("a batch of 64") && Contains("--batch-size"));
  settings.batch_size = 64;
  CHECK(ImportedText("a.log", text, settings).trials().at(0).batch_size == 64);
}

TEST_CASE("labels of srun and mpirun in front of each line are taken off") {
  for (const std::string label : {" 0: ", "[1,0]<stdout>:", "[1,0]<stdout>: "}) {
    CAPTURE(label);
    std::string labelled;
    for (const auto& line : split(trim(text_of("nccl-tests/all_reduce_perf.txt")), '\n')) {
      labelled += label + line + "\n";
    }
    CHECK(ImportedText("x.txt", labelled, {.experiment = "e", .arm = "vm"}).probes().size() == 6);
  }
}

TEST_CASE("a log of tf_cnn_benchmarks needs the dashes behind its total") {
  const auto text = text_of("two-gpus.log");
  const auto total = text.find("619.87");
  for (const std::string end : {"6", "61", "619.8", "619.87", "619.87\n", "619.87\n--"}) {
    CAPTURE(end);
    CHECK_THAT(refusal_of("a.log", text.substr(0, total) + end, of_trials),
               StartsWith("a.log:") && Contains("dashes") && Contains("fresh copy"));
  }
  auto settings = of_trials;
  settings.nodes = 2;
  settings.scope = Scope::trial;
  const auto ranks = text_of("horovod-every-rank.log");
  CHECK_THAT(refusal_of("h.log", ranks.substr(0, ranks.find("234.50") + 1), settings), Contains("dashes"));
  // Ranks that write at the same time.
  const std::string rule = std::string(64, '-') + "\n";
  const std::string one = "total images/sec: 1234.56\n", other = "total images/sec: 1234.41\n";
  const auto mixed =
      replaced(ranks, rule + one + rule + rule + other + rule, rule + rule + one + other + rule + rule);
  CHECK(in_images(ImportedText("h.log", mixed, settings).trials().at(0).throughput) == 1234.56);
}

TEST_CASE("the last line of a log that breaks off is left out, and that is said") {
  auto settings = of_trials;
  settings.nodes = 1;
  settings.gpus_per_node = 1;
  const auto images_per_second = [&](const std::string& text, const std::string& name) {
    const ImportedText got(name, text, settings);
    CHECK(contains(got.report.report.notes,
                   std::string("left out: the last line, which breaks off without a line end")));
    CHECK(got.report.report.left_out == 1);
    return in_images(got.trials().at(0).throughput).value();
  };
  const auto torchvision = text_of("others/torchvision.log");
  const auto last = torchvision.find("410.09765625");
  for (const std::size_t cut : {last + 2, torchvision.find('\n', last)}) {
    CHECK(images_per_second(torchvision.substr(0, cut), "t.log") == Approx(399.90234375));
  }
  const auto mlperf = text_of("others/resnet-mlperf.log");
  CHECK(images_per_second(mlperf + R"(0: :::MLLOG {"key": "sta)", "m.log") ==
        Approx(2 / (1 / 2400.0 + 1 / 2410.0)));
  const auto reframe = text_of("others/reframe-3.log");
  const ImportedText cut("r.log", reframe.substr(0, reframe.find("6117.5") + 2), settings);
  CHECK(cut.probes().size() == 1);
  CHECK_THAT(cut.report.report.notes.at(0), Contains("the last line, which breaks off"));
  settings.gpus_per_node = 8;
  const auto dllogger = text_of("others/dllogger.log");
  const auto summary = dllogger.find("\"train.compute_ips\": 7931");
  CHECK(images_per_second(dllogger.substr(0, summary + 22), "d.log") == 7766.125);
  CHECK_THAT(refusal_of("d.log", dllogger.substr(0, dllogger.find("7766.125") + 2), settings),
             Contains("none is a summary"));
}

TEST_CASE("an epoch of torchvision that a resumed run starts anew has its own first line") {
  auto settings = of_trials;
  settings.nodes = 1;
  settings.gpus_per_node = 1;
  const auto text = text_of("others/torchvision.log");
  const ImportedText twice("t.log", text + text, settings);
  CHECK(in_images(twice.trials().at(0).throughput) == Approx(2 / (1 / 399.90234375 + 1 / 410.09765625)));
  CHECK_THAT(twice.report.report.notes.at(0), Contains("4 log lines") && Contains("2 epochs"));
}

TEST_CASE("each run in a file of dllogger is a trial, and runs that cannot be told apart are refused") {
  auto settings = of_trials;
  settings.nodes = 1;
  const auto text = text_of("others/dllogger.log");
  const ImportedText two("d.log", text + replaced(text, "7766.125", "3000.5"), settings);
  const auto trials = two.trials();
  REQUIRE(trials.size() == 2);
  CHECK(in_images(trials[0].throughput) == 7766.125);
  CHECK(in_images(trials[1].throughput) == 3000.5);
  CHECK(two.report.report.notes.empty());
  const auto summary = text.substr(text.rfind("DLLL", text.find("7766.125")));
  CHECK_THAT(refusal_of("d.log", text + replaced(summary, "7766.125", "3000.5"), settings),
             StartsWith("d.log:10: ") && Contains("3000.5") && Contains("7766.125"));
  CHECK_THAT(refusal_of("d.log", text + text.substr(0, text.find("DLLL", 10)), settings),
             Contains("the run did not finish"));
  settings.pair = 1;
  CHECK_THAT(refusal_of("d.log", text + text, settings), Contains("has pair 1"));
}

TEST_CASE("dllogger's total is a number above zero, and what stands in for it is said") {
  auto settings = of_trials;
  settings.nodes = 1;
  const auto text = text_of("others/dllogger.log");
  for (const char* bad : {"-1", "0", "null", "\"fast\""}) {
    CAPTURE(bad);
    CHECK_THAT(refusal_of("d.log", replaced(text, "7766.125", bad), settings),
               StartsWith("d.log:8: the summary's train.total_ips is ") && Contains("above zero"));
  }
  const ImportedText computed("d.log", replaced(text, "\"train.total_ips\": 7766.125, ", ""), settings);
  CHECK(in_images(computed.trials().at(0).throughput) == 7931.25);
  CHECK_THAT(computed.report.report.notes.at(0),
             StartsWith("train.compute_ips was taken") && Contains("no train.total_ips"));
}

TEST_CASE("a damaged row of nccl-tests is refused with its line") {
  const ImportSettings settings{.experiment = "e", .arm = "vm"};
  const auto text = text_of("nccl-tests/all_reduce_perf.txt");
  const auto row = text.substr(text.find("   134217728"), text.find("# Out") - text.find("   134217728"));
  const std::pair<const char*, const char*> damages[] = {{"134217728", "13421x728"},
                                                         {"134217728", "99999999999999999999"},
                                                         {"134217728", "x34217728"},
                                                         {"33554432", "3355443,2"}};
  for (const auto& [sound, bad] : damages) {
    CAPTURE(bad);
    CHECK_THAT(refusal_of("x.txt", replaced(text, row, replaced(row, sound, bad)), settings),
               StartsWith("x.txt:14: ") && Contains(bad));
  }
  CHECK_THAT(refusal_of("x.txt", replaced(text, row, "   134217728\n"), settings),
             StartsWith("x.txt:14: a damaged row"));
  // What MPI and NCCL say among the rows is none of them.
  const std::string words =
      "WARNING: there was an error initializing an OpenFabrics device on node-a\nNCCL version 2.18.3\n";
  CHECK(ImportedText("x.txt", replaced(text, row, words + row), settings).probes().size() == 6);
}

TEST_CASE("nccl-tests' own verdict on its data is not passed over where no row has it") {
  const ImportSettings settings{.experiment = "e", .arm = "vm"};
  const std::string sound = "# Out of bounds values : 0 OK", failed = "# Out of bounds values : 3 FAILED";
  const auto text = replaced(text_of("nccl-tests/all_reduce_perf.txt"), sound, failed);
  CHECK_THAT(refusal_of("x.txt", text, settings), StartsWith("x.txt:15: ") && Contains("3 FAILED"));
  const auto flagged = replaced(text, "6.47    6.47      0", "6.47    6.47     12");
  CHECK(ImportedText("x.txt", flagged, settings).report.report.notes.empty());
  const ImportedText old("all_gather_perf.txt",
                         replaced(text_of("nccl-tests/all_gather_perf-old.txt"), sound, failed), settings);
  CHECK(old.report.report.notes.at(0) == failed);
}

TEST_CASE("processes of nccl-tests without MPI, each with a rank 0, are not one job of two nodes") {
  const ImportSettings settings{.experiment = "e", .arm = "vm"};
  const auto text = text_of("nccl-tests/all_reduce_perf.txt");
  CHECK_THAT(refusal_of("x.txt", replaced(text, "Rank  1 Group", "Rank  0 Group"), settings),
             StartsWith("x.txt:7: rank 0 is listed twice: the processes ran separate tests (nccl-tests built "
                        "without MPI=1?)"));
  // Before there were groups, with the preambles of both in front of their ranks.
  const auto row = text_of("nccl-tests/all_gather_perf-old.txt");
  const std::string preamble = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n# Using devices\n";
  const std::string ranks =
      "#   Rank  0 Pid 1320 on node-a device  0 [0x00] Tesla V100-SXM2-16GB\n"
      "#   Rank  0 Pid 2066 on node-b device  0 [0x00] Tesla V100-SXM2-16GB\n";
  CHECK_THAT(refusal_of("all_gather_perf.txt", preamble + preamble + ranks + row, settings),
             StartsWith("all_gather_perf.txt:6: rank 0 is listed twice"));
  // Groups count their own, and a later test lists all of them again.
  const ImportedText groups("x.txt", replaced(text, "Rank  1 Group  0", "Rank  0 Group  1"), settings);
  CHECK(groups.probes().at(0).ranks == 1);
  CHECK(groups.probes().at(0).detail["groups"] == 2);
  CHECK(ImportedText("x.txt", text + text, settings).probes().at(11).ranks == 2);
}

TEST_CASE("processes of tf_cnn_benchmarks that know nothing of each other list their own devices each") {
  const auto one = text_of("two-gpus.log");
  const auto text = one + replaced(one, "total images/sec: 619.87", "total images/sec: 200.13");
  auto settings = of_trials;
  CHECK_THAT(refusal_of("a.log", text, settings), Contains("2 lines") && Contains("--scope rank"));
  for (const auto scope : {Scope::rank, Scope::tenant}) {
    settings = of_trials;
    settings.scope = scope;
    CHECK_THAT(refusal_of("a.log", text, settings), Contains("give --nodes"));
    settings.nodes = 2;
    for (const auto gpus : {std::optional<std::int64_t>(), std::optional<std::int64_t>(2)}) {
      settings.gpus_per_node = gpus;
      const ImportedText got("a.log", text, settings);
      const auto trial = got.trials().at(0);
      CHECK(in_images(trial.throughput) == Approx(820.0));
      CHECK(trial.nodes == 2);
      CHECK(trial.gpus_per_node == 2);
      const auto tenants = got.store.tenants(trial.id);
      CHECK(tenants.size() == (scope == Scope::rank ? 1U : 2U));
      CHECK(tenants.back().nodes == (scope == Scope::rank ? 2 : 1));
    }
    settings.gpus_per_node = 1;
    CHECK_THAT(refusal_of("a.log", text, settings), Contains("a run on 4 GPUs, not of 2 nodes with 1 each"));
  }
  // One of two GPUs and one of one.
  settings = of_trials;
  settings.scope = Scope::rank;
  settings.nodes = 1;
  const auto small = replaced(replaced(one, "['/gpu:0', '/gpu:1']", "['/gpu:0']"), "619.87", "300.1");
  for (const auto& mixed : {one + small, small + one}) {
    CHECK(ImportedText("a.log", mixed, settings).trials().at(0).gpus_per_node == 3);
  }
  CHECK_THAT(refusal_of("a.log", one + one + replaced(one, "Devices:", "Devces:"), settings),
             Contains("2 processes list devices, but there are 3 totals"));
  // Each the whole job's: then the devices are too.
  settings = of_trials;
  settings.scope = Scope::trial;
  CHECK(ImportedText("a.log", one + one, settings).trials().at(0).gpus_per_node == 2);
}

TEST_CASE("a log whose lines stand behind a launcher's prefix is refused with that, not as unfinished") {
  const auto behind = [](const std::string& prefix, const std::string& text) {
    std::string prefixed;
    for (const auto& line : split(trim(text), '\n')) { prefixed += prefix + line + "\n"; }
    return prefixed;
  };
  const auto log = text_of("two-gpus.log"), nccl = text_of("nccl-tests/all_reduce_perf.txt");
  for (const std::string prefix : {"INFO|2024-12-07T13:55:32|/opt/launcher.py|27| ", "worker_1  | ",
                                   "2019-05-05T10:00:00.123456789Z ", "[default0] ", "    "}) {
    CAPTURE(prefix);
    CHECK_THAT(refusal_of("a.log", behind(prefix, log), of_trials),
               StartsWith("a.log:27: \"total images/sec:\" stands on this line behind \"" + prefix + "\"") &&
                   Contains("sed"));
  }
  // torchrun --tee writes role and rank.
  CHECK(in_images(ImportedText("a.log", behind("[default0]:", log), of_trials).trials().at(0).throughput) ==
        in_images(ImportedText("a.log", log, of_trials).trials().at(0).throughput));
  const std::string docker = "2019-05-05T10:00:00Z ";
  CHECK_THAT(refusal_of("x.txt", behind(docker, nccl), of_probes),
             StartsWith("x.txt:16: \"# Avg bus bandwidth\" stands on this line behind \"" + docker));
  // The same where the format is given, or known by some of the lines.
  auto settings = of_trials;
  settings.format = FileFormat::tf_cnn_benchmarks;
  CHECK_THAT(refusal_of("a.log", behind(docker, log), settings),
             StartsWith("a.log:27: \"total images/sec:\""));
  CHECK_THAT(refusal_of("x.txt", replaced(nccl, "# Avg", "worker_1 | # Avg"), of_probes),
             StartsWith("x.txt:16: \"# Avg bus bandwidth\""));
  CHECK_THAT(refusal_of("a.log", replaced(log, "total images", "total (images"), of_trials),
             Contains("did not finish") && !Contains("sed"));
}

TEST_CASE("dllogger's lines for the terminal are read with steps of its own form too") {
  const std::string text =
      "DLL 2020-06-24 00:27:06.123456 - (0, 50) total_ips : 2405.1 train.loss : 6.9 \n"
      "DLL 2020-06-24 00:28:06.123456 - () train.total_ips : 2404.5 \n";
  auto settings = asked();
  for (const auto format : {std::optional<FileFormat>(), std::optional(FileFormat::dllogger)}) {
    settings.format = format;
    CHECK(in_images(ImportedText("d.log", text, settings).trials().at(0).throughput) == 2404.5);
  }
}
