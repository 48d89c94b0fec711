#include "common/text/text.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/text/cpu_list.h"
#include "common/text/printable.h"
#include "common/text/wrap.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waiting_writer.h"

using namespace virtrain;
using virtrain::test::Contains;

TEST_CASE("split, trim and join") {
  using List = std::vector<std::string>;
  CHECK(split("a,,b,", ',') == List{"a", "", "b", ""});
  CHECK(split("", ',') == List{""});
  CHECK(trim(" \t a b\r\n") == "a b");
  CHECK(trim(" \n").empty());
  CHECK(join({"a", "", "b"}, ", ") == "a, , b");
  CHECK(join({}, ",").empty());
}

TEST_CASE(
    "row 13: a planted link or file where a write would put its bytes first is neither followed nor taken") {
  const TemporaryFolder folder;
  const auto target = folder.path / "target", victim = folder.path / "victim";
  write_file_atomically(victim, "secret");
  ::chmod(victim.c_str(), 0600);
  std::filesystem::create_symlink(victim, target.string() + "." + std::to_string(::getpid()) + ".tmp");
  write_file_atomically(target, "new");
  CHECK(read_file(target) == "new");
  CHECK(read_file(victim) == "secret");
  CHECK_FALSE(std::filesystem::is_symlink(target));
  // A link in the target's own place is replaced, what it names is not written to.
  std::filesystem::create_symlink(victim, folder.path / "link");
  write_file_atomically(folder.path / "link", "mine");
  CHECK(read_file(victim) == "secret");
  CHECK(read_file(folder.path / "link") == "mine");
  // and nothing is left where it cannot be written
  CHECK_THROWS_AS(write_file_atomically(folder.path / "none/file", "x"), Error);
  CHECK(entries_of(folder.path).size() == 4);
}

TEST_CASE("what is shown is UTF-8 without control characters") {
  const std::string bad = "\uFFFD";
  CHECK(printable("grüße 漢 😀\n\t") == "grüße 漢 😀\n\t");
  CHECK(printable("\x1b[2J\x7f\r") == bad + "[2J" + bad + bad);
  CHECK(printable(std::string("a\0b", 3)) == "a" + bad + "b");
  CHECK(printable("\xff\xfe") == bad + bad);
  CHECK(printable("\xc3") == bad);                                // cut short
  CHECK(printable("\xc0\xaf") == bad + bad);                      // overlong '/'
  CHECK(printable("\xed\xa0\x80") == bad + bad + bad);            // a surrogate
  CHECK(printable("\xf4\x90\x80\x80") == bad + bad + bad + bad);  // beyond U+10FFFF
  CHECK(printable("\xf4\x8f\xbf\xbd") == "\xf4\x8f\xbf\xbd");     // the last that is a character
}

TEST_CASE("row 10: terminal escapes do not reach the operator") {
  struct Row {
    const char* what;
    const char* text;
    bool is_shown;
  };
  // Expected values from Unicode's own tables, by name.
  const Row rows[] = {
      {"control sequence introducer", "\u009b", false},
      {"next line", "\u0085", false},
      {"no-break space", "\u00a0", true},
      {"soft hyphen", "\u00ad", false},
      {"combining acute accent", "\u0301", true},
      {"arabic letter mark", "\u061c", false},
      {"arabic letter alef", "\u0627", true},
      {"zero width space", "\u200b", false},
      {"zero width joiner", "\u200d", false},
      {"left-to-right mark", "\u200e", false},
      {"right-to-left mark", "\u200f", false},
      {"hyphen", "\u2010", true},
      {"line separator", "\u2028", false},
      {"paragraph separator", "\u2029", false},
      {"left-to-right embedding", "\u202a", false},
      {"right-to-left override", "\u202e", false},
      {"word joiner", "\u2060", false},
      {"left-to-right isolate", "\u2066", false},
      {"pop directional isolate", "\u2069", false},
      {"hangul filler", "\u3164", false},
      {"a noncharacter inside", "\ufdd0", false},
      {"variation selector 16", "\ufe0f", false},
      {"byte order mark", "\ufeff", false},
      {"replacement character", "\ufffd", true},
      {"a noncharacter at the end", "\uffff", false},
      {"grinning face", "\U0001f600", true},
      {"language tag", "\U000e0001", false},
      {"tag latin small letter a", "\U000e0061", false},
      {"variation selector 256", "\U000e01ef", false},
      {"the last code point", "\U0010ffff", false},
  };
  for (const auto& row : rows) {
    INFO(row.what);
    CHECK(printable(row.text) == (row.is_shown ? row.text : "\uFFFD"));
  }
}

TEST_CASE("what is shown has an end, and says what it left out") {
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdefg", 6) == "abcdef… (1 more byte)");
  CHECK(printable("grüße", 3) == "gr… (5 more bytes)");  // no half letter
  CHECK(printable(std::string(3'000'000, 'x')).size() < 70'000);
  CHECK(excerpt("a\tb\nerror: c\r") == "a b error: c\uFFFD");
  CHECK(excerpt(std::string(300, 'x')) == std::string(200, 'x') + "… (100 more bytes)");
}

TEST_CASE("the nearest word is near, or there is none") {
  const std::vector<std::string> keys{"pairs", "guest", "workload", "cases"};
  CHECK(nearest_word("piars", keys) == "pairs");
  CHECK(nearest_word("workloads", keys) == "workload");
  CHECK(nearest_word("gest", keys) == "guest");
  CHECK_FALSE(nearest_word("devices", keys));
  CHECK_FALSE(nearest_word("", keys));
  CHECK_FALSE(nearest_word("x", {}));
}

TEST_CASE("CPU lists, both ways") {
  CHECK(parse_cpu_list("0-3,8\n") == std::vector<int>{0, 1, 2, 3, 8});
  CHECK(parse_cpu_list("").empty());
  CHECK(format_cpu_list({8, 0, 1, 3, 2}) == "0-3,8");
  CHECK(format_cpu_list({}).empty());
  CHECK(parse_cpu_list("8,0-1") == std::vector<int>{8, 0, 1});
  CHECK(parse_cpu_list("0-65535").size() == 65536);
  for (const char* text : {"a", "1-", "-1", "3-1", "0,,1", "0,", "0-65536", "0-99999999", "1-2-3"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_cpu_list(text), Error);
  }
}

TEST_CASE("a CPU list names each CPU once, so that a short text makes no long list") {
  CHECK_THROWS_WITH(parse_cpu_list("0-3,2"), Contains("names CPU 2 twice"));
  std::string flood;
  for (int i = 0; i < 30'000; ++i) { flood += "0-65535,"; }
  try {
    parse_cpu_list(flood);
    FAIL("it was taken");
  } catch (const Error& error) { CHECK(error.message().size() < 1000); }
}

TEST_CASE("of a long file only the end is read") {
  const TemporaryFolder folder;
  const auto file = folder.path / "console";
  CHECK_FALSE(read_tail(file, 10));
  std::ofstream(file) << "0123456789";
  CHECK(read_tail(file, 4) == "6789");
  CHECK(read_tail(file, 10) == "0123456789");
  CHECK(read_tail(file, 11) == "0123456789");
  std::filesystem::resize_file(file, std::uintmax_t{3} << 30);  // with a hole: takes no room on disk
  CHECK(read_tail(file, 3000) == std::string(3000, '\0'));
}

TEST_CASE("a file is read whole within bounds, and nothing that is no file is waited for or has no end") {
  const TemporaryFolder folder;
  const auto file = folder.path / "file", link = folder.path / "link";
  std::ofstream(file) << "0123456789";
  CHECK(read_file(file, 10) == "0123456789");
  CHECK_FALSE(read_file(file, 9));
  CHECK(errno == EFBIG);
  std::filesystem::resize_file(file, std::uintmax_t{1} << 40);  // with a hole: takes no room on disk
  CHECK_FALSE(read_file(file));
  CHECK_FALSE(read_value(file));
  std::filesystem::create_symlink("/dev/zero", link);
  CHECK_FALSE(read_file(link));
  CHECK(errno == EINVAL);
  CHECK_FALSE(read_file(folder.path));
  CHECK(errno == EISDIR);
  const test::WaitingWriter writer(folder.path / "pipe");
  CHECK_FALSE(read_file(folder.path / "pipe"));
  CHECK_FALSE(writer.was_let_in());
}

TEST_CASE("a file that is to have a mode has it exactly, and never had a looser one") {
  const TemporaryFolder folder;
  const std::string content(std::size_t{64} << 20, 'x');
  const auto mode_of = [](const std::filesystem::path& file) {
    struct stat status {};
    return ::stat(file.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  };
  std::set<unsigned> seen;
  std::atomic<bool> done = false;
  std::thread watcher([&] {
    while (!done) {
      for (const auto& file : entries_of(folder.path)) { seen.insert(mode_of(file)); }
    }
  });
  write_file_atomically(folder.path / "token", content, 0600);
  done = true;
  watcher.join();
  seen.erase(0);  // it had got its name by then
  CHECK(seen == std::set<unsigned>{0600});
  const auto umask_before = ::umask(077);
  write_file_atomically(folder.path / "shared", "x", 0644);
  write_file_atomically(folder.path / "usual", "x");
  ::umask(umask_before);
  CHECK(mode_of(folder.path / "shared") == 0644);
  CHECK(mode_of(folder.path / "usual") == 0600);
}

TEST_CASE("files are written whole or not at all") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.path;
  const std::filesystem::path file = folder + "/file";
  write_file_atomically(file, "first\n");
  CHECK(read_file(file) == "first\n");
  CHECK(read_value(file) == "first");
  write_file_atomically(file, "");
  CHECK(read_file(file) == "");
  CHECK_THROWS_AS(write_file_atomically(folder + "/none/file", "x"), Error);
  // The target is a folder, so the rename fails: the temporary file must not stay.
  CHECK_THROWS_AS(write_file_atomically(folder, "x"), Error);
  CHECK_FALSE(read_file(folder + "/none"));
  CHECK_FALSE(read_file(folder));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  CHECK(read_file("/proc/self/comm").value().size() > 1);  // its size reads 0
}

TEST_CASE("a paragraph is broken at blanks, by what is seen, and a long word stays whole") {
  CHECK(wrap("", 10).empty());
  CHECK(wrap("ä ö ü  a b", 5) == std::vector<std::string>{"ä ö ü", "a b"});
  CHECK(wrap("one unbreakable word", 6) == std::vector<std::string>{"one", "unbreakable", "word"});
  CHECK(hang("fix: load it", 12, 4) == "fix:\n    load it");
  CHECK(hang("fix: load it", 0, 4) == "fix: load it");
}

TEST_CASE(
    "a word that is wider than its column is broken where its parts end, or else where the column does") {
  using Lines = std::vector<std::string>;
  CHECK(wrap_within("a series nightly/weak-scaling/1", 12) ==
        Lines{"a series", "nightly/", "weak-", "scaling/1"});
  CHECK(wrap_within("nightly/weak-scaling/1", 21) == Lines{"nightly/weak-scaling/", "1"});
  CHECK(wrap_within("nightly/weak-scaling/1/vm", 17) == Lines{"nightly/", "weak-scaling/1/vm"});
  CHECK(wrap_within("unbroken", 5) == Lines{"unbro", "ken"});
  CHECK(wrap_within("änderungen", 4) == Lines{"ände", "rung", "en"});
  CHECK(wrap_within("x y", 0) == Lines{"x", "y"});
}

TEST_CASE("a long name keeps its first and last words whole") {
  CHECK(abbreviated("weak-scaling/16", 15) == "weak-scaling/16");
  CHECK(abbreviated("weak-scaling/16", 14) == "weak-…/16");
  CHECK(abbreviated("train@workload.batch_size=128", 21) == "train@workload.…=128");
  CHECK(abbreviated("two-vms-two-gpus", 12) == "two-…-gpus");
  CHECK(abbreviated("bare_metal_shared", 9) == "bare_…");
  CHECK(abbreviated("unbroken", 5) == "unbr…");
  CHECK(abbreviated("änderung", 3) == "än…");
  CHECK(abbreviated("anything", 0) == "anything");
}
