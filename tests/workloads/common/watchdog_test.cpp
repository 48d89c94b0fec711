#include "workloads/common/watchdog.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "common/files/unique_fd.h"
#include "tests/support/catch.h"

using namespace virtrain;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

struct Ended {
  int status = 0;  ///< as wait(2) gives it
  std::string said;
};

/// Runs `body` in a child process, whose end of a socket it gets to write to.
template <typename Body>
Ended in_child(Body&& body) {
  auto ends = make_socketpair();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ends[0].reset();
    body(ends[1].get());
    _exit(0);
  }
  ends[1].reset();
  Ended ended;
  std::array<char, 256> buffer{};
  for (ssize_t count = 0; (count = read(ends[0].get(), buffer.data(), buffer.size())) > 0;) {
    ended.said.append(buffer.data(), static_cast<std::size_t>(count));
  }
  REQUIRE(waitpid(child, &ended.status, 0) == child);
  return ended;
}

void say(int fd, const std::string& words) {
  if (write(fd, words.data(), words.size()) < 0) { _exit(99); }
}

}  // namespace

TEST_CASE("a process that hangs says what it was doing and ends") {
  const Ended ended = in_child([](int out) {
    Watchdog watchdog(milliseconds(50), [out](const std::string& doing) { say(out, "stuck in " + doing); });
    watchdog.expect("all-reduce");
    while (true) { pause(); }
  });
  CHECK(WIFEXITED(ended.status));
  CHECK(WEXITSTATUS(ended.status) == 1);
  CHECK(ended.said == "stuck in all-reduce");
}

TEST_CASE("each progress gives the whole time again") {
  const Ended ended = in_child([](int out) {
    Watchdog watchdog(milliseconds(400), [out](const std::string& doing) { say(out, doing); });
    for (int step = 0; step < 12; ++step) {
      watchdog.expect("step");
      usleep(50'000);  // twelve are more than the limit
    }
    say(out, "done");
  });
  CHECK(ended.status == 0);
  CHECK(ended.said == "done");
}

TEST_CASE("a pause may last, what follows it may not") {
  const Ended ended = in_child([](int out) {
    Watchdog watchdog(milliseconds(50), [out](const std::string& doing) { say(out, doing); });
    watchdog.expect("set up");
    watchdog.pause();
    usleep(200'000);
    say(out, "go, ");
    watchdog.expect("first step");
    while (true) { pause(); }
  });
  CHECK(WEXITSTATUS(ended.status) == 1);
  CHECK(ended.said == "go, first step");
}

TEST_CASE("a report that hangs does not keep the process") {
  const Ended ended = in_child([](int) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);  // as a program may that handles signals by sigwait
    const auto hang = [](const std::string&) {
      while (true) { pause(); }
    };
    Watchdog watchdog(milliseconds(10), hang, seconds(1));
    watchdog.expect("anything");
    while (true) { pause(); }
  });
  CHECK(WIFSIGNALED(ended.status));
  CHECK(WTERMSIG(ended.status) == SIGALRM);
}

TEST_CASE("a watchdog that is not needed any more goes quietly") {
  const Ended ended = in_child([](int out) {
    {
      Watchdog watchdog(milliseconds(50), [out](const std::string& doing) { say(out, doing); });
      watchdog.expect("the end");
    }
    usleep(150'000);
  });
  CHECK(ended.status == 0);
  CHECK(ended.said.empty());
}
