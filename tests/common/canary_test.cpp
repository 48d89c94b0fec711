#include "common/text/canary.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "common/files/file_search.h"
#include "tests/support/catch.h"

using namespace virtrain;

namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("canary-test-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path put(const std::string& name, const std::string& text, std::size_t hole = 0) const {
    std::ofstream out(path / name, std::ios::binary);
    if (hole > 0) { out.seekp(static_cast<std::streamoff>(hole)); }
    out << text;
    return path / name;
  }
};

}  // namespace

TEST_CASE("canaries are all different and look like canaries") {
  std::set<std::string> texts;
  for (int i = 0; i < 1000; ++i) {
    const auto canary = make_canary("a");
    CHECK(is_canary_text(canary.text));
    texts.insert(canary.text);
  }
  CHECK(texts.size() == 1000);
  auto text = make_canary("a").text;
  text.back() = '"';
  CHECK_FALSE(is_canary_text(text));
  CHECK_FALSE(is_canary_text(text.substr(1)));
}

TEST_CASE("a canary is found once wherever its stream is cut") {
  const auto canary = make_canary("a");
  const std::string stream = std::string(50, 'x') + canary.text + std::string(40, 'y');
  for (std::size_t first = 0; first <= stream.size(); ++first) {
    for (const std::size_t second : {std::size_t{1}, std::size_t{7}, std::size_t{31}, std::size_t{200}}) {
      CanarySearch search({canary, make_canary("b")});
      search.feed(stream.substr(0, first));
      for (auto at = first; at < stream.size(); at += second) { search.feed(stream.substr(at, second)); }
      CAPTURE(first, second);
      CHECK(search.hits()[0].count == 1);
      CHECK(search.hits()[0].first == 50);
      CHECK(search.hits()[1].count == 0);
    }
  }
}

TEST_CASE("copies are counted from the first to the last, and not across a gap or a restart") {
  const auto canary = make_canary("a");
  CanarySearch search({canary});
  search.feed(canary.text + canary.text);
  search.feed(canary.text);
  CHECK(search.hits()[0].count == 3);
  CHECK(search.hits()[0].last == 2 * canary_size);
  search.restart();
  search.feed(canary.text.substr(0, 10));
  search.skip(4096);
  search.feed(canary.text.substr(10));
  CHECK(search.hits()[0].count == 0);
}

TEST_CASE(
    "files are searched through holes and borders of pieces, within limits, and links are not followed") {
  const Folder folder;
  const auto canary = make_canary("mine"), other = make_canary("other");
  constexpr std::size_t piece = std::size_t{1} << 20;
  std::filesystem::create_directories(folder.path / "a/b");
  folder.put("a/b/deep", std::string(piece - 5, 'x') + canary.text);
  folder.put("sparse", canary.text, 64 * piece);
  folder.put("clean", std::string(1000, 'z'));
  std::filesystem::create_symlink(folder.path / "sparse", folder.path / "link");
  std::filesystem::create_hard_link(folder.path / "sparse", folder.path / "second-name");

  const auto report = search_files({canary, other}, {folder.path});
  REQUIRE(report.found.size() == 2);
  CHECK(report.has("mine"));
  CHECK_FALSE(report.has("other"));
  for (const auto& one : report.found) {
    CHECK(one.count == 1);
    CHECK(one.first == (one.path.filename() == "deep" ? piece - 5 : 64 * piece));
  }
  CHECK(report.scanned_bytes == report.total_bytes);
  CHECK(report.total_bytes < 3 * piece);  // without the hole

  const auto limited = search_files({canary}, {folder.path / "a", folder.path / "sparse"}, {.bytes = 100});
  CHECK(limited.scanned_bytes < limited.total_bytes);
  CHECK(search_files({canary}, {folder.path / "absent"}).unreadable == 1);
  CHECK(search_files({canary}, {"/proc/self"}).scanned_bytes == 0);  // the kernel's own
}
