#include <fstream>
#include <random>
#include <sstream>

#include "common/text/printable.h"
#include "common/text/text.h"
#include "results/exchange/exchange.h"
#include "results/exchange/records/line_reader.h"
#include "results/store/canonical_json.h"
#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

struct Imported {
  TemporaryFolder folder;
  Store store{folder.path / "results.db"};
  std::vector<FileReport> reports;
};

std::unique_ptr<Imported> import_files(const std::vector<std::string>& paths,
                                       const ImportSettings& settings = {}) {
  auto imported = std::make_unique<Imported>();
  std::istringstream nothing;
  imported->reports = import_paths(imported->store, paths, settings, nothing);
  return imported;
}

/// Imports a text under a file name.
std::unique_ptr<Imported> import_text(const std::string& name, const std::string& text,
                                      const ImportSettings& settings = {}) {
  const TemporaryFolder folder;
  const auto file = folder.path / name;
  std::ofstream(file, std::ios::binary) << text;
  return import_files({file}, settings);
}

/// The message that refuses the text, without the folder's name; checks that nothing was kept.
std::string refusal(const std::string& name, const std::string& text, const ImportSettings& settings = {}) {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const auto file = folder.path / name;
  std::ofstream(file, std::ios::binary) << text;
  std::istringstream nothing;
  const Error error = error_of([&] { import_paths(store, {file}, settings, nothing); });
  CHECK(error.code() == ErrorCode::bad_input);
  CHECK(store.list_experiments().empty());
  const std::string prefix = folder.path.string() + "/";
  CHECK_THAT(error.message(), StartsWith(prefix));
  return error.message().substr(prefix.size());
}

}  // namespace

TEST_CASE("lines are numbered, cut at LF or CRLF, and bounded") {
  std::istringstream in(
      "\xEF\xBB\xBF"
      "a\r\n\nc");
  LineReader lines(in, "f");
  REQUIRE(lines.next());
  CHECK(lines.line() == "a");
  REQUIRE(lines.next());
  CHECK(lines.line().empty());
  CHECK(lines.has_end());
  REQUIRE(lines.next());
  CHECK(lines.line() == "c");
  CHECK_FALSE(lines.has_end());
  CHECK(lines.position(3) == "f:3:3");
  CHECK_FALSE(lines.next());
  lines.rewind();
  CHECK(lines.next());
  CHECK(lines.position() == "f:1");
}

TEST_CASE("what is no text is refused where it stands") {
  CHECK_THAT(refusal("a.jsonl", std::string("{}\n{\0}", 6)), StartsWith("a.jsonl:1"));
  const auto second = [](const std::string& bytes) {
    return refusal("a.csv", "images_per_second\nx" + bytes + "\n");
  };
  CHECK_THAT(second(std::string("\0", 1)), StartsWith("a.csv:2:2: ") && Contains("NUL"));
  // The table of well-formed sequences, from outside in: lone, overlong, surrogate, beyond U+10FFFF, cut
  // short.
  for (const char* bytes : {"\x80", "\xC0\xAF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                            "\xF4\x90\x80\x80", "\xF8", "\xE2\x82"}) {
    CHECK_THAT(second(bytes), StartsWith("a.csv:2:2: ") && Contains("UTF-8"));
  }
  CHECK(find_invalid_utf8("ä€😀\x7F\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF") == std::string_view::npos);
  CHECK_THAT(refusal("a.csv", std::string(longest_line_bytes + 1, 'x')),
             StartsWith("a.csv:1: ") && Contains("16 MiB"));
}

TEST_CASE("a log of tf_cnn_benchmarks becomes a trial") {
  const auto got = import_files({exchange_data / "two-gpus.log"}, of_trials);
  const auto trial = got->store.trials("e").at(0);
  CHECK(in_images(trial.throughput) == 619.87);
  CHECK(trial.nodes == 1);
  CHECK(trial.gpus_per_node == 2);
  CHECK(trial.batch_size == 64);
  CHECK(trial.case_name == "c");
  CHECK(trial.virtualization.empty());
  CHECK_FALSE(trial.pair);
  CHECK(trial.environment["model"] == "resnet50");
  CHECK(trial.environment["variables"] == "replicated");
  const auto tenant = got->store.tenants(trial.id).at(0);
  CHECK(tenant.loss_first == 8.169);
  CHECK(tenant.loss_last == 7.753);
  CHECK(got->reports.at(0).format == FileFormat::tf_cnn_benchmarks);
}

TEST_CASE("Horovod's total is of all ranks, and on how many nodes is asked") {
  auto settings = of_trials;
  CHECK_THAT(refusal("h.log", text_of("horovod-tagged.log"), settings),
             StartsWith("h.log:") && Contains("--nodes"));
  settings.nodes = 2;
  auto trial = import_files({exchange_data / "horovod-tagged.log"}, settings)->store.trials("e").at(0);
  CHECK(in_images(trial.throughput) == 1234.56);
  CHECK(trial.gpus_per_node == 2);
  CHECK(trial.ranks_per_node == 2);
  settings.nodes.reset();
  settings.gpus_per_node = 1;
  trial = import_files({exchange_data / "horovod-tagged.log"}, settings)->store.trials("e").at(0);
  CHECK(trial.nodes == 4);
  settings.nodes = 3;
  CHECK_THAT(refusal("h.log", text_of("horovod-tagged.log"), settings),
             Contains("4 ranks cannot be divided among 3 nodes"));
}

TEST_CASE("tags of Open MPI 5, which end with a blank, are taken off too") {
  auto settings = of_trials;
  settings.nodes = 2;
  std::string text;
  for (const auto& line : split(text_of("horovod-tagged.log"), '\n')) {
    const auto end = line.find(">:");
    text += (end == line.npos ? line : line.substr(0, end + 2) + " " + line.substr(end + 2)) + "\n";
  }
  CHECK(text.find(">: ") != text.npos);
  CHECK(in_images(import_text("five.log", text, settings)->store.trials("e").at(0).throughput) == 1234.56);
}

TEST_CASE("several totals are refused until their scope is given") {
  auto settings = of_trials;
  settings.nodes = 2;
  // Processes that know nothing of each other.
  auto text = text_of("horovod-every-rank.log");
  for (const char* mark : {"horovod/gpu:0", "horovod/gpu:1", "horovod/gpu:2", "horovod/gpu:3"}) {
    text = replaced(text, mark, std::string(mark).substr(7));
  }
  text = replaced(text, "Variables:   horovod", "Variables:   replicated");
  CHECK_THAT(refusal("h.log", text, settings),
             Contains("4 lines") && Contains("--scope trial") && Contains("--scope rank"));
  settings.scope = Scope::trial;
  CHECK(in_images(import_text("h.log", text, settings)->store.trials("e").at(0).throughput) == 1234.56);
  settings.scope = Scope::rank;
  const auto got = import_text("h.log", text, settings);
  const auto trial = got->store.trials("e").at(0);
  CHECK(in_images(trial.throughput) == Approx(1234.56 + 1234.41 + 1234.6 + 1234.5));
  CHECK(got->store.ranks(got->store.tenants(trial.id).at(0).id).size() == 4);
  settings.scope = Scope::tenant;
  const auto tenants = import_text("h.log", text, settings);
  CHECK(tenants->store.tenants(tenants->store.trials("e").at(0).id).size() == 4);
  settings.scope = Scope::trial;
  CHECK_THAT(refusal("h.log", replaced(text, "1234.41", "310.2"), settings),
             Contains("310.2") && Contains("--scope rank"));
  // Without its preamble, sums of totals that are equal to the last digit are sums of the same.
  auto equal = text.substr(text.find("Step"));
  for (const char* total : {"1234.41", "1234.60", "1234.50"}) { equal = replaced(equal, total, "1234.56"); }
  settings.scope = Scope::rank;
  settings.gpus_per_node = 2;
  CHECK_THAT(refusal("h.log", equal, settings), Contains("4 totals, all 1234.56"));
}

TEST_CASE("a table without its preamble is asked for all that it cannot say") {
  const auto text = text_of("table-only.log");
  auto settings = of_trials;
  CHECK_THAT(refusal("t.log", text, settings), Contains("--nodes"));
  settings.nodes = 1;
  CHECK_THAT(refusal("t.log", text, settings), Contains("--gpus-per-node"));
  settings.gpus_per_node = 0;
  CHECK_THAT(refusal("t.log", text, settings), Contains("--scope"));
  settings.ranks = 1;
  CHECK(in_images(import_text("t.log", text, settings)->store.trials("e").at(0).throughput) == 1.43);
  settings.ranks = 2;
  settings.scope = Scope::rank;
  CHECK_THAT(refusal("t.log", text, settings), Contains("one rank out of 2"));
  settings.scope = Scope::trial;
  CHECK(import_text("t.log", text, settings)->store.trials("e").at(0).ranks_per_node == 2);
}

TEST_CASE("bad logs are refused with their line") {
  const auto text = text_of("two-gpus.log");
  const auto cut = text.substr(0, text.find("total images"));
  CHECK_THAT(refusal("a.log", cut, of_trials), Contains("did not finish"));
  CHECK_THAT(refusal("a.log", replaced(text, "total images/sec: 619.87", "total images/sec: nan"), of_trials),
             StartsWith("a.log:27: ") && Contains("nan"));
  CHECK_THAT(refusal("a.log", replaced(text, "619.87", "0.00"), of_trials), StartsWith("a.log:27: "));
  CHECK_THAT(refusal("a.log", replaced(text, "619.87", "1,619.87"), of_trials), StartsWith("a.log:27: "));
  CHECK_THAT(refusal("a.log", replaced(text, "64 per device", "64.5 per device"), of_trials),
             StartsWith("a.log:8: "));
  CHECK_THAT(refusal("a.log", replaced(text, "128 global", "many global"), of_trials),
             StartsWith("a.log:7: "));
  CHECK_THAT(refusal("a.log", text, {.experiment = "e", .case_name = "c"}), Contains("--arm"));
  CHECK_THAT(refusal("a.log", text, {.case_name = "c", .arm = "vm"}), Contains("--experiment"));
  CHECK_THAT(refusal("a.log", text, {.experiment = "e", .arm = "vm"}), Contains("--case"));
}

TEST_CASE("a folder says arm, case, pair and weak scaling's nodes by its files' places") {
  const auto got = import_files({exchange_data / "study"});
  const auto trials = got->store.trials("study");
  REQUIRE(trials.size() == 6);
  CHECK(trials[0].arm == "bare_metal");
  CHECK(trials[5].arm == "vm");
  CHECK(trials[5].case_name == "one-gpu");
  CHECK(trials[5].pair == 3);
  CHECK(got->reports.size() == 6);

  const TemporaryFolder folder;
  const auto place = folder.path / "fleet/vm/weak-scaling/4";
  std::filesystem::create_directories(place);
  std::filesystem::copy(exchange_data / "horovod-tagged.log", place / "2.log");
  std::ofstream(folder.path / "fleet/README") << "no results\n";
  const auto scaled = import_files({folder.path / "fleet/"});
  const auto trial = scaled->store.trials("fleet").at(0);
  CHECK(trial.case_name == "weak-scaling/4");
  CHECK(trial.nodes == 4);
  CHECK(trial.gpus_per_node == 1);
  CHECK(trial.pair == 2);
  CHECK_FALSE(scaled->reports.at(0).format);
}

TEST_CASE("a folder with bad files is refused whole, and each bad file is named") {
  const TemporaryFolder folder;
  std::filesystem::copy(exchange_data / "study", folder.path / "s", std::filesystem::copy_options::recursive);
  std::ofstream(folder.path / "s/vm/one-gpu/2.log", std::ios::app) << "total images/sec: x\n";
  std::ofstream(folder.path / "s/bare_metal/one-gpu/1.log", std::ios::app) << "total images/sec: -1\n";
  Store store(folder.path / "results.db");
  std::istringstream nothing;
  const auto error = error_of([&] { import_paths(store, {folder.path / "s"}, {}, nothing); });
  CHECK_THAT(error.message(), Contains("vm/one-gpu/2.log:28: ") &&
                                  Contains("bare_metal/one-gpu/1.log:28: ") &&
                                  Contains("nothing was imported"));
  CHECK(store.list_experiments().empty());
}

TEST_CASE("nccl-tests become probes") {
  const auto got = import_files({exchange_data / "nccl-tests"}, {.experiment = "e", .arm = "vm"});
  const auto probes = got->store.probes("e");
  REQUIRE(probes.size() == 8);
  CHECK(probes[0].name == "all_gather");
  CHECK_FALSE(probes[0].wrong);
  const auto& large = probes[6];
  CHECK(large.name == "all_reduce");
  CHECK(large.size_bytes == 134217728);
  CHECK(*large.seconds == Approx(11480e-6));
  CHECK(large.value == Approx(11.69e9));
  CHECK(*large.bus_bytes_per_second == Approx(11.69e9));
  CHECK(large.ranks == 2);
  CHECK(large.nodes == 2);
  CHECK(large.wrong == 0);
  CHECK(large.data_type == "float");
  CHECK(large.detail["device"] == "NVIDIA A100-PCIE-40GB");
  CHECK(large.detail["in_place"] == false);
}

TEST_CASE("wrong data of nccl-tests is flagged, a test that did not finish is refused") {
  const ImportSettings settings{.experiment = "e", .arm = "vm"};
  const auto text = text_of("nccl-tests/all_reduce_perf.txt");
  const auto wrong =
      import_text("x.txt", replaced(text, "6.47    6.47      0", "6.47    6.47     12"), settings);
  CHECK(wrong->store.probes("e").at(2).wrong == 12);
  CHECK(import_words(wrong->reports.at(0).report) == "1 experiment, 6 probes (1 of them with wrong data)");
  CHECK_THAT(refusal("x.txt", text.substr(0, text.find("# Avg")), settings), Contains("did not finish"));
  CHECK_THAT(refusal("x.txt", replaced(text, "161.1    6.51", "x"), settings), StartsWith("x.txt:13: "));
  CHECK_THAT(refusal("x.txt", text + "node: Test NCCL failure common.cu:1\n", settings),
             StartsWith("x.txt:") && Contains("failed"));
  CHECK_THAT(refusal("x.txt", text, {.experiment = "e"}), Contains("--arm"));
  const auto anonymous = replaced(replaced(text, "# Collective test starting: all_reduce_perf\n", ""),
                                  "concluded: all_reduce_perf", "concluded");
  CHECK_THAT(refusal("x.txt", anonymous, settings), Contains("which collective"));
  CHECK(import_text("all_reduce_perf.txt", anonymous, settings)->store.probes("e").at(0).name ==
        "all_reduce");
}

TEST_CASE("outputs of several nccl-tests may follow each other in one file") {
  const ImportSettings settings{.experiment = "e", .arm = "vm"};
  const auto text = text_of("nccl-tests/all_reduce_perf.txt");
  const auto other = replaced(replaced(text, "starting: all_reduce_perf", "starting: broadcast_perf"),
                              "on     node-b", "on     node-a");
  const auto probes = import_text("x.txt", text + other, settings)->store.probes("e");
  REQUIRE(probes.size() == 12);
  CHECK(probes[5].name == "all_reduce");
  CHECK(probes[5].nodes == 2);
  CHECK(probes[6].name == "broadcast");
  CHECK(probes[6].ranks == 2);
  CHECK(probes[6].nodes == 1);
  CHECK_THAT(refusal("x.txt", text.substr(0, text.find("# Avg")) + other, settings),
             Contains("did not finish"));
}

TEST_CASE("SuperBench's summary becomes trials and probes") {
  const ImportSettings settings{.experiment = "fleet", .arm = "vm"};
  const auto got = import_files({exchange_data / "results-summary.jsonl"}, settings);
  const auto trials = got->store.trials("fleet");
  REQUIRE(trials.size() == 3);
  CHECK(trials[0].case_name == "resnet/pytorch-resnet50/fp16");
  CHECK(in_images(trials[0].throughput) == 1560.0);
  CHECK(trials[0].gpus_per_node == 2);
  CHECK(trials[0].environment["node"] == "sb-01");
  CHECK(trials[1].case_name == "resnet_models/pytorch-resnet101/fp32");
  CHECK(trials[1].precision == "fp32");
  const auto probes = got->store.probes("fleet");
  REQUIRE(probes.size() == 4);
  CHECK(got->reports.at(0).report.left_out == 3);
  CHECK_THAT(got->reports.at(0).report.notes.at(0),
             StartsWith("left out: ") && Contains("bert_models/pytorch-bert-base/throughput_train_float16") &&
                 Contains("mem-bw/return_code"));
  std::map<std::string, Probe> by_name;
  for (const auto& probe : probes) { by_name[probe.name] = probe; }
  CHECK(by_name.at("all_reduce").value == 40.5e9);
  CHECK(by_name.at("all_reduce").bus_bytes_per_second == 70.875e9);
  CHECK(by_name.at("all_reduce").size_bytes == 8388608);
  CHECK(by_name.at("host_to_device").value == 25.5e9);
  CHECK(by_name.at("gpu_gemm").value == 280000e9);
  CHECK(by_name.at("gpu_gemm").unit == "FLOP/s");

  const std::string links =
      R"({"node":"a","nccl-bw:nvlink/allreduce_8_algbw":100,"nccl-bw:ib/allreduce_8_algbw":10})";
  const auto of_links = import_text("r.jsonl", links, settings)->store.probes("fleet");
  REQUIRE(of_links.size() == 2);
  CHECK(of_links[0].value == 10e9);
  CHECK(of_links[0].detail["benchmark"] == "nccl-bw:ib");
  CHECK(of_links[1].value == 100e9);

  const std::string plain = R"({"node":"a","model-benchmarks/pytorch-resnet50/fp32_train_throughput":300})";
  auto asked = settings;
  CHECK_THAT(refusal("r.jsonl", plain, asked), StartsWith("r.jsonl:1: ") && Contains("--gpus-per-node"));
  asked.gpus_per_node = 8;
  CHECK_THAT(refusal("r.jsonl", plain, asked), Contains("--scope"));
  asked.scope = Scope::rank;
  CHECK(in_images(import_text("r.jsonl", plain, asked)->store.trials("fleet").at(0).throughput) == 2400.0);
  CHECK_THAT(refusal("r.jsonl", R"({"node":"a","x/y":1})", settings), Contains("no metric"));
  CHECK_THAT(refusal("r.jsonl", R"({"node":"a","m/resnet50/fp32_train_throughput:0":NaN})", settings),
             StartsWith("r.jsonl:1:"));
  CHECK_THAT(refusal("r.jsonl", R"({"node":"a","m/resnet50/fp32_train_throughput:0":"1"})", settings),
             Contains("must be a number"));
}

TEST_CASE("CSV as spreadsheets write it") {
  const auto got = import_files({exchange_data / "trials.csv"});
  const auto trials = got->store.trials("csv-1");
  REQUIRE(trials.size() == 3);
  CHECK(in_images(trials[0].throughput) == 100.5);
  CHECK(trials[0].environment["driver"] == "470.82.01");
  CHECK(trials[2].status == Status::failed);
  CHECK_FALSE(trials[2].pair);
  CHECK(trials[2].environment.is_null());
  CHECK(got->store.experiment("csv-1")->label == "a \"b\", c");

  const std::string header = "images_per_second,pair,invalid_reason\n";
  const ImportSettings rest{.experiment = "e", .case_name = "c", .arm = "vm", .nodes = 1, .gpus_per_node = 0};
  const auto defaults =
      import_text("t.csv", header + "1.5,1,\"two\r\nlines, \"\"quoted\"\"\"\n2.5,2,'=1+1\n", rest);
  CHECK(defaults->store.trials("e").at(0).invalid_reason == "two\nlines, \"quoted\"");
  CHECK(defaults->store.trials("e").at(1).invalid_reason == "=1+1");
}

TEST_CASE("bad CSV is refused with line and column") {
  const ImportSettings rest{.experiment = "e", .case_name = "c", .arm = "vm", .nodes = 1, .gpus_per_node = 0};
  const auto at = [&](const std::string& rows) {
    return refusal("t.csv", "pair,images_per_second\n" + rows, rest);
  };
  CHECK_THAT(at("1,\"1,234\"\n"), StartsWith("t.csv:2:3: ") && Contains("thousands"));
  CHECK_THAT(at("1,5\n1.5,2\n"), StartsWith("t.csv:3:1: ") && Contains("whole number"));
  CHECK_THAT(at("1,5,6\n"), StartsWith("t.csv:2:1: ") && Contains("3 cells where the header names 2"));
  CHECK_THAT(at("1,\"5\n6\n"), StartsWith("t.csv:2:3: ") && Contains("no end"));
  CHECK_THAT(at("1,\"5\"6\n"), StartsWith("t.csv:2:6: ") && Contains("comma"));
  CHECK_THAT(at("1,5\"6\n"), StartsWith("t.csv:2:4: ") && Contains("quote"));
  CHECK_THAT(at("1,0\n"), StartsWith("t.csv:2: ") && Contains("at least 1e-06"));
  CHECK_THAT(at("1,1e80\n"), StartsWith("t.csv:2: ") && Contains("at most 1000000000000"));
  CHECK_THAT(at("1,inf\n"), StartsWith("t.csv:2:3: "));
  CHECK_THAT(at("1,5\n1,6\n"), StartsWith("t.csv:3: ") && Contains("already"));
  CHECK_THAT(at(""), Contains("no rows"));
  CHECK_THAT(refusal("t.csv", "images_per_second,images_per_second\n1,1\n"),
             StartsWith("t.csv:1:19: ") && Contains("twice"));
  CHECK_THAT(
      refusal("t.csv", "images_per_second,gpu_per_node\n1,1\n"),
      StartsWith("t.csv:1:19: ") && Contains("did you mean \"gpus_per_node\"") && Contains("allowed: "));
  auto csv = rest;
  csv.format = FileFormat::csv;
  CHECK_THAT(refusal("t.csv", "pair;images_per_second\n1;1\n", csv), Contains("semicolons"));
  CHECK_THAT(refusal("t.csv", "pair\timages_per_second\n1\t1\n", csv), Contains("separated by tabs"));
  CHECK_THAT(refusal("t.csv", "images_per_second\n1\n"),
             StartsWith("t.csv:2: ") && Contains("\"experiment\" is missing"));
}

TEST_CASE("what is no results file is refused, and so are settings where the records say all") {
  CHECK_THAT(refusal("x", "hello\n"), StartsWith("x:1: ") && Contains("--format"));
  for (const char* nothing : {"", "\n", " \r\n\t\n"}) {
    for (const auto format : {std::optional<FileFormat>(), std::optional(FileFormat::tf_cnn_benchmarks),
                              std::optional(FileFormat::csv), std::optional(FileFormat::jsonl)}) {
      CHECK_THAT(refusal("x", nothing, {.format = format}), StartsWith("x:1: the file is empty"));
    }
  }
  CHECK_THAT(refusal("x", R"({"record":"trial"})", {.arm = "vm"}), Contains("--arm"));
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(import_files({folder.path}), Contains("no file"));
  CHECK_THROWS_WITH(import_files({folder.path / "none"}), Contains("none: no such file"));
  CHECK_THROWS_WITH(import_files({"/dev/zero"}), Contains("cannot be read"));
}

TEST_CASE("standard input is read like a file") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  std::istringstream in(text_of("two-gpus.log"));
  CHECK(import_paths(store, {"-"}, of_trials, in).at(0).report.trials == 1);
  std::istringstream again(text_of("two-gpus.log"));
  CHECK(import_paths(store, {"-"}, of_trials, again).at(0).earlier);
  CHECK(store.trials("e").size() == 1);
  std::istringstream empty;
  CHECK_THROWS_WITH(import_paths(store, {"-"}, of_trials, empty), Contains("<stdin>:1: the file is empty"));
}

// Whatever the bytes: a file is imported, or it is refused with its name and line and nothing of it is kept.
TEST_CASE("mutated files are imported whole or refused whole") {
  struct Seed {
    std::string name, text;
    ImportSettings settings;
  };
  auto two_nodes = of_trials;
  two_nodes.nodes = 2;
  const TemporaryFolder folder;
  Store full(folder.path / "full.db");
  std::istringstream nothing;
  import_paths(full, {exchange_data / "trials.csv", exchange_data / "study"}, {}, nothing);
  std::ostringstream records;
  export_jsonl(full, {.all = true}, records);
  const std::vector<Seed> seeds = {
      {"two-gpus.log", text_of("two-gpus.log"), of_trials},
      {"h.log", text_of("horovod-tagged.log"), two_nodes},
      {"all_reduce_perf.txt", text_of("nccl-tests/all_reduce_perf.txt"), {.experiment = "e", .arm = "vm"}},
      {"r.jsonl", text_of("results-summary.jsonl"), of_trials},
      {"t.csv", text_of("trials.csv"), {}},
      {"e.jsonl", records.str(), {}}};
  std::mt19937 random(20261120);
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  Store store(folder.path / "results.db");
  std::size_t imported = 0, refused = 0;
  for (int round = 0; round < 600; ++round) {
    const auto& seed = seeds[below(seeds.size())];
    std::string text = seed.text;
    for (std::size_t change = 0; change <= below(3); ++change) {
      const auto at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, 1 + below(20));
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
        case 3:
          text.resize(at + 1);
          break;
        default:
          text[at] = "0-9\"',\n\t{}[]:e."[below(15)];
      }
    }
    const auto file = folder.path / seed.name;
    std::ofstream(file, std::ios::binary) << text;
    CAPTURE(seed.name, round, text);
    try {
      store.transaction("round", [&] {
        std::istringstream none;
        import_paths(store, {file}, seed.settings, none);
        ++imported;
        CHECK_FALSE(store.list_experiments().empty());
        throw Error("undo", ErrorCode::interrupted, "");
      });
    } catch (const Error& error) {
      if (error.code() != ErrorCode::interrupted) {
        ++refused;
        CHECK(error.code() == ErrorCode::bad_input);
        CHECK_THAT(error.message(), StartsWith(file.string() + ":"));
      }
    }
    REQUIRE(store.list_experiments().empty());
  }
  CHECK(imported > 50);
  CHECK(refused > 50);
}
