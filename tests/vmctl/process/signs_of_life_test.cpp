#include "vmctl/process/signs_of_life.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "common/system/process_info.h"
#include "tests/support/catch.h"

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
  for (const pid_t pid : virtrain::process_tree(child)) { ::kill(pid, SIGKILL); }
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a thread that nobody lets run waits, though the kernel does not say so before it runs") {
  WaitingTime waiting;
  const std::chrono::steady_clock::time_point t;
  CHECK(waiting.add({{"7", {true, "100 50 3"}}}, t) == 50ns);
  CHECK(waiting.add({{"7", {true, "100 50 3"}}}, t + 2s) == 2s + 50ns);
  CHECK(waiting.add({{"7", {true, "100 50 3"}}}, t + 9s) == 9s + 50ns);
  // It has run: the kernel has added what it waited.
  CHECK(waiting.add({{"7", {true, "200 9500000050 4"}}}, t + 10s) == 9500000050ns);
  // One that runs on, and one that sleeps, do not wait.
  CHECK(waiting.add({{"7", {true, "1000000200 9500000050 4"}}}, t + 11s) == 9500000050ns);
  CHECK(waiting.add({{"7", {false, "1000000200 9500000050 4"}}}, t + 12s) == 9500000050ns);
  CHECK(waiting.add({{"7", {true, "1000000200 9500000050 4"}}, {"8", {true, "0 7 1"}}}, t + 13s) ==
        9500000057ns);
}

TEST_CASE("the waiting time of a process is read from the kernel") {
  WaitingTime own(::getpid()), gone(-1);
  CHECK(own.read() >= 0ns);
  CHECK(gone.read() == 0ns);
}
