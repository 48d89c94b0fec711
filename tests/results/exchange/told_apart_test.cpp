// Figures that differ in what was measured, or in whose they are, and look alike.
#include <fmt/format.h>

#include "results/comparison/causes/probe_key.h"
#include "results/exchange/exporters/exporters.h"
#include "results/reading/reading.h"
#include "results/tables/render.h"
#include "results/tables/tables.h"
#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

/// "side n value" of each row of show --probes, the value in units of 10^9.
std::vector<std::string> rows_of_probes(const ImportedText& got) {
  std::vector<std::string> rows;
  for (const auto& row : nlohmann::json::parse(render(probes_table(got.store, "e"), Format::json))) {
    rows.push_back(fmt::format("{} n={} {:.4g}", row["side"].get<std::string>(), row["n"].get<int>(),
                               row["value"].get<double>() / 1e9));
  }
  return rows;
}

using FoundRows = std::vector<std::string>;

std::string nvbandwidth_of(const std::string& tests) {
  return R"({"nvbandwidth": {"CUDA Runtime Version": 12040, "version": "v0.6", "testcases": [)" + tests +
         "]}}";
}

std::string copies(const std::string& engine, const std::string& figures) {
  return fmt::format(
      R"({{"name": "host_to_device_memcpy_{}", "status": "Passed", "bandwidth_description": )"
      R"json("memcpy CPU(row) -> GPU(column) bandwidth (GB/s)", "bandwidth_matrix": [[{}]]}})json",
      engine, figures);
}

const std::string two_engines =
    nvbandwidth_of(copies("ce", R"("50.0", "50.2")") + "," + copies("sm", R"("30.0", "30.2")"));

}  // namespace

TEST_CASE("nvbandwidth's copy engines and SMs are figures of their own") {
  const ImportedText got("n.json", two_engines, of_probes);
  CHECK(rows_of_probes(got) == FoundRows{"SM n=2 30.1", "copy engine n=2 50.1"});
  std::ostringstream page;
  export_prometheus(got.store, {"e"}, page);
  CHECK_THAT(page.str(), Contains("virtrain_probe_bytes_per_second{experiment=\"e\",name=\"host_to_device\","
                                  "arm=\"vm\",setting_engine=\"SM\"} 3e+10\n"));
  const ImportedText back("r.jsonl", exported(got.store));
  CHECK(rows_of_probes(back) == rows_of_probes(got));
}

TEST_CASE("nvbandwidth's two directions and their total are figures of their own") {
  const std::string matrix =
      R"([["N/A", "100"], ["101", "N/A"], ["N/A", "110"], ["111", "N/A"], ["N/A", "210"], ["212", "N/A"]])";
  const std::string test =
      R"({"name": "device_to_device_bidirectional_memcpy_read_ce", "status": "Passed", "bandwidth_description": )"
      R"json("memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)", "bandwidth_matrix": )json";
  const ImportedText got("n.json", nvbandwidth_of(test + matrix + "}"), of_probes);
  CHECK(rows_of_probes(got) ==
        FoundRows{"copy engine Read1 n=2 100.5", "copy engine Read2 n=2 110.5", "copy engine Total n=2 211"});
  CHECK_THAT(refusal_of("n.json", nvbandwidth_of(test + R"([["N/A", "100"], ["101", "N/A"]]})"), of_probes),
             Contains("2 rows, which are not one matrix for each direction"));
}

TEST_CASE("nvbandwidth's text says what its JSON says") {
  const std::string text =
      "nvbandwidth Version: v0.6\nBuilt from Git version: v0.6\n\nDriver Version: 550.1\n\n"
      "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
      "           0         1\n 0     50.00     50.20\n\nSUM host_to_device_memcpy_ce 100.20\n\nWaived: \n"
      "Running device_to_device_bidirectional_memcpy_write_sm.\n"
      "memcpy SM GPU(row) <-> GPU(column) Write1 bandwidth (GB/s)\n           0         1\n"
      " 0       N/A     100.0\n 1     101.0       N/A\n\n"
      "SUM device_to_device_bidirectional_memcpy_write_sm_write1 201.00\n\n"
      "memcpy SM GPU(row) <-> GPU(column) Total bandwidth (GB/s)\n           0         1\n"
      " 0       N/A     210.0\n 1     212.0       N/A\n\n"
      "SUM device_to_device_bidirectional_memcpy_write_sm_total 422.00\n\n"
      "Running host_device_latency_sm.\nmemory latency SM CPU(row) <-> GPU(column) (ns)\n           0\n 0    "
      "772.50\n\n"
      "SUM host_device_latency_sm 772.50\n";
  const ImportedText got("n.txt", text, of_probes);
  CHECK(got.report.format == FileFormat::nvbandwidth);
  const auto rows = rows_of_probes(got);
  CHECK(FoundRows(rows.begin(), rows.begin() + 2) == FoundRows{"SM Total n=2 211", "SM Write1 n=2 100.5"});
  CHECK(got.probes().back().value == Approx(772.5e-9));
  CHECK(got.probes().front().detail["driver"] == "550.1");
  CHECK(got.report.report.left_out == 1);
  CHECK_THAT(refusal_of("n.txt", text.substr(0, text.find("SUM device")), of_probes),
             Contains("ends without its line \"SUM device_to_device_bidirectional_memcpy_write_sm\""));
  CHECK_THAT(refusal_of("n.txt", replaced(text, " 0     50.00     50.20", " 0     50.00"), of_probes),
             StartsWith("n.txt:9: a row of host_to_device_memcpy_ce with 1 figure where the matrix has 2"));
}

TEST_CASE("SuperBench's runs of one benchmark are figures of their own") {
  const ImportedText got(
      "s.jsonl",
      R"({"node":"n1","nccl-bw:default/allreduce_1024_algbw:0":131.4,"nccl-bw:gdr-only/allreduce_1024_algbw:0":22.9,)"
      R"("mem-bw:numa-0/h2d_bw:0":25.5,"mem-bw:numa-1/h2d_bw:0":12.5,"mem-bw:numa-1/h2d_bw:1":12.5})",
      of_probes);
  CHECK(rows_of_probes(got) ==
        FoundRows{"default n=1 131.4", "gdr-only n=1 22.9", "numa-0 n=1 25.5", "numa-1 n=2 12.5"});
}

TEST_CASE("PerfKitBenchmarker's operations and sizes are figures of their own, its machines are not") {
  const auto sample = [](const std::string& labels, double value) {
    return fmt::format(R"({{"metric":"algbw","value":{},"unit":"GB/s","test":"nccl","labels":"{}"}})", value,
                       labels) +
           "\n";
  };
  const ImportedText got("p.json",
                         sample("|operation:all_reduce|,|size:8|,|num_nodes:2|,|zone:a|", 0.01) +
                             sample("|operation:all_reduce|,|size:8|,|num_nodes:2|,|zone:b|", 0.01) +
                             sample("|operation:all_reduce|,|size:1048576|,|num_nodes:2|", 10) +
                             sample("|operation:all_reduce|,|size:1048576|,|num_nodes:4|", 9) +
                             sample("|operation:alltoall|,|size:1048576|,|num_nodes:2|", 45),
                         of_probes);
  CHECK(rows_of_probes(got) == FoundRows{"operation=all_reduce n=2 0.01", "operation=all_reduce n=1 10",
                                         "operation=alltoall n=1 45", "operation=all_reduce n=1 9"});
  auto settings = of_probes;
  settings.nodes = 3;
  CHECK_THAT(refusal_of("p.json", sample("|num_nodes:2|", 1), settings),
             Contains("of 2 nodes, and --nodes says 3"));
}

TEST_CASE("a gap is explained by figures that both arms have, never by a mix") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  for (int pair = 1; pair <= 3; ++pair) {
    add_finished(store, "e", "c", "bare_metal", pair, 100);
    add_finished(store, "e", "c", "vm", pair, 80);
  }
  const auto probe = [](const char* arm, const char* engine, double value) {
    Probe made{.name = "host_to_device", .arm = arm};
    made.value = value;
    made.unit = "B/s";
    made.detail = {{"source", "nvbandwidth"}, {"settings", {{"engine", engine}}}};
    return made;
  };
  // In the VM only the SMs were measured, in bare metal both: as fast as each other.
  std::vector<Probe> probes{probe("bare_metal", "copy engine", 50e9), probe("bare_metal", "SM", 30e9),
                            probe("vm", "SM", 30e9)};
  store.add_probes("e", probes);
  const auto causes = [&] {
    std::string words;
    const auto list = compare(store, {.explain = true});
    for (const auto& one : list.at(0).explanation.value().findings) {
      words += one.cause + ": " + one.evidence + "\n";
    }
    return words;
  };
  CHECK_THAT(causes(), !Contains("pcie_link"));
  store.add_probes("e", std::vector{probe("vm", "copy engine", 25e9)});
  CHECK_THAT(causes(),
             Contains("pcie_link: 50 GB/s in bare_metal, 25 GB/s in vm (copy engine) between host"));
}

TEST_CASE("of products each type has its own rate, and sizes that one side lacks do not count") {
  std::vector<Probe> ours, theirs;
  const auto add = [](std::vector<Probe>& side, const char* name, const char* type, std::int64_t size,
                      double value, std::int64_t wrong) {
    Probe probe{.name = name, .data_type = type, .size_bytes = size};
    probe.value = value;
    probe.unit = "B/s";
    probe.wrong = wrong;
    side.push_back(probe);
  };
  for (auto* side : {&ours, &theirs}) {
    const double slower = side == &ours ? 1 : 0.5;
    add(*side, "gpu_gemm", "float16", 0, 9e14, 0);
    add(*side, "gpu_gemm", "float16", 0, 7e14, 0);
    add(*side, "gpu_gemm", "float", 0, 4e14 * slower, 0);
    add(*side, "gpu_gemm", "float", 0, 1e14, 3);  // of wrong data
    add(*side, "device_copy", "byte", 1024, 4e12, 0);
  }
  add(ours, "device_copy", "byte", 1 << 30, 8e12, 0);
  const auto pointers = [](const std::vector<Probe>& probes) {
    std::vector<const Probe*> all;
    for (const auto& probe : probes) { all.push_back(&probe); }
    return all;
  };
  const auto shared = shared_probes(pointers(ours), pointers(theirs));
  CHECK(shared.baseline.at("probe.gpu_gemm.float16") == Approx(8e14));
  CHECK(shared.baseline.at("probe.gpu_gemm.float") == Approx(4e14));
  CHECK(shared.baseline.at("probe.gpu_gemm") == Approx(4e14));  // of the type whose sides differ more
  CHECK(shared.candidate.at("probe.gpu_gemm") == Approx(2e14));
  CHECK(shared.baseline.at("probe.device_copy") == Approx(4e12));
  CHECK_FALSE(shared.baseline.contains("probe.device_copy.byte"));
}

TEST_CASE("rows that older versions imported are told apart by what their tools said") {
  Probe copy{.name = "host_to_device", .arm = "vm"};
  copy.detail = {{"source", "nvbandwidth"}, {"test", "host_to_device_memcpy_ce"}};
  auto sm = copy;
  sm.detail["test"] = "host_to_device_memcpy_sm";
  CHECK(probe_figures({copy, sm}).size() == 2);
  CHECK(probe_figures({copy, copy}).size() == 1);
  Probe before{.name = "all_reduce"}, now{.name = "all_reduce"};
  before.detail = {{"source", "superbench"}, {"benchmark", "nccl-bw:gdr-only"}};
  now.detail = {{"source", "superbench"}, {"settings", {{"run", "gdr-only"}}}};
  CHECK(probe_figures({before, now}).size() == 1);
  // One arm over two transports was told to; two arms over one each were not.
  auto tcp = copy, shm = copy;
  tcp.transport = "tcp", shm.transport = "shm";
  CHECK(probe_figures({tcp, shm}).size() == 2);
  shm.arm = "bare_metal";
  CHECK(probe_figures({tcp, shm}).size() == 1);
}

TEST_CASE("v_figure, nights and comparisons tell figures of probes apart by the same settings") {
  const Probe plain{.name = "all_reduce",
                    .arm = "vm",
                    .data_type = "float",
                    .nodes = 2,
                    .ranks = 4,
                    .size_bytes = 8,
                    .value = 1e9,
                    .unit = "B/s"};
  std::vector<Probe> probes{plain};
  const auto add = [&](auto&& change) {
    probes.push_back(plain);
    probes.back().value = 1e9 * static_cast<double>(probes.size());
    change(probes.back());
  };
  add([](Probe& one) { one.nodes = 4; });
  add([](Probe& one) { one.nodes = {}; });
  add([](Probe& one) { one.ranks = 8; });
  add([](Probe& one) { one.data_type = "half"; });
  add([](Probe& one) { one.transport = "tcp"; });
  add([](Probe& one) { one.unit = "s"; });
  for (const auto* detail :
       {R"({"in_place":true})", R"({"in_place":false})", R"({"operation":"max"})", R"({"root":0})",
        R"({"settings":{"engine":"SM"}})", R"({"settings":{"engine":"copy engine"}})", R"({"device":"A100"})",
        R"({"source":"nvbandwidth","test":"host_to_device_memcpy_sm"})"}) {
    add([&](Probe& one) { one.detail = nlohmann::json::parse(detail); });
  }
  const auto different = probes.size();
  add([](Probe& one) { one.detail = {{"operation", "sum"}, {"driver", "550.1"}}; });  // as `plain`
  CHECK(probe_figures(probes).size() == different);
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  store.add_experiment(an_experiment("e"));
  store.add_probes("e", probes);
  std::set<std::string> figures;
  for_each_row(store.view("v_figure", {"e"}), [&](const ViewRow& row) {
    figures.insert(row.text("name") + row.text("unit") + row.text("settings"));
  });
  CHECK(figures.size() == different);
  const auto of_night = store.night_figures();
  CHECK(of_night.size() == different);
  for (const auto& figure : of_night) {
    const bool is_of_both = figure.value == Approx(1e9 * static_cast<double>(1 + probes.size()) / 2);
    const bool is_of_one =
        std::ranges::any_of(probes, [&](const Probe& one) { return one.value == figure.value; });
    CHECK((is_of_one || is_of_both));
  }
}

TEST_CASE("ReFrame's variables of one GPU and of the whole job are one trial") {
  const std::string header =
      "job_completion_time|name|per_gpu_value|per_gpu_unit|total_value|total_unit|jobid\n";
  const auto row = [&](const std::string& one, const std::string& all) {
    return header + "2025-01-01T00:00:00+00:00|train|" + one + "|img/s|" + all + "|img/s|1\n";
  };
  auto settings = asked();
  settings.gpus_per_node = 8;
  const auto trials = ImportedText("r.log", row("100.0", "800.0"), settings).trials();
  REQUIRE(trials.size() == 1);
  CHECK(in_images(trials[0].throughput) == 800);
  settings.scope = Scope::rank;
  CHECK_THAT(refusal_of("r.log", row("100.0", "800.0"), settings),
             StartsWith("r.log:2: ") && Contains("total in this file has the scope trial"));
  settings.scope.reset();
  CHECK_THAT(refusal_of("r.log", row("100.0", "400.0"), settings),
             Contains("per_gpu is 100 and total is 400, which are not 8 devices"));
  CHECK_THAT(
      refusal_of("r.log", replaced(replaced(row("1", "2"), "total_v", "speed_v"), "total_u", "speed_u"),
                 settings),
      Contains("per_gpu = 1") && Contains("speed = 2"));
  // Version 3 has a line for each variable of a run.
  const auto line = [](const std::string& variable) {
    return "2020-06-24T00:27:06|reframe 3.1|Train on c:gpu using gnu|jobid=1|" + variable +
           "|ref=0 (l=null, u=null)|img/s\n";
  };
  const auto old = ImportedText("r.log", line("img_per_gpu=100") + line("total=800"), settings).trials();
  REQUIRE(old.size() == 1);
  CHECK(in_images(old[0].throughput) == 800);
}

TEST_CASE("Horovod's totals are each of the whole job, whatever the options say") {
  auto settings = of_trials;
  settings.nodes = 2;
  const auto text = text_of("horovod-every-rank.log");
  for (const auto scope : {std::optional<Scope>(), std::optional(Scope::trial)}) {
    settings.scope = scope;
    CHECK(in_images(ImportedText("h.log", text, settings).trials().at(0).throughput) == 1234.56);
  }
  for (const auto scope : {Scope::rank, Scope::tenant}) {
    settings.scope = scope;
    CHECK_THAT(refusal_of("h.log", text, settings),
               Contains("4 lines \"total images/sec\" of 1234.41 to 1234.6") &&
                   Contains("\"Variables: horovod\"") &&
                   Contains(std::string("leave --scope ") + to_string(scope)));
  }
  settings.scope.reset();
  CHECK_THAT(refusal_of("h.log", replaced(text, "1234.41", "310.2"), settings),
             Contains("310.2") && Contains("a file for each"));
}

TEST_CASE("PerfKitBenchmarker's nodes and GPUs are those of its labels") {
  const std::string text =
      R"({"metric": "Training throughput", "value": 8000.5, "unit": "images/second", "test": "horovod", )"
      R"("labels": "|model:resnet50|,|num_nodes:2|,|total_gpus:16|"})";
  auto settings = asked();
  settings.scope = Scope::trial;
  settings.gpus_per_node.reset();
  CHECK_THAT(refusal_of("p.json", text, settings), Contains("of 2 nodes, and --nodes says 1"));
  settings.nodes.reset();
  const auto trial = ImportedText("p.json", text, settings).trials().at(0);
  CHECK(trial.nodes == 2);
  CHECK(trial.gpus_per_node == 8);
  settings.gpus_per_node = 4;
  CHECK_THAT(refusal_of("p.json", text, settings), Contains("of 16 GPUs, which are not 2 nodes with 4 each"));
  CHECK_THAT(refusal_of("p.json", replaced(text, "|total_gpus", "|num_gpus:4|,|total_gpus"), settings),
             Contains("4 GPUs on each of 2 nodes, and 16 in all"));
}

TEST_CASE("nccl-tests' ranks are all there, and its bandwidths are of as many") {
  const auto text = [](const std::string& ranks, const std::string& figures) {
    return "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 2(factor)\n# Using devices\n" +
           ranks +
           "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "
           "algbw   "
           "busbw #wrong\n     1048576        262144     float     sum      -1    100.0 " +
           figures + "      0    100.0 " + figures + "      0\n# Avg bus bandwidth    : 15.73\n";
  };
  const auto rank = [](int number) {
    return fmt::format("#  Rank  {} Group  0 Pid    10{} on      host1 device  {} [0000:01:00] GPU\n", number,
                       number, number);
  };
  const auto four = rank(0) + rank(1) + rank(2) + rank(3);
  const std::string file = "x_all_reduce_perf.log", of_four = "  10.49   15.73";
  CHECK(ImportedText(file, text(four, of_four), of_probes).probes().at(0).ranks == 4);
  // A line that lost its mark is still one of a rank.
  const ImportedText unmarked(file, text(" " + four.substr(1), of_four), of_probes);
  CHECK(unmarked.probes().at(0).ranks == 4);
  CHECK(unmarked.report.report.notes.at(0) == "1 comment was read although the '#' in front is missing");
  CHECK_THAT(
      refusal_of(file, text(rank(1) + rank(2) + rank(3), of_four), of_probes),
      StartsWith(file +
                 ":7: busbw / algbw is 1.5, which is that of 4 ranks, and all_reduce of 3 ranks has 1.333"));
  CHECK_THAT(refusal_of(file, text(rank(0) + rank(1) + rank(2), of_four), of_probes),
             Contains("that of 4 ranks"));
  // Where the figures are too small to tell.
  CHECK_THAT(refusal_of(file, text(rank(0) + rank(2), "   0.01    0.01"), of_probes),
             Contains("rank 1 is not listed, of 2 that are"));
  CHECK(ImportedText(file, text(rank(0) + rank(1) + rank(2), "   0.01    0.01"), of_probes).probes().size() ==
        2);
  auto settings = of_probes;
  settings.ranks = 8;
  CHECK_THAT(refusal_of(file, text(four, of_four), settings), Contains("lists 4 ranks, and --ranks says 8"));
  CHECK_THAT(refusal_of(file, text("", of_four), settings),
             Contains("of 8 ranks has 1.75") && Contains("--ranks"));
  settings = of_probes;
  settings.nodes = 2;
  CHECK_THAT(refusal_of(file, text(four, of_four), settings), Contains("on 1 host, and --nodes says 2"));
}

TEST_CASE(
    "the first nccl-tests, which marked neither header nor average and counted milliseconds, are read") {
  const ImportedText got("y_all_reduce.log",
                         "nThread 1 nGpus 2 minBytes 1048576 maxBytes 2097152 step: 2(factor)\n"
                         "# NCCL Tests compiled with NCCL 2.2\n# Using devices\n"
                         "#   Rank  0 on       host1 device  0 [0x05] Tesla V100\n"
                         "#   Rank  1 on       host1 device  1 [0x06] Tesla V100\n\n"
                         "#      bytes             N    type      op     time  algbw  busbw      res     "
                         "time  algbw  busbw      res\n"
                         "     1048576        262144   float     sum    0.105  10.00  10.00    0e+00    "
                         "0.105  10.00  10.00    0e+00\n"
                         " Out of bounds values : 0 OK\n Avg bus bandwidth    : 10\n\n",
                         of_probes);
  REQUIRE(got.probes().size() == 2);
  CHECK(got.probes()[0].seconds == Approx(105e-6));
  CHECK(got.probes()[0].ranks == 2);
  CHECK(got.probes()[0].value == Approx(10e9));
}

TEST_CASE("rccl-tests' JSON becomes probes") {
  const auto row = [](int in_place, const std::string& more) {
    return fmt::format(
        R"({{"numCycle":0, "name":"AllReduce", "nodes":1, "ranks":4, "ranksPerNode":4, "gpusPerRank":1, )"
        R"("size":1048576, "type":"float", "redop":"sum", "inPlace":{}, "time":100.5, {}, "wrong":"0"}})",
        in_place, more);
  };
  const std::string figures = R"("algBw":10.49, "busBw":15.73)";
  const auto list = "[\n" + row(0, figures) + ",\n" + row(1, figures) + "\n]\n";
  for (const auto& text : {list, row(0, figures) + "\n" + row(1, figures) + "\n"}) {
    const ImportedText got("r.json", text, of_probes);
    REQUIRE(got.probes().size() == 2);
    CHECK(got.probes()[0].name == "all_reduce");
    CHECK(got.probes()[0].seconds == Approx(100.5e-6));
    CHECK(got.probes()[1].detail["in_place"] == true);
    CHECK(got.probes()[1].ranks == 4);
    CHECK(got.probes()[1].wrong == 0);
  }
  CHECK_THAT(refusal_of("r.json", "[" + row(0, R"("algBw":10.49, "busBw":13.1)") + "]", of_probes),
             Contains("busbw / algbw is 1.249"));
  CHECK_THAT(refusal_of("r.json", list.substr(0, list.size() - 4), of_probes), StartsWith("r.json:3:"));
}
