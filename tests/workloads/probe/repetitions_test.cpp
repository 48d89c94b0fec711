#include <algorithm>
#include <vector>

#include "tests/support/catch.h"
#include "workloads/probe/figure.h"

using namespace virtrain::probe;

namespace {

/// A GPU whose operations take `seconds` each by its clock, and which starts with each call's share of
/// `slowness`, the last one for all further calls.
struct Played {
  double seconds;
  std::vector<double> slowness{1};
  std::vector<int> calls = {};

  double best(int repetitions) {
    return best_seconds(repetitions, [this](int times) {
      const double slow = slowness[std::min(calls.size(), slowness.size() - 1)];
      calls.push_back(times);
      return slow * seconds * times;
    });
  }
};

}  // namespace

constexpr std::size_t waking = 15;

TEST_CASE("a repetition lasts some 20 ms, however short an operation is") {
  Played products{0.00017};
  CHECK(products.best(3) == Approx(0.00017));
  CHECK(products.calls.size() == 2 + waking + 3);
  CHECK(
      std::all_of(products.calls.begin() + 2, products.calls.end(), [](int times) { return times == 118; }));
  Played copies{0.1};
  CHECK(copies.best(2) == Approx(0.1));
  CHECK(copies.calls == std::vector<int>(2 + waking + 2, 1));
  Played unmeasurable{0};
  unmeasurable.best(2);
  CHECK(unmeasurable.calls.back() == 10'000);
}

TEST_CASE("what the first use takes chooses nothing, and the first repetition does not count") {
  std::vector<double> slowness{500, 8};
  slowness.resize(2 + waking, 1);  // it has woken up
  slowness.insert(slowness.end(), {0.5, 3, 2, 4});
  Played gpu{0.001, slowness};
  CHECK(gpu.best(4) == Approx(0.002));
  CHECK(gpu.calls[2] == 3);
  CHECK(std::vector<int>(gpu.calls.begin() + 3, gpu.calls.end()) == std::vector<int>(waking - 1 + 4, 20));
}
