#include "common/error.h"

#include <cerrno>

#include "tests/support/catch.h"

using namespace virtrain;

TEST_CASE("an error says what was tried and what came back") {
  const Error error("open x", ErrorCode::busy, "taken");
  CHECK(std::string(error.what()) == "open x: taken");
  CHECK(error.operation() == "open x");
  CHECK(error.message() == "taken");
  CHECK(std::string(errno_error("open x", ENOENT).what()) == "open x: No such file or directory");
  CHECK(errno_error("open x", ENOENT).code() == ErrorCode::io);
}
