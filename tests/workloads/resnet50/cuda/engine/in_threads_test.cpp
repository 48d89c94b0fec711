#include "workloads/resnet50/cuda/engine/in_threads.h"

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

using virtrain::resnet50::cuda::in_threads;

TEST_CASE("all work is done once, and each thread has one piece at a time") {
  constexpr std::size_t count = 200, threads = 4;
  std::vector<std::atomic<int>> done(count);
  std::array<std::atomic<int>, threads> busy{};
  std::atomic<bool> overlaps = false;
  in_threads(count, threads, [&](std::size_t index, std::size_t thread) {
    overlaps = overlaps || busy.at(thread)++ != 0;
    ++done[index];
    std::this_thread::yield();
    --busy.at(thread);
  });
  for (const std::atomic<int>& times : done) { CHECK(times == 1); }
  CHECK_FALSE(overlaps);
}

TEST_CASE("work goes on at the same time") {
  std::atomic<int> waiting = 0;
  in_threads(2, 2, [&](std::size_t, std::size_t) {
    ++waiting;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (waiting < 2 && std::chrono::steady_clock::now() < end) { std::this_thread::yield(); }
    CHECK(waiting == 2);
  });
  in_threads(0, 3, [](std::size_t, std::size_t) { FAIL("there was nothing to do"); });
}

TEST_CASE("a failure comes out when all threads have ended") {
  std::atomic<int> running = 0;
  const auto work = [&](std::size_t index, std::size_t) {
    ++running;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --running;
    if (index == 3) { throw std::runtime_error("piece " + std::to_string(index)); }
  };
  CHECK_THROWS_WITH(in_threads(100, 3, work), "piece 3");
  CHECK(running == 0);
}
