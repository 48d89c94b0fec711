// Known answers come from R 4.2.2, not from this implementation.
#include "results/statistics/change_points.h"

#include <limits>

#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

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

std::vector<ChangePoint> changes(const Series& series, const ChangeSettings& settings = {}) {
  return change_points(std::vector<std::optional<double>>(series.begin(), series.end()), settings);
}

Indices indices(const std::vector<ChangePoint>& points) {
  Indices result;
  for (const auto& point : points) { result.push_back(point.index); }
  return result;
}

Approx near(double value) {
  return Approx(value).epsilon(1e-7).margin(0);
}
Approx p_near(double value) {
  return Approx(value).epsilon(1e-6).margin(0);
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

TEST_CASE("E14: one lasting drop") {
  const auto points = changes(a);
  REQUIRE(indices(points) == Indices{20});
  CHECK(points[0].mean_before == near(1000.8));
  CHECK(points[0].mean_after == near(920.8));
  CHECK(points[0].relative_change == near(-0.079936051));
  CHECK(points[0].magnitude == near(0.086880973));
  CHECK(points[0].p == p_near(8.2317746e-38));
  CHECK(points[0].regression());
}

TEST_CASE("E14: two drops in one window's reach") {
  const Series half(e.begin(), e.begin() + 5);
  const auto points =
      changes(series_of({{1000}, {1000, r_e}, {920}, {920, r_e}, {850, half}, {850}, {850, half, -1}}));
  REQUIRE(indices(points) == Indices{20, 40});
  CHECK(points[1].mean_before == near(920.8));
  CHECK(points[1].mean_after == near(850.4));
  CHECK(points[1].relative_change == near(-0.076455256));
  CHECK(points[1].magnitude == near(0.082784572));
  CHECK(points[1].p == p_near(1.1278472e-35));
}

TEST_CASE("E14: a drop beyond the first window") {
  const auto points = changes(series_of(
      {{1000}, {1000, e, -1}, {1000, r_e}, {1000}, {1000, e, -1}, {1000, r_e}, {900}, {900, e, -1}}));
  REQUIRE(indices(points) == Indices{60});
  CHECK(points[0].relative_change == near(-0.10023994));
  CHECK(points[0].magnitude == near(0.11140741));
  CHECK(points[0].p == p_near(2.4839494e-78));
}

TEST_CASE("E14: a change too small to report, unless asked for") {
  CHECK(weak_change_points(c, {}) == Indices{20});
  CHECK(changes(c).empty());
  const auto points = changes(c, {.min_magnitude = 0.02});
  REQUIRE(indices(points) == Indices{20});
  CHECK(points[0].magnitude == near(0.031752577));
  CHECK(points[0].p == p_near(1.7071081e-22));
}

TEST_CASE("E14: one bad night and a dip that recovers are no lasting change") {
  CHECK(changes(d).empty());
  CHECK(weak_change_points(b, {}) == Indices{30});
  CHECK(changes(b).empty());
  const auto shown = changes(b, {.max_p = 0.001, .min_magnitude = 0.01});
  REQUIRE(shown.size() == 1);
  CHECK(shown[0].p == p_near(2.2149108e-6));
  CHECK(shown[0].magnitude == near(0.033556131));
}

TEST_CASE("missing nights are left out and indices are mapped back") {
  std::vector<std::optional<double>> series(a.begin(), a.end());
  series.insert(series.begin() + 5, std::nullopt);
  series.insert(series.begin(), std::nullopt);
  const auto points = change_points(series);
  REQUIRE(indices(points) == Indices{22});
  CHECK(points[0].p == p_near(8.2317746e-38));
  CHECK(change_points({}).empty());
  series[1] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH(change_points(series), Contains("series, value 1"));
}

TEST_CASE("E15: the fence around the next value") {
  const std::span<const double> history(a.data(), 20);
  const auto bad = check_fence(history, 923);
  CHECK(bad.q1 == near(0.0039915413));
  CHECK(bad.q3 == near(0.011016859));
  CHECK(bad.threshold == near(0.032092812));
  CHECK(bad.relative_change == near(-0.079760718));
  CHECK(bad.verdict == FenceResult::Verdict::regression);
  CHECK(check_fence(history, 1001).relative_change == near(-0.0019940179));
  CHECK(check_fence(history, 1001).verdict == FenceResult::Verdict::ok);
  CHECK(check_fence(history, 973).relative_change == near(-0.029910269));
  CHECK(check_fence(history, 973).verdict == FenceResult::Verdict::ok);
  CHECK(check_fence(history, 1100).verdict == FenceResult::Verdict::improvement);
  const auto night = check_fence({d.data(), 20}, 850);
  CHECK(night.threshold == near(0.029047007));
  CHECK(night.relative_change == near(-0.14829659));
  CHECK(night.verdict == FenceResult::Verdict::regression);
  CHECK(check_fence(history.first(10), 1).verdict == FenceResult::Verdict::too_little_history);
  CHECK(check_fence(history.first(11), 1).verdict == FenceResult::Verdict::regression);
}
