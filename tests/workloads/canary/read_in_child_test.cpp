#include <signal.h>
#include <unistd.h>

#include <thread>

#include "common/error.h"
#include "tests/support/catch.h"
#include "workloads/canary/dma_engine.h"

using namespace virtrain;
using namespace virtrain::canary;
using test::Contains;

namespace {

constexpr std::chrono::seconds long_enough{60};

PageRead in_child(const std::function<PageRead()>& read, std::chrono::milliseconds limit = long_enough) {
  return read_in_child("read page", limit, "it hangs", read);
}

}  // namespace

TEST_CASE("a child brings a page or why it could not be read, and what it changes is its own") {
  int changed = 0;
  const std::string page(LockedPage::size, '\0');
  const auto read = in_child([&]() -> PageRead {
    changed = 1;
    return {page, ""};
  });
  CHECK(read.bytes == page);
  CHECK(read.refused.empty());
  CHECK(changed == 0);
  const auto refused = in_child([]() -> PageRead { return {"", "map it: Operation not permitted"}; });
  CHECK(refused.bytes.empty());
  CHECK(refused.refused == "map it: Operation not permitted");
}

TEST_CASE("what fails in a child fails here, in its words, and a signal or a hang ends the child alone") {
  CHECK_THROWS_WITH(in_child([]() -> PageRead { throw Error("find GPU 7", ErrorCode::busy, "taken"); }),
                    "read page: find GPU 7: taken");
  CHECK_THROWS_WITH(in_child([]() -> PageRead {
                      ::raise(SIGKILL);
                      return {};
                    }),
                    Contains("signal 9 ended the child"));
  CHECK_THROWS_WITH(in_child([]() -> PageRead { ::_exit(0); }), Contains("ended without an answer"));
  const auto started = std::chrono::steady_clock::now();
  try {
    in_child(
        []() -> PageRead {
          std::this_thread::sleep_for(long_enough);
          return {};
        },
        std::chrono::milliseconds{200});
    FAIL("a child that hangs has answered");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::timeout);
    CHECK(error.message() == "it hangs");
  }
  CHECK(std::chrono::steady_clock::now() - started < long_enough / 2);
}

TEST_CASE("a child has none of its parent's streams") {
  const auto read = in_child([]() -> PageRead {
    std::string names;
    for (const char* stream : {"/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"}) {
      std::string name(64, '\0');
      const auto bytes = ::readlink(stream, name.data(), name.size());
      names += name.substr(0, bytes < 0 ? 0 : static_cast<std::size_t>(bytes)) + " ";
    }
    return {names, ""};
  });
  CHECK(read.bytes == "/dev/null /dev/null /dev/null ");
}
