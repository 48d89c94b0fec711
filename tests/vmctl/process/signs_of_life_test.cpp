#include "vmctl/process/signs_of_life.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "tests/support/catch.h"
#include "vmctl/process/process_info.h"

using namespace virtrain::vmctl;
using namespace std::chrono_literals;

TEST_CASE("what uses CPU time is waited for, what stands still is not, and nothing for ever") {
  std::chrono::nanoseconds used{};
  SignsOfLife alive([&] { return used += 1ms; }, 20ms, 10s);
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(5ms);
    CHECK_FALSE(alive.gave_up());
  }
  SignsOfLife still([] { return 5ms; }, 20ms, 10s);
  CHECK_FALSE(still.gave_up());
  std::this_thread::sleep_for(30ms);
  CHECK(still.gave_up());
  SignsOfLife busy_for_ever([&] { return used += 1ms; }, 20ms, 30ms);
  std::this_thread::sleep_for(40ms);
  CHECK(busy_for_ever.gave_up());
}

TEST_CASE("CPU time is that of a process and of all below it") {
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      while (true) {}
    }
    while (true) { ::pause(); }
  }
  const auto before = cpu_time_of_tree(child);
  for (int i = 0; i < 500 && cpu_time_of_tree(child) - before < 50ms; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  CHECK(cpu_time_of_tree(child) - before >= 50ms);
  CHECK(cpu_time_of_tree(-1) == 0ns);
  for (const pid_t pid : process_tree(child)) { ::kill(pid, SIGKILL); }
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("processes that share a core wait for it and one that sleeps does not") {
  const auto start = [](const char* name, bool works) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_NAME, name);
      while (!works) { ::pause(); }
      while (true) {}
    }
    return child;
  };
  cpu_set_t before, one;
  ::sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  ::sched_setaffinity(0, sizeof one, &one);  // the children inherit it
  const std::array children{start("vt-starved", true), start("vt-starved", true), start("vt-asleep", false)};
  ::sched_setaffinity(0, sizeof before, &before);
  for (int i = 0; i < 500 && waiting_time_of_all("vt-starved") < 50ms; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  CHECK(waiting_time_of_all("vt-starved") >= 50ms);
  CHECK(waiting_time_of_all("vt-asleep") < 50ms);
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}
