#include <thread>

#include "harness/agent/client/node_budget.h"
#include "tests/support/catch.h"

using namespace virtrain::harness;
using namespace std::chrono_literals;

TEST_CASE("of the time that passed a node could use what it did not wait, and at least a tenth") {
  CHECK(usable_time(100s, 0s) == 100s);
  CHECK(usable_time(100s, 40s) == 60s);
  CHECK(usable_time(100s, 99s) == 10s);  // two threads side by side wait twice as long as the wall clock says
  CHECK(usable_time(100s, 300s) == 10s);
  CHECK(usable_time(100s, -5s) == 100s);  // threads that ended took their waiting time along
}

TEST_CASE(
    "a deadline is short for a node that stands still and ten times as long for one that is kept waiting") {
  const FairDeadline plain(20ms, {});
  std::chrono::nanoseconds waited = 5s;  // before it began: does not count
  const FairDeadline idle(20ms, [&] { return waited; });
  const auto began = std::chrono::steady_clock::now();
  const FairDeadline starved(20ms, [&] { return 5s + (std::chrono::steady_clock::now() - began); });
  CHECK(plain.left() > 0ms);
  std::this_thread::sleep_for(30ms);
  CHECK(plain.left() <= 0ms);
  CHECK(idle.left() <= 0ms);
  CHECK(starved.left() > 0ms);
  std::this_thread::sleep_for(200ms);
  CHECK(starved.left() <= 0ms);
}
