#include "results/exchange/exchange.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/sha256.h"
#include "results/exchange/exporters/exporters.h"
#include "results/exchange/files/work_folder.h"
#include "results/reading/reading.h"
#include "results/store/canonical_json.h"
#include "tests/results/exchange/import_support.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/other_user.h"
#include "tests/support/skip.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

const std::string minimal =
    R"({"record":"trial","experiment":"e","scenario":"s","case":"c","arm":"vm","pair":1,"nodes":4,"gpus_per_node":1,"images_per_second":10675.0925})";

std::string with(const std::string& key, const std::string& value) {
  auto record = nlohmann::json::parse(minimal);
  record[key] = nlohmann::json::parse(value);
  return record.dump();
}

ImportReport import_text(Store& store, const std::string& text) {
  std::istringstream in(text);
  return import_jsonl(store, in, "data.jsonl");
}

/// The message with which the text is refused; checks that nothing of it was kept.
std::string refusal_of_records(const std::string& text) {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const Error error = error_of([&] { import_text(store, text); });
  CHECK(error.code() == ErrorCode::bad_input);
  CHECK(store.list_experiments().empty());
  return error.what();
}

void fill(Store& store) {
  auto experiment = an_experiment("native");
  experiment.plan = {{"b", 1.0}, {"a", {1, 2.5, nullptr}}};
  experiment.fingerprint = {{"kernel", "6.1"}};
  experiment.command_line = "virtrain run \"ä\"";
  store.add_experiment(experiment);
  auto start = a_trial("native", "two-vms", "vm", 1);
  start.order = 1;
  start.virtualization = "tcg";
  start.oversubscribed = true;
  const auto trial = store.begin_trial(start);
  const auto tenant =
      store.save_tenant(trial, {.tenant_index = 0, .name = "blue", .nodes = 2, .loss_first = 0.1});
  Node node;
  node.name = "n0";
  node.kind = "vm";
  node.fingerprint = {{"kernel", "6.1g"}};
  const auto node_id = store.save_node(tenant, node);
  Rank rank;
  rank.rank = 1;
  rank.size = 2;
  const auto rank_id = store.save_rank(tenant, rank);
  store.save_transport(tenant, {"n0", "n1", "tcp"});
  store.add_samples(rank_id,
                    std::vector<Sample>{{1, 1, 4, 1.0 / 3, 6.9}, {2, 2, 4, 0.1 + 0.2, std::nullopt}});
  store.add_telemetry(node_id, std::vector<Telemetry>{{9, "host", "cpu_seconds", 1e-9}});
  store.add_event("native", {trial, 5, "", "boot", "domain started", {{"id", 3}}});
  store.add_event("native", {std::nullopt, 6, "", "", "done", nullptr});
  store.finish_trial(trial, {of_images(0.1 + 0.2), 17, false, "too slow"}, "2026-11-20T08:01:00.000Z");
  store.fail_trial(store.begin_trial(a_trial("native", "two-vms", "bare_metal", 1)),
                   {"run", "exit 1", "tail"}, "2026-11-20T08:02:00.000Z");
}

}  // namespace

TEST_CASE("a trial needs only the first line's fields") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const auto report = import_text(store, minimal + "\n");
  CHECK(report.trials == 1);
  CHECK(report.experiments == 1);
  CHECK(import_words(report) == "1 experiment, 1 trial");
  const auto trial = store.trials("e").at(0);
  CHECK(trial.status == Status::finished);
  CHECK(in_images(trial.throughput) == 10675.0925);
  CHECK(trial.virtualization.empty());
  CHECK_FALSE(trial.order);
  CHECK(trial.started_at.empty());
  CHECK(store.select({}) == std::vector<std::string>{"e"});
}

TEST_CASE("the design's own example is kept whole") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const std::string line =
      R"({"arm":"vm","backend":"cuda","batch_size":1024,"case":"weak-scaling/4","environment":{"driver":"470.82.01","gpu_name":"A100-PCIE"},"experiment":"dell-2022","gpus_per_node":1,"images_per_second":10675.0925,"label":null,"nodes":4,"order":2,"pair":1,"precision":null,"record":"trial","scenario":"dell-r750xa","started_at":"2022-05-01T00:00:00Z","status":"finished","virtualization":"kvm"})";
  import_text(store, line);
  CHECK_THAT(exported(store), Contains(line + "\n"));
}

TEST_CASE("null or absent throughput is a missing trial") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  auto absent = nlohmann::json::parse(with("pair", "2"));
  absent.erase("images_per_second");
  const auto report = import_text(store, with("images_per_second", "null") + "\n\n" + absent.dump());
  CHECK(report.trials == 2);
  CHECK(report.missing == 2);
  CHECK(store.trials("e").at(1).status == Status::failed);
}

TEST_CASE("export, import, export gives the same bytes") {
  const TemporaryFolder folder;
  Store first(folder.path / "first.db");
  fill(first);
  import_text(first, minimal + "\n" + with("pair", "null") + "\n" + with("arm", "\"bare_metal\""));
  const auto bytes = exported(first);
  Store second(folder.path / "second.db");
  std::istringstream in(bytes);
  const auto report = import_jsonl(second, in, "x");
  CHECK(report.samples == 2);
  CHECK(report.telemetry == 1);
  CHECK(report.events == 2);
  CHECK(exported(second) == bytes);
  CHECK_THAT(bytes, Contains("0.30000000000000004") && Contains("0.3333333333333333,") && Contains("1e-09"));
}

TEST_CASE("every refusal names the file and the line") {
  const auto second_line = [](const std::string& bad) {
    return refusal_of_records(minimal + "\n" + bad + "\n");
  };
  const auto at = StartsWith("data.jsonl:2: ");
  CHECK_THAT(second_line(with("images_per_second", "0")), at && Contains("images_per_second is 0"));
  CHECK_THAT(second_line(with("images_per_second", "-3.5")), at && Contains("-3.5"));
  CHECK_THAT(second_line(with("images_per_second", "\"12\"")), at && Contains("must be a number"));
  for (const char* word : {"NaN", "Infinity", "-Infinity", "1e999"}) {
    CAPTURE(word);
    auto line = minimal;
    const auto place = line.find("10675.0925");
    line.replace(place, 10, word);
    const auto column = place + 1 + (std::string(word) == "-Infinity" ? 1 : 0);
    const auto message = second_line(line);
    CHECK_THAT(message, StartsWith(fmt::format("data.jsonl:2:{}: this is not JSON: ", column)) &&
                            !Contains("json.exception"));
    CHECK((message.find("NaN and Infinity") != message.npos) == (std::string(word) != "1e999"));
  }
  CHECK_THAT(second_line(with("gpu_per_node", "1")),
             at && Contains("unknown key \"gpu_per_node\"") && Contains("did you mean \"gpus_per_node\""));
  CHECK_THAT(second_line(minimal), at && Contains("has pair 1 of case c in the arm vm already"));
  CHECK_THAT(second_line("{\"record\":\"trial\""), StartsWith("data.jsonl:2:18: ") &&
                                                       Contains("unexpected end of input") &&
                                                       !Contains("json.exception") && !Contains("NaN"));
  CHECK_THAT(second_line("[1]"), at && Contains("object"));
  CHECK_THAT(second_line(R"({"record":"trial","record":"trial"})"),
             at && Contains("\"record\" appears twice"));
  CHECK_THAT(second_line(with("record", "\"run\"")), at && Contains("run"));
  CHECK_THAT(second_line(with("pair", "1.5")), at && Contains("pair is 1.5") && Contains("whole number"));
  CHECK_THAT(second_line(with("pair", "-1")), at && Contains("pair"));
  CHECK_THAT(second_line(with("nodes", "0")), at && Contains("nodes is 0"));
  CHECK_THAT(second_line(with("nodes", "18446744073709551615")), at && Contains("whole number"));
  CHECK_THAT(second_line(with("virtualization", "\"esxi\"")), at && Contains("kvm_nested"));
  CHECK_THAT(second_line(with("status", "\"done\"")), at && Contains("interrupted"));
  CHECK_THAT(second_line(with("started_at", "\"yesterday\"")), at && Contains("2022-05-01T00:00:00Z"));
  CHECK_THAT(second_line(with("environment", "[]")), at && Contains("environment"));
  CHECK_THAT(second_line(with("scenario", "\"other\"")), at && Contains("other"));
  CHECK_THAT(second_line(with("case", "\"\"")), at && Contains("empty"));
  for (const char* key : {"experiment", "scenario", "case", "arm", "nodes", "gpus_per_node"}) {
    CAPTURE(key);
    CHECK_THAT(second_line(with(key, "null")), at && Contains(std::string("\"") + key + "\" is missing"));
  }
  CHECK_THAT(second_line(R"({"record":"experiment","experiment":"e","scenario":"s"})"),
             at && Contains("twice"));
  CHECK_THAT(second_line(R"({"record":"event","experiment":"e","trial":2,"t_ns":1,"message":"m"})"),
             at && Contains("trial 2"));
  CHECK_THAT(second_line(R"({"record":"event","experiment":"f","t_ns":1,"message":"m"})"),
             at && Contains("f"));
  CHECK_THAT(
      second_line(
          R"({"record":"sample","experiment":"e","trial":1,"tenant":0,"rank":0,"t_ns":1,"step":1,"images":1,"seconds":1})"),
      at && Contains("no tenant 0"));
  CHECK_THAT(
      refusal_of_records(with("tenants", R"([{"tenant_index":0,"nodes":1,"images_per_second":-1}])") + "\n"),
      StartsWith("data.jsonl:1: ") && Contains("images_per_second"));
  CHECK_THAT(refusal_of_records(with("tenants", R"([{"tenant_index":4000000000,"nodes":1}])") + "\n"),
             Contains("data.jsonl:1: tenant_index is 4000000000, it must be at most 1000000000"));
  CHECK_THAT(second_line(with("nodes", "9223372036854775807")), at && Contains("at most 1000000000"));
  CHECK_THAT(refusal_of_records(" \n"), Contains("no records"));
}

TEST_CASE("what the system says against writing an export is said with the file's name") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  for (int pair = 1; pair <= 500; ++pair) { add_finished(store, "e", "c", "vm", pair, 100); }
  const auto write = [&](std::ostream& out) { export_jsonl(store, {.experiments = {"e"}}, out); };
  const auto device = error_of([&] { write_whole("/dev/full", write); });
  CHECK(device.code() == ErrorCode::io);
  CHECK(std::string(device.what()) == "write /dev/full: No space left on device");

  const auto file = folder.path / "e.jsonl";
  std::ofstream(file) << "old\n";
  const auto error = error_of([&] {
    const FileSizeLimit limit(10'000);
    write_whole(file, write);
  });
  CHECK(std::string(error.what()) == "write " + file.string() + ": File too large");
  CHECK(read_file(file) == "old\n");
  CHECK_NOTHROW(write_whole(file, write));
  CHECK(read_file(file).value().size() > 100'000);
}

TEST_CASE("an export goes to a file, to a given descriptor or to a pipe, and never through a link") {
  const TemporaryFolder folder;
  const auto write = [](std::ostream& out) { out << "new\n"; };
  const auto file = folder.path / "file", link = folder.path / "link", pipe = folder.path / "pipe";
  std::filesystem::create_symlink("/dev/null", link);
  write_whole(link, write);
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(link)));
  CHECK(read_file(link) == "new\n");
  CHECK_NOTHROW(write_whole("/dev/null", write));

  std::ofstream(file) << "old\n";
  const UniqueFd given(::open(file.c_str(), O_WRONLY | O_APPEND));
  keep_given_descriptors();
  CHECK((::fcntl(given.get(), F_GETFD) & FD_CLOEXEC) != 0);
  const UniqueFd our_own(::open(file.c_str(), O_WRONLY | O_APPEND));  // the database's, say
  write_whole(fmt::format("/dev/fd/{}", given.get()), write);
  CHECK(read_file(file) == "old\nnew\n");
  CHECK_THROWS_WITH(write_whole(fmt::format("/dev/fd/{}", our_own.get()), write),
                    Contains("Bad file descriptor"));
  CHECK(read_file(file) == "old\nnew\n");

  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  write_whole(pipe, write);
  CHECK(read_at_most(reader.get(), 4) == "new\n");
  CHECK_THROWS_WITH(write_whole(folder.path, write), Contains("Is a directory"));
}

TEST_CASE("an export that replaces a file keeps its permissions, and never a set-id bit") {
  const TemporaryFolder folder;
  const auto file = folder.path / "file";
  const auto mode_after = [&](mode_t before) {
    ::chmod(file.c_str(), before);
    write_whole(file, [](std::ostream& out) { out << "new\n"; });
    struct stat status {};
    REQUIRE(::stat(file.c_str(), &status) == 0);
    return status.st_mode & 07777;
  };
  const auto umask_before = ::umask(077);
  CHECK(mode_after(0) == 0600);  // a new file
  ::umask(umask_before);
  CHECK(mode_after(0640) == 0640);
  CHECK(mode_after(0666) == 0666);
  CHECK(mode_after(06755) == 0755);
  if (::geteuid() != 0) { return; }
  REQUIRE(::chown(file.c_str(), test::stranger, test::stranger) == 0);
  CHECK(mode_after(0666) == 0644);  // ours now, and the stranger cannot have left it open to others
}

TEST_CASE("root writes an export to no disk and to no pipe of somebody else's") {
  test::need_root();
  const TemporaryFolder folder;
  const auto write = [](std::ostream& out) { out << "new\n"; };
  const auto disk = folder.path / "disk", pipe = folder.path / "pipe";
  constexpr unsigned loop_major = 7, no_such_loop = 4000;
  if (::mknod(disk.c_str(), S_IFBLK | 0600, makedev(loop_major, no_such_loop)) == 0) {
    CHECK_THROWS_WITH(write_whole(disk, write), Contains("block device"));
  }
  REQUIRE(::mkfifo(pipe.c_str(), 0666) == 0);
  REQUIRE(::chown(pipe.c_str(), test::stranger, test::stranger) == 0);
  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  CHECK_THROWS_WITH(write_whole(pipe, write), Contains("belongs to user 65534"));
  CHECK(read_at_most(reader.get(), 4) == "");
}

TEST_CASE("an experiment is found by the beginning of its id, where no other begins so") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  for (const char* id : {"20261120t08-7f", "20261120t09-1a", "2026"}) {
    store.add_experiment(an_experiment(id));
  }
  CHECK(store.full_id("20261120t08") == "20261120t08-7f");
  CHECK(store.full_id("2026") == "2026");
  CHECK_THAT(error_of([&] { (void)store.full_id("20261120t0"); }).message(),
             Contains("several ids begin so: 20261120t08-7f, 20261120t09-1a"));
  CHECK_THAT(error_of([&] { (void)store.full_id("20261121"); }).message(), Contains("none of this id"));
  CHECK_THAT(error_of([&] { (void)store.full_id(""); }).message(), Contains("none of this id"));
  CHECK_THAT(error_of([&] { (void)store.full_id("%"); }).message(), Contains("none of this id"));
}

TEST_CASE("a file is imported once") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const std::string unpaired = with("pair", "null") + "\n";
  import_text(store, unpaired);
  CHECK_THROWS_WITH(import_text(store, unpaired), Contains("imported before"));
  CHECK(store.trials("e").size() == 1);
  CHECK_THROWS_WITH(import_text(store, minimal + "\n" + minimal), Contains("data.jsonl:2"));
  CHECK(store.trials("e").size() == 1);
  CHECK_NOTHROW(import_text(store, minimal));
  CHECK_THROWS_WITH(import_text(store, minimal + "\n"), Contains("already"));
  CHECK_THROWS_WITH(import_text(store, exported(store)), Contains("already"));
}

TEST_CASE("two thousand trials are imported and compared") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    auto record = nlohmann::json::parse(minimal);
    record["pair"] = i;
    record["virtualization"] = "kvm";
    record["images_per_second"] = 99.0 + 0.001 * (i % 7);
    text += record.dump() + "\n";
    record["arm"] = "bare_metal";
    record["virtualization"] = "none";
    record["images_per_second"] = 100.0 + 0.001 * (i % 5);
    text += record.dump() + "\n";
  }
  CHECK(import_text(store, text).trials == 2000);
  const auto result = compare(store, {});
  REQUIRE(result.size() == 1);
  CHECK(result[0].n == 1000);
  CHECK(result[0].verdict == Verdict::equivalent);
  CHECK(result[0].test->ratio == Approx(0.99).epsilon(1e-4));
}

TEST_CASE("numbers are written as short as they read back") {
  for (const auto& [value, text] :
       std::vector<std::pair<double, std::string>>{{10818, "10818"},
                                                   {0.1, "0.1"},
                                                   {1e-9, "1e-09"},
                                                   {-0.0, "-0.0"},
                                                   {1e22, "1e+22"},
                                                   {0.1 + 0.2, "0.30000000000000004"}}) {
    CAPTURE(value);
    CHECK(shortest_number(value) == text);
    const double back = nlohmann::json::parse(text).get<double>();
    CHECK(back == value);
    CHECK(std::signbit(back) == std::signbit(value));
  }
  CHECK(canonical_json({{"b", {1, true, nullptr}}, {"a", "ä\n"}}) == R"({"a":"ä\n","b":[1,true,null]})");
  CHECK(canonical_json({std::numeric_limits<double>::infinity(), std::nan("")}) == "[null,null]");
}

// FIPS 180-4's examples.
TEST_CASE("sha256 of known texts") {
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("a work folder stays ours, whatever others put under its name") {
  const TemporaryFolder folder;
  const auto victim = folder.path / "victim";
  std::filesystem::create_directory(victim);
  std::ofstream(victim / "exchange.jsonl") << "precious";
  std::filesystem::path moved = folder.path / "moved";
  {
    const WorkFolder work(folder.path / "e.tar.gz");
    std::filesystem::rename(work.named_path(), moved);
    std::filesystem::create_directory_symlink(victim, work.named_path());
    write_whole(work.path() / "exchange.jsonl", [](std::ostream& out) { out << "new"; });
    { const Store copy(work.path() / "results.db"); }
    CHECK(read_file(moved / "exchange.jsonl") == "new");
    CHECK(std::filesystem::exists(moved / "results.db"));
  }
  CHECK(std::filesystem::is_empty(moved));
  CHECK(read_file(victim / "exchange.jsonl") == "precious");
  CHECK_FALSE(std::filesystem::exists(victim / "results.db"));
}
