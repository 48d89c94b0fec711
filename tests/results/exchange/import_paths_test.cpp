#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <streambuf>
#include <thread>

#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "results/exchange/exchange.h"
#include "results/exchange/files/work_folder.h"
#include "tests/results/exchange/import_support.h"
#include "tests/support/file_size_limit.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using namespace std::chrono_literals;

namespace {

const std::string header = "experiment,scenario,case,arm,pair,nodes,gpus_per_node,images_per_second\n";

/// A CSV file with one trial.
std::string table(std::size_t pair) {
  return header + "e,s,c,vm," + std::to_string(pair) + ",1,1,100.5\n";
}

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
}

/// Whether another process could write to the database now.
bool is_writable(const std::filesystem::path& database) {
  try {
    Store other(database, Store::Mode::open, 0ms);
    other.transaction("look", [] {});
    return true;
  } catch (const Error&) { return false; }
}

/// A slow writer's end: when its bytes are asked for, it looks whether the database is free.
class WatchingInput : public std::streambuf {
 public:
  WatchingInput(std::string text, std::filesystem::path database)
      : text_(std::move(text)), database_(std::move(database)) {}

  bool was_writable = false;

 private:
  int_type underflow() override {
    if (eback() != nullptr) { return traits_type::eof(); }
    was_writable = is_writable(database_);
    setg(text_.data(), text_.data(), text_.data() + text_.size());
    return traits_type::to_int_type(text_.front());
  }

  std::string text_;
  std::filesystem::path database_;
};

/// The message that refuses this line, without the folder's name; nothing if it is imported.
std::string refusal_of_line(const std::string& line) {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  write(folder.path / "a.jsonl", line + "\n");
  try {
    import_these(store, {folder.path / "a.jsonl"});
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_input);
    CHECK(store.list_experiments().empty());
    const std::string message = error.what();
    return message.substr(message.find("a.jsonl"));
  }
}

std::string nested(std::size_t levels, const std::string& open, const std::string& close) {
  std::string text;
  for (std::size_t i = 0; i < levels; ++i) { text += open; }
  text += "1";
  for (std::size_t i = 0; i < levels; ++i) { text += close; }
  return text;
}

/// A trial's record with one more member.
std::string trial_with(const std::string& member) {
  return R"({"record":"trial","experiment":"e","scenario":"s","case":"c","arm":"vm","nodes":1,"gpus_per_node":1,)" +
         member + "}";
}

/// What may be open at a time, while this lives.
class OpenFilesLimit {
 public:
  explicit OpenFilesLimit(rlim_t limit) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit lower{limit, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &lower) == 0);
  }
  OpenFilesLimit(const OpenFilesLimit&) = delete;
  OpenFilesLimit& operator=(const OpenFilesLimit&) = delete;
  ~OpenFilesLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("while standard input comes, others may write to the database") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  WatchingInput input(table(1), folder.path / "results.db");
  std::istream in(&input);
  CHECK(import_paths(store, {"-"}, {}, in).at(0).report.trials == 1);
  CHECK(input.was_writable);
}

TEST_CASE("while a pipe's bytes come, others may write to the database") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const auto pipe = folder.path / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  bool was_writable = false;
  std::thread writer([&] {
    std::ofstream out(pipe);  // waits for the reader
    was_writable = is_writable(folder.path / "results.db");
    out << table(1);
  });
  const auto reports = import_these(store, {pipe});
  writer.join();
  CHECK(reports.at(0).report.trials == 1);
  CHECK(was_writable);
}

TEST_CASE("of an input without an end no more is kept than a file may unpack to") {
  std::istringstream in(table(1));
  CHECK_THAT(error_of([&] { TemporaryText().copy(in, "<stdin>", table(1).size() - 1); }).message(),
             Contains("there are more than " + std::to_string(table(1).size() - 1) + " bytes"));
  std::istringstream all(table(1));
  TemporaryText kept;
  kept.copy(all, "<stdin>", table(1).size());
  CHECK(read_file(kept.path()) == table(1));
}

TEST_CASE("a temporary file is in TMPDIR and has no name, and where there is no room, that is said") {
  const TemporaryFolder folder;
  ::setenv("TMPDIR", folder.path.c_str(), 1);
  TemporaryText text, small;
  ::unsetenv("TMPDIR");
  CHECK(std::filesystem::is_empty(folder.path));
  text.write("kept", "a.gz");
  text.finish("a.gz");
  CHECK(read_file(text.path()) == "kept");
  const auto error = error_of([&] {
    const FileSizeLimit limit(4096);
    small.write(std::string(100'000, 'x'), "a.gz");
    small.finish("a.gz");
  });
  CHECK(error.code() == ErrorCode::io);
  CHECK(std::string(error.what()) ==
        "read a.gz: it could not be copied to a temporary file in " + folder.path.string() +
            ": File too large; free space there, or choose another folder with TMPDIR");
}

TEST_CASE("a folder may have more files than may be open at a time, packed or not") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const std::size_t files = 100;
  for (std::size_t pair = 1; pair <= files; ++pair) {
    const auto file = folder.path / "s" / (std::to_string(pair) + ".csv");
    write(file, table(pair));
    if (pair % 2 == 0) { REQUIRE(run_command({"gzip", file.string()}).exit_status == 0); }
  }
  const OpenFilesLimit limit(40);
  CHECK(import_these(store, {folder.path / "s"}).size() == files);
}

TEST_CASE("all that is wrong is said at once, whether seen before or while reading") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  write(folder.path / "bad.csv", header + "e,s,c,vm,1,1,1,fast\n");
  const auto error = error_of([&] {
    import_these(store, {folder.path / "bad.csv", folder.path / "none.csv"});
  });
  CHECK_THAT(error.message(), Contains("bad.csv:2:") && Contains("none.csv: no such file") &&
                                  Contains("nothing was imported"));
  CHECK(store.list_experiments().empty());
}

TEST_CASE("records that nest deeper than 64 levels are refused") {
  // The record itself is the first level.
  CHECK(refusal_of_line(trial_with(R"("environment":)" + nested(63, R"({"a":)", "}"))).empty());
  const auto too_deep = trial_with(R"("environment":)" + nested(64, R"({"a":)", "}"));
  const auto column = too_deep.find("1}") + 1 - std::string(R"({"a":)").size();
  CHECK_THAT(refusal_of_line(too_deep),
             Contains("a.jsonl:1:" + std::to_string(column) + ": ") && Contains("64"));
  CHECK_THAT(refusal_of_line(trial_with(R"("environment":{"a":)" + nested(63, "[", "]") + "}")),
             Contains("64"));
  // What opens within a text opens nothing, and what is closed is no longer counted.
  CHECK(refusal_of_line(trial_with(R"("label":"\"\\)" + std::string(100, '[') + "\"")).empty());
  std::string wide = "[[]";
  for (int i = 0; i < 100; ++i) { wide += ",[],{}"; }
  CHECK(refusal_of_line(trial_with(R"("environment":{"a":)" + wide + "]}")).empty());
}

TEST_CASE("a record of two hundred thousand levels is refused, whatever its member") {
  const auto deep = nested(200'000, R"({"a":)", "}");
  for (const auto& line :
       {trial_with(R"("environment":)" + deep),
        R"({"record":"experiment","experiment":"e","scenario":"s","plan":)" + deep + "}",
        trial_with(R"("tenants":[{"tenant_index":0,"nodes":1,"workload":)" + deep + "}]"),
        R"({"record":"event","experiment":"e","detail":)" + deep + "}", trial_with(R"("nodes":)" + deep),
        "{\"node\":\"n\",\"mem-bw/h2d_bw:0\":" + deep + "}",
        trial_with(R"("environment":)" + nested(200'000, "[", "]"))}) {
    CAPTURE(line.substr(0, 150));
    CHECK_THAT(refusal_of_line(line), Contains("a.jsonl:1:") && Contains("64"));
  }
}

TEST_CASE("files of a folder that are no text are skipped and reported") {
  const TemporaryFolder folder;
  const auto study = folder.path / "s";
  std::filesystem::copy(exchange_data / "study", study, std::filesystem::copy_options::recursive);
  Store plain(folder.path / "plain.db");
  const auto reports_before = import_these(plain, {study}).size();
  write(study / "plot.png", std::string("\x89PNG\r\n\x1A\n\0\0\0\rIHDR", 16));
  write(study / ".DS_Store", std::string("\0\0\0\1Bud1", 8));
  write(study / "vm/one-gpu/1.log.gz", "\x1F\x8B\x08\x08\xFF");
  write(study / "config.json", R"({"learning_rate": 0.1})"
                               "\n");
  write(study / "README",
        "what was measured\nat 20 \xB0"
        "C\n");
  Store store(folder.path / "results.db");
  std::vector<std::string> skipped;
  const auto reports = import_these(store, {study});
  for (const auto& file : reports) {
    if (!file.format) { skipped.push_back(std::filesystem::path(file.name).filename()); }
  }
  CHECK(reports.size() == reports_before + 5);
  CHECK_THAT(skipped, virtrain::test::UnorderedEquals(std::vector<std::string>{
                          "plot.png", ".DS_Store", "1.log.gz", "config.json", "README"}));
  CHECK(store.list_experiments().at(0).trials == plain.list_experiments().at(0).trials);
}

TEST_CASE("files of a known format and files that are named stay strict about their bytes") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const auto refusal = [&](const std::filesystem::path& path, const ImportSettings& settings = {}) {
    return error_of([&] { import_these(store, {path}, settings); }).message();
  };
  write(folder.path / "known/1.csv", table(1) + "\xFF\n");
  CHECK_THAT(refusal(folder.path / "known"), Contains("1.csv:3:1: ") && Contains("UTF-8"));
  write(folder.path / "other/plot.png", std::string("\x89PNG\r\n\0", 7));
  CHECK_THAT(refusal(folder.path / "other"), Contains("no file in it is of a format"));
  CHECK_THAT(refusal(folder.path / "other/plot.png"), Contains("plot.png:1:1: ") && Contains("UTF-8"));
  CHECK_THAT(refusal(folder.path / "other", {.format = FileFormat::csv}), Contains("plot.png:1:1: "));
  CHECK(store.list_experiments().empty());
}
