// Known answers come from R 4.2.2, not from this implementation.
#include "results/statistics/isolation.h"

#include <random>

#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

Approx eight_digits(double value) {
  return Approx(value).epsilon(1e-7).margin(0);
}

}  // namespace

TEST_CASE("K4: figures of given slowdowns") {
  const auto result = isolation_of({1.25, 2});
  CHECK(result.system_throughput == eight_digits(1.3));
  CHECK(result.mean_slowdown == eight_digits(1.625));
  CHECK(result.jain_index == eight_digits(0.94943820));
}

TEST_CASE("E12: three tenants alone and together") {
  const auto result = isolation_of({1000.0 / 900, 500.0 / 480, 2000.0 / 1200});
  CHECK(result.slowdowns.at(0) == eight_digits(1.1111111));
  CHECK(result.slowdowns.at(1) == eight_digits(1.0416667));
  CHECK(result.slowdowns.at(2) == eight_digits(1.6666667));
  CHECK(result.system_throughput == eight_digits(2.46));
  CHECK(result.mean_slowdown == eight_digits(1.2731481));
  CHECK(result.jain_index == eight_digits(0.96442915));
  CHECK(result.worst_slowdown == eight_digits(1.6666667));
}

TEST_CASE("E12: the slow end of the steps") {
  std::vector<double> alone;
  std::vector<double> shared;
  for (int k = 0; k < 100; ++k) {
    alone.push_back(10 + k / 100.0);
    shared.push_back(10 + k * k / 2000.0);
  }
  const auto result = tail_inflation(alone, shared);
  CHECK(result.alone_p99_seconds == eight_digits(10.980100));
  CHECK(result.shared_p99_seconds == eight_digits(14.802985));
  CHECK(result.inflation == eight_digits(1.3481649));
  CHECK_FALSE(result.few_samples);
  alone.pop_back();
  CHECK(tail_inflation(alone, shared).few_samples);
}

TEST_CASE("a 99th percentile beside another has an interval from 437 steps on, and it holds for equal ones") {
  std::mt19937_64 random(3);
  const auto steps = [&](int count) {
    std::vector<double> seconds;
    for (int i = 0; i < count; ++i) {
      const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
      seconds.push_back(uniform() < 0.01 ? 2 + uniform() : 1 + 0.02 * uniform());
    }
    return seconds;
  };
  CHECK_FALSE(tail_inflation(steps(436), steps(2000)).ci);
  CHECK_FALSE(tail_inflation(steps(2000), steps(436)).ci);
  int covered = 0;
  for (int i = 0; i < 100; ++i) {
    const auto tail = tail_inflation(steps(600), steps(600));
    REQUIRE(tail.ci);
    covered += tail.ci->low <= 1 && 1 <= tail.ci->high ? 1 : 0;
    CHECK(tail.ci->low <= tail.inflation);
    CHECK(tail.inflation <= tail.ci->high);
  }
  CHECK(covered >= 95);
}

TEST_CASE("recovery lasts from the end of the aggressor to the first window that is as fast as alone") {
  // Alone 10 images a second, one an image: a step of 0.1 s is as fast, one of 0.2 s is half as fast.
  const auto steps = [](const std::vector<double>& seconds, double begin) {
    std::vector<LaterStep> all;
    for (const double one : seconds) { all.push_back({begin += one, one, 1}); }
    return all;
  };
  const std::vector<double> slow(5, 0.2), fast(5, 0.1);
  auto both = slow;
  both.insert(both.end(), fast.begin(), fast.end());
  // Five slow steps last a second; the window that begins after them is the first.
  CHECK(recovery_seconds(steps(both, 0), 10, 0.05) == Approx(1));
  CHECK(recovery_seconds(steps(fast, 0), 10, 0.05) == Approx(0));
  CHECK(recovery_seconds(steps(fast, 0.3), 10, 0.05) == Approx(0.3));
  CHECK(recovery_seconds(steps(fast, -0.05), 10, 0.05) == Approx(0));  // it began beside the aggressor
  // What ended before the aggressor did shows nothing, and without it there are too few.
  CHECK_FALSE(recovery_seconds(steps(fast, -0.15), 10, 0.05));
  CHECK_FALSE(recovery_seconds(steps(slow, 0), 10, 0.05));
  CHECK_FALSE(recovery_seconds({}, 10, 0.05));
  // The margin is of the throughput: 0.105 s is 4.8 % less, 0.106 s is 5.7 % less.
  CHECK(recovery_seconds(steps(std::vector<double>(5, 0.105), 0), 10, 0.05));
  CHECK_FALSE(recovery_seconds(steps(std::vector<double>(5, 0.106), 0), 10, 0.05));
  CHECK(recovery_seconds(steps(std::vector<double>(5, 0.106), 0), 10, 0.10));
}

TEST_CASE("isolation refuses what cannot be compared") {
  CHECK_THROWS_WITH(isolation_of({1, 0}), Contains("slowdowns, value 2"));
  CHECK_THROWS_AS(isolation_of({}), Error);
  CHECK_THROWS_WITH(tail_inflation({1}, {}), Contains("step times shared"));
}
