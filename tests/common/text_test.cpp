#include "common/text.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "common/error.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;

TEST_CASE("split, trim and join") {
  using List = std::vector<std::string>;
  CHECK(split("a,,b,", ',') == List{"a", "", "b", ""});
  CHECK(split("", ',') == List{""});
  CHECK(trim(" \t a b\r\n") == "a b");
  CHECK(trim(" \n").empty());
  CHECK(join({"a", "", "b"}, ", ") == "a, , b");
  CHECK(join({}, ",").empty());
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
  CHECK(printable("\xf4\x8f\xbf\xbf") == "\xf4\x8f\xbf\xbf");
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
  for (const char* text : {"a", "1-", "-1", "3-1", "0,,1", "0-99999999", "1-2-3"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_cpu_list(text), Error);
  }
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
