#include "common/files/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/support/catch.h"

using namespace virtrain;

namespace {
bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}
}  // namespace

TEST_CASE("a descriptor is closed once, when its owner goes") {
  const int raw = ::open("/dev/null", O_RDONLY);
  {
    UniqueFd first(raw);
    UniqueFd second(std::move(first));
    CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): what it then is
    CHECK(second.get() == raw);
    first = std::move(second);
    CHECK(is_open(raw));
  }
  CHECK_FALSE(is_open(raw));
  UniqueFd released(::open("/dev/null", O_RDONLY));
  const int kept = released.release();
  released.reset();
  CHECK(is_open(kept));
  ::close(kept);
}

TEST_CASE("a socket pair is connected and does not leak into programs") {
  auto ends = make_socketpair();
  CHECK(::write(ends[0].get(), "x", 1) == 1);
  char byte = 0;
  CHECK(::read(ends[1].get(), &byte, 1) == 1);
  CHECK((::fcntl(ends[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(ends[1].get(), F_GETFD) & FD_CLOEXEC) != 0);
}
