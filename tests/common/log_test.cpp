#include "common/system/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "common/files/reading.h"
#include "common/system/time.h"
#include "common/text/text.h"
#include "tests/support/catch.h"

using namespace virtrain;
using virtrain::test::Contains;

namespace {

/// What these calls write to stderr.
template <typename Calls>
std::string stderr_of(Calls calls) {
  std::string name = "/tmp/virtrain-log-test-XXXXXX";
  const int file = ::mkstemp(name.data());
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(file, STDERR_FILENO);
  calls();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::close(file);
  auto text = read_file(name).value();
  ::unlink(name.c_str());
  return text;
}

}  // namespace

TEST_CASE("the text format shows the level, the sentence and the fields, made safe to show") {
  log::configure(log::Format::text, log::Level::info);
  const auto text = stderr_of([] {
    log::debug("not shown");
    log::info("guest boots", {{"domain", "a\x1b[2J"}, {"tries", 3}});
    log::error("gone \xff");
  });
  CHECK_THAT(text, Contains("info: guest boots domain=a\uFFFD[2J tries=3\n"));
  CHECK_THAT(text, Contains("error: gone \uFFFD\n"));
  CHECK_THAT(text, !Contains("not shown"));
}

TEST_CASE("the JSON format is an object a line, whatever is in the words") {
  log::configure(log::Format::json, log::Level::debug);
  const auto text = stderr_of([] {
    log::warning("a \"quoted\"\nline {} \xff", {{"n", 1.5}});
    log::debug("second");
  });
  const auto lines = split(text, '\n');
  REQUIRE(lines.size() == 3);  // and an empty end
  const auto first = nlohmann::json::parse(lines[0]);
  CHECK(first["level"] == "warning");
  CHECK(first["n"] == 1.5);
  CHECK_THAT(first["message"].get<std::string>(), Contains("a \"quoted\"\nline {}"));
  CHECK(first["time"].get<std::string>().size() == 24);
  CHECK(nlohmann::json::parse(lines[1])["message"] == "second");
}

TEST_CASE("wall-clock times are ISO 8601 in UTC") {
  CHECK(iso8601(0) == "1970-01-01T00:00:00.000Z");
  CHECK(iso8601(1'795'162'009'123'456'789) == "2026-11-20T08:06:49.123Z");
  CHECK(monotonic_ns() > 0);
}
