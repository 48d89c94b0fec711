#include "workloads/common/protocol.h"

#include <unistd.h>

#include <array>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "tests/support/catch.h"

using namespace virtrain;

namespace {

struct Connection {
  Connection() : ends(make_socketpair()) {}
  void write(const std::string& text) {
    REQUIRE(::write(ends[1].get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  std::array<UniqueFd, 2> ends;
};

}  // namespace

TEST_CASE("commands come line by line, however they are cut") {
  Connection pipe;
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
  Connection pipe;
  CommandReader reader(pipe.ends[0].get());
  pipe.write("go");
  pipe.ends[1].reset();
  CHECK(reader.next(-1) == Command::go);
  CHECK(reader.next(-1) == Command::end_of_file);
}

TEST_CASE("other words are usage errors that name the allowed ones") {
  Connection pipe;
  CommandReader reader(pipe.ends[0].get());
  pipe.write("start\n");
  REQUIRE_THROWS_WITH(reader.next(-1),
                      virtrain::test::Contains("start") && virtrain::test::Contains("go, stop"));
}

TEST_CASE("an endless line is refused instead of kept") {
  Connection pipe;
  CommandReader reader(pipe.ends[0].get());
  pipe.write(std::string(5000, 'x'));
  REQUIRE_THROWS_AS(reader.next(0), Error);
}

TEST_CASE("a record of 4,096 bytes is written, one that would not fit is refused") {
  const auto write = [](std::size_t bytes) {
    const auto others = std::string(R"({"rank":0,"record":"hello","text":""})").size() + 1;
    write_record("hello", 0, {{"text", std::string(bytes - others, 'x')}});
  };
  const UniqueFd shown(::dup(STDOUT_FILENO));
  Connection pipe;
  ::dup2(pipe.ends[1].get(), STDOUT_FILENO);
  write(max_record_bytes);
  ::dup2(shown.get(), STDOUT_FILENO);
  std::array<char, 2 * max_record_bytes> record{};
  CHECK(::read(pipe.ends[0].get(), record.data(), record.size()) == max_record_bytes);
  REQUIRE_THROWS_AS(write(max_record_bytes + 1), Error);
}
