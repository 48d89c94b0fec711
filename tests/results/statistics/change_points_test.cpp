// Known answers come from R 4.2.2, not from this implementation.
#include "results/statistics/change_points.h"

#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;

namespace {

using Series = std::vector<double>;
using Indices = std::vector<std::size_t>;

const Series e{3, -5, 8, -2, 0, 6, -7, 4, -1, 2};
const Series r_e(e.rbegin(), e.rend());

/// Ten values around a level: level + sign * shape.
struct Block {
  double level;
  Series shape = e;
  double sign = 1;
};

Series series_of(const std::vector<Block>& blocks) {
  Series series;
  for (const auto& [level, shape, sign] : blocks) {
    for (const double value : shape) { series.push_back(level + sign * value); }
  }
  return series;
}

Approx near(double value) {
  return Approx(value).epsilon(1e-7).margin(0);
}
const Series a = series_of({{1000}, {1000, r_e}, {920}, {920, r_e}});
const Series b = series_of({{1000}, {1000, r_e}, {930}, {1010}, {1010, e, -1}, {1010, r_e}});
const Series c = series_of({{1000}, {1000, r_e}, {970}, {970, e, -1}});
const Series d = [] {
  auto series = series_of({{1000}, {1000, e, -1}});
  series.push_back(850);
  const auto rest = series_of({{1000, r_e}, {1000}});
  series.insert(series.end(), rest.begin(), rest.end());
  return series;
}();

}  // namespace

TEST_CASE("E14: the divergence of the best split") {
  const Series x{1, 1.2, 1.1, 2, 2.3};
  const auto split = best_split(x, 0, x.size()).value();
  CHECK(split.divergence == near(2));
  CHECK(split.tau == 3);
  CHECK(split.k == 5);
  CHECK_FALSE(best_split(x, 2, 3));
  CHECK(best_split(a, 0, 40)->divergence == near(1492.2105));
}

TEST_CASE("E14: lasting changes, and none where a night or a dip recovers") {
  CHECK(weak_change_points(a, {}) == Indices{20});
  CHECK(weak_change_points(b, {}) == Indices{30});
  CHECK(weak_change_points(c, {}) == Indices{20});
  CHECK(weak_change_points(d, {}).empty());
  CHECK(weak_change_points({}, {}).empty());
  const Series half(e.begin(), e.begin() + 5);
  CHECK(weak_change_points(
            series_of({{1000}, {1000, r_e}, {920}, {920, r_e}, {850, half}, {850}, {850, half, -1}}), {}) ==
        Indices{20, 40});
}
