// What options and places say of files that do not say it themselves.
#include "common/contains.h"
#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

namespace fs = std::filesystem;

const std::string record =
    R"({"record":"trial","experiment":"e","scenario":"s","case":"c","arm":"vm","nodes":1,"gpus_per_node":1,"images_per_second":99})"
    "\n";

/// A folder "s" of an experiment, and what its import brought.
struct Study {
  void add(const std::string& place, const std::string& text) {
    const auto file = folder.path / "s" / place;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  std::vector<FileReport> read(const ImportSettings& settings = {}) {
    std::istringstream nothing;
    return import_paths(store, {folder.path / "s"}, settings, nothing);
  }

  TemporaryFolder folder;
  Store store{folder.path / "results.db"};
};

}  // namespace

TEST_CASE("an option that a file's format does not take is refused") {
  const auto table = text_of("trials.csv");
  const std::pair<const char*, ImportSettings> options[] = {
      {"--label", {.label = "l"}},
      {"--pair", {.pair = 1}},
      {"--gpus-per-node", {.gpus_per_node = 1}},
      {"--ranks", {.ranks = 1}},
      {"--batch-size", {.batch_size = 1}},
      {"--precision", {.precision = "fp16"}},
      {"--virtualization", {.virtualization = "kvm"}},
      {"--started-at", {.started_at = "2022-05-01T00:00:00Z"}},
      {"--scope", {.scope = Scope::rank}},
      {"--collective", {.collective = "broadcast"}}};
  for (const auto& [option, settings] : options) {
    CAPTURE(option);
    CHECK_THAT(
        refusal_of("a.jsonl", record, settings),
        StartsWith("a.jsonl:1: exchange records and databases say all about themselves") && Contains(option));
    if (contains(options_of(FileFormat::csv), std::string(option))) { continue; }
    CHECK_THAT(refusal_of("t.csv", table, settings), Contains(std::string("csv does not take ") + option));
  }
  const ImportSettings of_trial{.experiment = "e", .case_name = "c", .arm = "vm"};
  CHECK_THAT(refusal_of("x.txt", text_of("nccl-tests/all_reduce_perf.txt"), of_trial),
             Contains("nccl-tests does not take --case") && Contains("it takes --experiment"));
}

TEST_CASE("of a folder each file takes its own options, and some file must take each") {
  Study study;
  study.add("vm/one/1.log", text_of("two-gpus.log"));
  study.add("vm/all_reduce_perf.txt", text_of("nccl-tests/all_reduce_perf.txt"));
  CHECK(study.read({.label = "l"}).size() == 2);
  Study other;
  other.add("a.jsonl", record);
  CHECK_THAT(error_of([&] { other.read({.label = "l"}); }).message(),
             Contains("no file in it takes --label"));
  CHECK(other.store.list_experiments().empty());
}

TEST_CASE("a time with a zone is kept in UTC, so that the experiments' order is that of time") {
  const std::string header =
      "experiment,scenario,case,arm,nodes,gpus_per_node,images_per_second,started_at\n";
  const ImportedText got("tz.csv",
                         header +
                             "a,s,c,vm,1,1,100,2026-11-20T00:30:00+02:00\nb,s,c,vm,1,1,90,"
                             "2026-11-19T23:30:00Z\n",
                         {});
  CHECK(got.store.trials("a").at(0).started_at == "2026-11-19T22:30:00Z");
  CHECK(got.store.trials("b").at(0).started_at == "2026-11-19T23:30:00Z");
}

TEST_CASE("spellings of a precision are one precision") {
  const std::string header = "experiment,scenario,case,arm,nodes,gpus_per_node,images_per_second,precision\n";
  for (const auto& [spelling, name] : {std::pair{"FP16", "fp16"},
                                       {"float16", "fp16"},
                                       {"bfloat16", "bf16"},
                                       {"TF32", "tf32"},
                                       {"int8", "int8"}}) {
    const ImportedText got("p.csv", header + "e,s,c,vm,1,1,100," + spelling + "\n", {});
    CHECK(got.trials().at(0).precision == name);
  }
}

TEST_CASE("two columns that fill one key are both named") {
  ImportSettings settings{.experiment = "e", .case_name = "c", .arm = "vm", .nodes = 1, .gpus_per_node = 1};
  settings.columns = {{"ips", "images_per_second"}, {"secs", "images_per_second"}};
  CHECK_THAT(refusal_of("m.csv", "ips,secs\n1301.25,3\n", settings),
             Contains("the columns \"ips\" and \"secs\" are both images_per_second"));
}

TEST_CASE("a folder's name of 0 is no number of nodes") {
  Study study;
  study.add("vm/weak/0/1.log", text_of("others/torchvision.log"));
  CHECK_THAT(error_of([&] { study.read({.gpus_per_node = 1}); }).message(), Contains("give --nodes"));
}

TEST_CASE("tenants with a log each are one trial, by the numbers in their names") {
  Study study;
  const auto log = text_of("study/vm/one-gpu/1.log");
  study.add("vm/two-vms/1.10.log", replaced(log, "total images/sec: 612.25", "total images/sec: 10"));
  study.add("vm/two-vms/1.2.log", replaced(log, "total images/sec: 612.25", "total images/sec: 2"));
  study.read();
  const auto trial = study.store.trials("s").at(0);
  CHECK(in_images(trial.throughput) == 12);
  CHECK(trial.nodes == 2);
  CHECK(trial.pair == 1);
  const auto tenants = study.store.tenants(trial.id);
  REQUIRE(tenants.size() == 2);
  CHECK(tenants[0].tenant_index == 2);
  CHECK(in_images(tenants[0].throughput) == 2);
  CHECK(tenants[1].tenant_index == 10);
  CHECK(in_images(tenants[1].throughput) == 10);
}

TEST_CASE("with skip_failed an empty folder is a failed file among others") {
  Study study;
  study.add("a.jsonl", record);
  fs::create_directories(study.folder.path / "empty");
  std::istringstream nothing;
  const std::vector<std::string> paths = {study.folder.path / "empty", study.folder.path / "s"};
  const auto reports = import_paths(study.store, paths, {.skip_failed = true}, nothing);
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].refusal == paths[0] + ": there is no file in this folder");
  CHECK(reports[1].report.trials == 1);
}
