#include "harness/experiment/progress.h"

#include "tests/support/catch.h"

using namespace virtrain::harness;

namespace {

constexpr std::int64_t second = 1'000'000'000;

/// Four trials, two of each arm, estimated at 10 s on bare metal and 60 s in VMs.
Plan four_trials() {
  Plan plan;
  for (const auto* arm : {"bare_metal", "vm", "vm", "bare_metal"}) {
    const auto order = static_cast<std::int64_t>(plan.trials.size()) + 1;
    plan.trials.push_back({order, 0, arm, arm, 1, std::string(arm) == "vm" ? 60.0 : 10.0});
  }
  return plan;
}

Progress progress_of(std::string now) {
  return {"[3/6] two-nodes vm, pair 1", std::move(now), 100 * second, 160 * second, 200};
}

}  // namespace

TEST_CASE("what is left is what was planned, until trials show how long they take") {
  const auto plan = four_trials();
  RemainingTime remaining(plan);
  CHECK(remaining.seconds_left(plan.trials[0], 0) == Approx(140));
  CHECK(remaining.seconds_left(plan.trials[0], 4) == Approx(136));
  remaining.finished(plan.trials[0], 30);  // three times as long: so may VMs be, of which nothing is known
  CHECK(remaining.seconds_left(plan.trials[1], 0) == Approx(180 + 180 + 30));
  remaining.finished(plan.trials[1], 60);  // VMs are as planned
  CHECK(remaining.seconds_left(plan.trials[2], 10) == Approx(50 + 30));
  CHECK(remaining.seconds_left(plan.trials[3], 500) == 0);
}

TEST_CASE("a line of progress says what, how long so far and how long to go, and never wraps") {
  CHECK(progress_words(progress_of("boot"), 172 * second, 200) ==
        "[3/6] two-nodes vm, pair 1: boot (1:12, about 4 min left)");
  CHECK(progress_words(progress_of("boot"), 340 * second, 200) ==
        "[3/6] two-nodes vm, pair 1: boot (4:00, about 20 s left)");
  auto long_run = progress_of("boot");
  long_run.seconds_left_then = 40'000;
  CHECK(progress_words(long_run, 8160 * second, 200) ==
        "[3/6] two-nodes vm, pair 1: boot (2:14:20, about 8.9 h left)");
  for (std::size_t columns = 0; columns < 120; ++columns) {
    const auto words =
        progress_words(progress_of("run, step 12, 1234.56 images/s a rank"), 172 * second, columns);
    CHECK(words.size() < std::max<std::size_t>(columns, 1));
  }
}
