#include "common/text/units.h"

#include "tests/support/catch.h"

using namespace virtrain;

TEST_CASE("sizes are whole numbers of binary units") {
  CHECK(parse_size_bytes("512MiB") == 536'870'912u);
  CHECK(parse_size_bytes("64GiB") == 68'719'476'736u);
  CHECK(parse_size_bytes("2TiB") == 2'199'023'255'552u);
  CHECK(parse_size_bytes("3KiB") == 3072u);
  CHECK(parse_size_bytes("7B") == 7u);
  CHECK(parse_size_bytes("4096") == 4096u);
  CHECK(parse_size_bytes("0") == 0u);
  CHECK(parse_size_bytes("8388607TiB") == 9'223'370'937'343'148'032u);
  for (const char* text :
       {"", "MiB", "512MB", "512 MiB", "512mib", "1.5GiB", "1e3MiB", "-1MiB", "-0MiB", "+1MiB", "0x10MiB",
        "8388608TiB", "99999999999999999999B", "infMiB", "nanMiB", "1MiB ", "1GiBGiB", "64G"}) {
    CHECK_FALSE(parse_size_bytes(text));
  }
}

TEST_CASE("shares") {
  CHECK(parse_share("2%") == Approx(0.02));
  CHECK(parse_share("0.02") == Approx(0.02));
  CHECK(parse_share("2.5%") == Approx(0.025));
  CHECK(parse_share("0%") == Approx(0.0));
  for (const char* text : {"", "%", "2 %", "2%%", "nan", "inf", "1e999", "two", "0.02x"}) {
    CHECK_FALSE(parse_share(text));
  }
}

TEST_CASE("durations need their unit") {
  CHECK(parse_duration_ns("500ms") == 500'000'000);
  CHECK(parse_duration_ns("30s") == 30'000'000'000);
  CHECK(parse_duration_ns("1.5m") == 90'000'000'000);
  CHECK(parse_duration_ns("2h") == 7'200'000'000'000);
  for (const char* text : {"", "30", "s", "-1s", "1d", "1 s", "infs", "nanms", "1e30h"}) {
    CHECK_FALSE(parse_duration_ns(text));
  }
}

TEST_CASE("numbers are the whole text") {
  CHECK(parse_number("1.5") == Approx(1.5));
  CHECK(parse_number("-2e3") == Approx(-2000));
  for (const char* text : {"", " 1", "1 ", "1,5", "inf", "nan", "1e999", "0x1"}) {
    CHECK_FALSE(parse_number(text));
  }
  CHECK(parse_integer("-9223372036854775808") == INT64_MIN);
  for (const char* text : {"", "+1", "1.0", "9223372036854775808", "1x", " 1"}) {
    CHECK_FALSE(parse_integer(text));
  }
}

TEST_CASE("sizes, durations and counts for people") {
  CHECK(format_size(64ULL << 30) == "64GiB");
  CHECK(format_size(3ULL << 29) == "1.50GiB");
  CHECK(format_size(0) == "0B");
  CHECK(format_size(1000) == "1000B");
  CHECK(format_size(1025) == "1.00KiB");
  CHECK(format_duration(12'000'000) == "12 ms");
  CHECK(format_duration(1'500'000'000) == "1.5 s");
  CHECK(format_duration(123'000'000'000) == "2 min 03 s");
  CHECK(format_duration(3'599'600'000'000) == "1 h 00 min");
  CHECK(format_duration(3'720'000'000'000) == "1 h 02 min");
  CHECK(format_seconds(0.012) == "12 ms");
  CHECK(format_seconds(3.6e12) == "1000000000 h 00 min");
  CHECK(format_seconds(1e30) == format_seconds(1e18));
  CHECK(counted(0, "trial") == "0 trials");
  CHECK(counted(1, "trial") == "1 trial");
  CHECK(counted(2, "loss is", "losses are") == "2 losses are");
}
