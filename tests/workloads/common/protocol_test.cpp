#include "workloads/common/protocol.h"

#include <unistd.h>

#include "common/error.h"
#include "common/unique_fd.h"
#include "tests/support/catch.h"

using namespace virtrain;

namespace {

struct Pipe {
  Pipe() : ends(make_socketpair()) {}
  void write(const std::string& text) {
    REQUIRE(::write(ends[1].get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  std::array<UniqueFd, 2> ends;
};

}  // namespace

TEST_CASE("commands come line by line, however they are cut") {
  Pipe pipe;
  CommandReader reader(pipe.ends[0].get());
  CHECK(reader.next(0) == std::nullopt);
  pipe.write("g");
  CHECK(reader.next(0) == std::nullopt);
  pipe.write("o\r\nst");
  CHECK(reader.next(0) == Command::go);
  CHECK(reader.next(0) == std::nullopt);
  pipe.write("op\n");
  CHECK(reader.next(0) == Command::stop);
  pipe.ends[1].reset();
  CHECK(reader.next(-1) == Command::end_of_file);
  CHECK(reader.next(-1) == Command::end_of_file);
}

TEST_CASE("a last line without its end counts") {
  Pipe pipe;
  CommandReader reader(pipe.ends[0].get());
  pipe.write("go");
  pipe.ends[1].reset();
  CHECK(reader.next(-1) == Command::go);
  CHECK(reader.next(-1) == Command::end_of_file);
}

TEST_CASE("other words are usage errors that name the allowed ones") {
  Pipe pipe;
  CommandReader reader(pipe.ends[0].get());
  pipe.write("start\n");
  REQUIRE_THROWS_WITH(reader.next(-1),
                      virtrain::test::Contains("start") && virtrain::test::Contains("go, stop"));
}

TEST_CASE("an endless line is refused instead of kept") {
  Pipe pipe;
  CommandReader reader(pipe.ends[0].get());
  pipe.write(std::string(5000, 'x'));
  REQUIRE_THROWS_AS(reader.next(0), Error);
}

TEST_CASE("a record that would not fit is refused") {
  REQUIRE_THROWS_AS(write_record("hello", 0, {{"text", std::string(5000, 'x')}}), Error);
}
