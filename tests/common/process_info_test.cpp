#include "common/system/process_info.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "common/files/reading.h"
#include "tests/support/catch.h"

namespace virtrain {
namespace {

TEST_CASE("/proc/pid/stat is read though the name holds blanks and brackets") {
  const auto info = parse_proc_stat(
      "4242 (a) b (c) S 17 4242 4242 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 987654 1000 10 184467 0 0\n");
  REQUIRE(info);
  CHECK(info->pid == 4242);
  CHECK(info->name == "a) b (c");
  CHECK(info->state == 'S');
  CHECK(info->parent == 17);
  CHECK(info->start_time == 987654);
  CHECK_FALSE(parse_proc_stat(""));
  CHECK_FALSE(parse_proc_stat("12 (x) S 1"));
}

TEST_CASE("this process is in /proc, below its parent") {
  const auto self = process_info(::getpid());
  REQUIRE(self);
  CHECK(self->parent == ::getppid());
  CHECK(self->start_time > 0);
  const auto tree = process_tree(::getppid());
  CHECK(std::find(tree.begin(), tree.end(), ::getpid()) != tree.end());
  CHECK_FALSE(process_arguments(::getpid()).empty());
}

TEST_CASE("a zombie has ended, and a process whose first thread alone has ended has not") {
  const auto lives = [](auto&& child_does) {
    const pid_t child = ::fork();
    if (child == 0) { child_does(); }
    siginfo_t ended{};
    // A process without its first thread is in state Z, and there is nothing to wait for.
    for (int i = 0;
         i < 500 &&
         parse_proc_stat(read_file(fmt::format("/proc/{}/stat", child)).value_or(""))->state != 'Z';
         ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const bool found = process_info(child).has_value();
    ::kill(child, SIGKILL);
    ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED);
    return found;
  };
  CHECK_FALSE(lives([] { ::_exit(0); }));
  CHECK(lives([] {
    pthread_t thread{};
    ::pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          ::pause();
          return nullptr;
        },
        nullptr);
    ::syscall(SYS_exit, 0);  // of this thread alone
  }));
}

}  // namespace
}  // namespace virtrain
