// Evidence bundles and packed files come back; what is damaged, false or a bomb is refused.
#include <SQLiteCpp/Database.h>
#include <fcntl.h>

#include <fstream>
#include <sstream>

#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/sha256.h"
#include "results/exchange/bundle/bundle.h"
#include "results/exchange/exchange.h"
#include "results/exchange/files/unpack.h"
#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

namespace fs = std::filesystem;

/// Why the file is refused; nothing may be kept of it.
std::string refusal_of_file(const fs::path& file, const ImportSettings& settings = {}) {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const auto error = error_of([&] { import_these(store, {file}, settings); });
  CHECK(error.code() == ErrorCode::bad_input);
  CHECK(store.list_experiments().empty());
  return error.what();
}

/// A measured trial, and its bundle.
struct Bundled {
  explicit Bundled(const std::string& name) : file(folder.path / name) {
    Experiment experiment = an_experiment("e1");
    experiment.virtrain_version = "0.2.0";
    experiment.scenario_text = "name: quickstart\n";
    store.add_experiment(experiment);
    add_finished(store, "e1", "c", "vm", 1, 101.5);
    add_finished(store, "e1", "c", "bare_metal", 1, 104.25);
    write_bundle(store, {"e1"}, file, folder.path / "logs");
  }

  TemporaryFolder folder;
  Store store{folder.path / "results.db"};
  fs::path file;
};

using Members = std::vector<std::pair<std::string, std::string>>;

const std::string packed_record =
    R"({"record":"trial","experiment":"e","scenario":"s","case":"c","arm":"vm","pair":1,"nodes":1,"gpus_per_node":1,"images_per_second":99})"
    "\n";

/// A bundle with these members, in the right folder and with right checksums.
void write_archive(const fs::path& file, Members members, const std::string& folder = "virtrain-evidence/") {
  std::string sums;
  for (const auto& [name, content] : members) { sums += sha256(content) + "  " + name + "\n"; }
  members.emplace_back("SHA256SUMS", sums);
  const UniqueFd archive_file(::open((file).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  ArchiveWriter archive(archive_file.get(), file, ArchiveWriter::Compression::gzip);
  for (const auto& [name, content] : members) { archive.add(folder + name, content); }
  archive.close();
}

void gzip(const fs::path& file) {
  REQUIRE(run_command({"gzip", "-9", "-n", file.string()}).exit_status == 0);
}

}  // namespace

TEST_CASE("what is packed may come through standard input") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  std::ofstream(folder.path / "r.jsonl") << packed_record;
  gzip(folder.path / "r.jsonl");
  std::ifstream in(folder.path / "r.jsonl.gz", std::ios::binary);
  const auto reports = import_paths(store, {"-"}, {}, in);
  CHECK(reports.at(0).report.trials == 1);
}

TEST_CASE("an evidence bundle comes back as it was, packed and unpacked") {
  for (const char* name : {"evidence.tar.gz", "evidence.tar.zst"}) {
    const Bundled bundled(name);
    Store packed(bundled.folder.path / "packed.db");
    const auto reports = import_these(packed, {bundled.file});
    CHECK(reports.at(0).report.trials == 2);
    CHECK_THAT(reports.at(0).name, Contains(std::string(name) + "/exchange.jsonl"));
    CHECK(exported(packed) == exported(bundled.store));

    REQUIRE(
        run_command({"tar", "-C", bundled.folder.path.string(), "-xf", bundled.file.string()}).exit_status ==
        0);
    const auto unpacked = bundled.folder.path / "virtrain-evidence";
    Store store(bundled.folder.path / "unpacked.db");
    import_these(store, {unpacked});
    CHECK(exported(store) == exported(bundled.store));

    std::ofstream(unpacked / "experiments/e1/scenario.yaml", std::ios::app) << "# changed\n";
    CHECK_THAT(refusal_of_file(unpacked), Contains("checksum mismatch: experiments/e1/scenario.yaml"));
    fs::remove(unpacked / "experiments/e1/scenario.yaml");
    CHECK_THAT(refusal_of_file(unpacked),
               Contains("experiments/e1/scenario.yaml is listed in SHA256SUMS and missing"));
    fs::create_symlink("/etc/hostname", unpacked / "experiments/e1/scenario.yaml");
    CHECK_THAT(refusal_of_file(unpacked), Contains("is a link"));
  }
}

TEST_CASE("a bundle that tar packed anew, with its folders, comes back") {
  const Bundled bundled("evidence.tar.gz");
  const auto at = bundled.folder.path.string();
  REQUIRE(run_command({"tar", "-C", at, "-xf", bundled.file.string()}).exit_status == 0);
  REQUIRE(run_command({"tar", "-C", at, "-czf", at + "/again.tar.gz", "virtrain-evidence"}).exit_status == 0);
  Store store(bundled.folder.path / "again.db");
  import_these(store, {at + "/again.tar.gz"});
  CHECK(exported(store) == exported(bundled.store));
}

TEST_CASE("a log that cannot be read is missing from the bundle, not empty in it") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e1"));
  const auto trial = add_finished(store, "e1", "c", "vm", 1, 101.5);
  fs::create_directories(folder.path / "logs");
  // A regular file whose first byte not even root can read: the memory of this process.
  fs::create_symlink("/proc/self", folder.path / "logs/e1");
  Node node;
  node.name = "n0";
  node.kind = "vm";
  node.console_log = folder.path / "logs/e1/mem";
  store.save_node(store.save_tenant(trial, {.tenant_index = 0, .nodes = 1}), node);
  const auto file = folder.path / "evidence.tar.gz";
  const auto report = write_bundle(store, {"e1"}, file, folder.path / "logs");
  CHECK(report.missing == std::vector<std::string>{node.console_log});
  REQUIRE(run_command({"tar", "-C", folder.path.string(), "-xf", file.string()}).exit_status == 0);
  CHECK_THAT(read_file(folder.path / "virtrain-evidence/manifest.json").value(),
             Contains("it cannot be read"));
  CHECK_FALSE(fs::exists(folder.path / "virtrain-evidence/experiments/e1/logs"));
}

TEST_CASE("a bundle that was changed, is short of a file or has a strange one is refused") {
  const TemporaryFolder folder;
  const auto file = folder.path / "ev.tar.gz";
  write_archive(file, {{"exchange.jsonl", packed_record}});
  Store store(folder.path / "results.db");
  CHECK(import_these(store, {file}).at(0).report.trials == 1);

  const auto refused = [&](const Members& raw, const std::string& prefix = "virtrain-evidence/") {
    const UniqueFd archive_file(::open((file).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    ArchiveWriter archive(archive_file.get(), file, ArchiveWriter::Compression::gzip);
    for (const auto& [name, content] : raw) { archive.add(prefix + name, content); }
    archive.close();
    return refusal_of_file(file);
  };
  const auto sum = [](const std::string& content, const std::string& name) {
    return sha256(content) + "  " + name + "\n";
  };
  const auto sums = sum(packed_record, "exchange.jsonl");
  CHECK_THAT(refused({{"exchange.jsonl", packed_record + packed_record}, {"SHA256SUMS", sums}}),
             Contains("checksum mismatch: exchange.jsonl"));
  CHECK_THAT(refused({{"exchange.jsonl", packed_record}, {"SHA256SUMS", sums}, {"plan.json", "{}"}}),
             Contains("plan.json is in the bundle and not in SHA256SUMS"));
  CHECK_THAT(refused({{"exchange.jsonl", packed_record}, {"SHA256SUMS", sums + sum("", "plan.json")}}),
             Contains("plan.json is listed in SHA256SUMS and missing"));
  CHECK_THAT(
      refused({{"exchange.jsonl", packed_record}, {"exchange.jsonl", packed_record}, {"SHA256SUMS", sums}}),
      Contains("is in it twice"));
  CHECK_THAT(
      refused({{"exchange.jsonl", packed_record}, {"../../../../tmp/escaped", ""}, {"SHA256SUMS", sums}}),
      Contains("is not a plain file below virtrain-evidence/"));
  CHECK_THAT(refused({{"exchange.jsonl", packed_record}, {"SHA256SUMS", sums + sum("", "../x")}}),
             Contains("line 2 of SHA256SUMS"));
  CHECK_THAT(refused({{"exchange.jsonl", packed_record}}), Contains("has exchange.jsonl and SHA256SUMS"));
  CHECK_THAT(refused({{"a.log", "text"}}, "logs/"), Contains("this archive is not an evidence bundle"));
}

TEST_CASE("a foreign archive in a folder is skipped, a false bundle in it is refused") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path / "study/vm/c");
  std::ofstream(folder.path / "study/vm/c/trial.jsonl") << packed_record;
  const UniqueFd foreign_file(
      ::open((folder.path / "study/logs.tar.gz").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  ArchiveWriter foreign(foreign_file.get(), folder.path / "study/logs.tar.gz",
                        ArchiveWriter::Compression::gzip);
  foreign.add("logs/a.log", "text");
  foreign.close();
  Store store(folder.path / "results.db");
  const auto reports = import_these(store, {folder.path / "study"});
  REQUIRE(reports.size() == 2);
  CHECK_FALSE(reports[0].format.has_value());
  CHECK(reports[1].report.trials == 1);

  const UniqueFd changed_file(
      ::open((folder.path / "study/ev.tar.gz").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  ArchiveWriter changed(changed_file.get(), folder.path / "study/ev.tar.gz",
                        ArchiveWriter::Compression::gzip);
  changed.add("virtrain-evidence/exchange.jsonl", packed_record);
  changed.add("virtrain-evidence/SHA256SUMS", sha256("") + "  exchange.jsonl\n");
  changed.close();
  CHECK_THAT(refusal_of_file(folder.path / "study"), Contains("ev.tar.gz: checksum mismatch"));
}

TEST_CASE("a packed log is read as the log, its pair from its name") {
  const TemporaryFolder folder;
  const auto log = folder.path / "study/vm/one-gpu/7.log";
  fs::create_directories(log.parent_path());
  fs::copy_file(exchange_data / "two-gpus.log", log);
  gzip(log);
  Store store(folder.path / "results.db");
  const auto reports = import_these(store, {folder.path / "study"});
  CHECK(reports.at(0).report.trials == 1);
  CHECK(store.trials("study").at(0).pair == 7);
}

TEST_CASE("what unpacks beyond its limits, or is cut off, is refused") {
  const TemporaryFolder folder;
  const auto text = folder.path / "zeros.jsonl";
  std::ofstream(text, std::ios::binary) << std::string(std::size_t{80} << 20, ' ');
  gzip(text);
  const auto packed = folder.path / "zeros.jsonl.gz";
  CHECK_THAT(refusal_of_file(packed), Contains("it unpacks to more than 200 times its"));
  CHECK_THAT(error_of([&] { unpack(packed, "z", {.bytes = 1'000'000}); }).message(),
             Contains("it unpacks to more than 1000000 bytes"));
  const auto many = folder.path / "many.tar.gz";
  write_archive(many, {{"exchange.jsonl", packed_record}, {"a", ""}, {"b", ""}});
  CHECK_THAT(error_of([&] { unpack(many, "m", {.members = 3}); }).message(), Contains("more than 3 members"));
  fs::resize_file(packed, fs::file_size(packed) / 2);
  CHECK_THAT(refusal_of_file(packed), Contains("it cannot be unpacked"));
}

// To libarchive NUL bytes are the end of a tar archive.
TEST_CASE("packed NUL bytes are too large, or no text, and never nothing") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, std::size_t bytes) {
    std::ofstream(folder.path / name, std::ios::binary) << std::string(bytes, '\0');
    gzip(folder.path / name);
    return refusal_of_file(folder.path / (name + ".gz"));
  };
  CHECK_THAT(refused("large.log", std::size_t{80} << 20),
             Contains("large.log.gz: it unpacks to more than 200 times its"));
  CHECK_THAT(refused("small.log", 20'000), Contains("small.log.gz:1:1: a NUL byte; this is not text"));
  CHECK_THAT(refused("empty.log", 0), Contains("empty.log.gz") && !Contains("NUL"));
}

TEST_CASE("with skip_failed the good files are imported and the failed ones named") {
  const TemporaryFolder folder;
  const auto study = folder.path / "study";
  fs::create_directories(study);
  std::ofstream(study / "a.jsonl") << packed_record;
  std::string other = packed_record;
  std::ofstream(study / "b.jsonl") << other.replace(other.find("\"pair\":1"), 8, "\"pair\":2")
                                   << "{\"record\":\"nothing\"}\n";
  std::ofstream(study / "c.jsonl") << packed_record;  // the bytes of a.jsonl
  std::ofstream(study / "notes.txt") << "hello\n";
  Store store(folder.path / "results.db");
  const auto reports = import_these(store, {study}, {.skip_failed = true});
  REQUIRE(reports.size() == 4);
  CHECK(reports[0].report.trials == 1);
  CHECK_THAT(reports[1].refusal, Contains("b.jsonl:2: record is \"nothing\""));
  CHECK(reports[2].refusal.empty());
  CHECK_THAT(reports[2].earlier.value().name, Contains("a.jsonl"));
  CHECK((reports[3].refusal.empty() && !reports[3].format));
  CHECK(store.trials("e").size() == 1);  // nothing of b.jsonl's first line
  CHECK_THAT(error_of([&] { import_these(store, {study / "b.jsonl"}, {.skip_failed = true}); }).message(),
             Contains("b.jsonl:2: record is"));
}

TEST_CASE("another results database is read as it is at that moment, and stays as it is") {
  const TemporaryFolder folder;
  const auto other = folder.path / "other.db";
  std::string records;
  {
    Store source(other);
    source.add_experiment(an_experiment("e1"));
    add_finished(source, "e1", "c", "vm", 1, 101.5);
    add_finished(source, "e1", "c", "bare_metal", 1, 104.25);
    records = exported(source);
  }
  const auto before = read_file(other).value();
  Store store(folder.path / "results.db");
  const auto reports = import_these(store, {other});
  CHECK(reports.at(0).report.trials == 2);
  CHECK(reports.at(0).name == other.string());
  CHECK(exported(store) == records);
  CHECK(read_file(other).value() == before);
  const auto again = import_these(store, {other});
  CHECK(again.at(0).report.trials == 0);
  CHECK_THAT(again.at(0).earlier.value().imported_at, StartsWith("20"));
  CHECK(exported(store) == records);

  { const Store made(folder.path / "nothing.db"); }
  CHECK_THAT(refusal_of_file(folder.path / "nothing.db"),
             Contains("nothing.db: there are no experiments in this database"));
  fs::copy_file(other, folder.path / "packed.db");
  gzip(folder.path / "packed.db");
  CHECK_THAT(refusal_of_file(folder.path / "packed.db.gz"),
             Contains("packed.db.gz: a results database is read from its own"));

  const auto foreign = folder.path / "foreign.db";
  SQLite::Database(foreign.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE t(x)");
  CHECK_THAT(refusal_of_file(foreign), Contains("foreign.db") && Contains("cannot be read"));
  fs::resize_file(other, fs::file_size(other) / 2);
  CHECK_THAT(refusal_of_file(other), Contains("other.db"));
}
