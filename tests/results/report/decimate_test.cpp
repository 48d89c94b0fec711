#include <algorithm>
#include <cmath>
#include <random>

#include "results/report/data/course.h"
#include "tests/support/catch.h"

namespace virtrain::results {
namespace {

std::vector<Point> noise(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> value(100, 5);
  std::exponential_distribution<double> step(10);
  std::vector<Point> points;
  double t = 0;
  for (std::size_t i = 0; i < count; ++i) { points.push_back({t += step(random), value(random)}); }
  return points;
}

auto extremes(const std::vector<Point>& points) {
  const auto by_value = [](const Point& a, const Point& b) { return a.value < b.value; };
  const auto [low, high] = std::minmax_element(points.begin(), points.end(), by_value);
  return std::pair(low->value, high->value);
}

TEST_CASE("a short series comes back whole") {
  const auto points = noise(100, 1);
  CHECK(decimate(points, 100) == points);
  CHECK(decimate({}, 100).empty());
}

TEST_CASE(
    "whatever the series, decimation keeps the bound, the order, the ends and the extremes of each span") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    const auto points = noise(500 + 97 * seed, seed);
    const std::size_t most = 4 + seed * 9;
    const auto kept = decimate(points, most);
    CAPTURE(seed, points.size(), most, kept.size());
    REQUIRE(kept.size() <= most);
    CHECK(kept.front() == points.front());
    CHECK(kept.back() == points.back());
    CHECK(extremes(kept) == extremes(points));
    CHECK(std::is_sorted(kept.begin(), kept.end(),
                         [](const Point& a, const Point& b) { return a.t_seconds < b.t_seconds; }));
    // Nothing is made up: every point is one of the series, in its order.
    auto at = points.begin();
    for (const auto& point : kept) {
      at = std::find(at, points.end(), point);
      REQUIRE(at != points.end());
    }
  }
}

TEST_CASE("one dip among 100,000 samples survives in its place") {
  std::vector<Point> points;
  points.reserve(100'000);
  for (int i = 0; i < 100'000; ++i) { points.push_back({i * 0.1, i == 54'321 ? 3.0 : 100.0}); }
  const auto kept = decimate(points, 2000);
  CHECK(kept.size() <= 2000);
  CHECK(std::count(kept.begin(), kept.end(), Point{5432.1, 3.0}) == 1);
}

TEST_CASE("samples of one moment are no reason to divide by zero") {
  const std::vector<Point> points(50, Point{7, 1});
  CHECK(decimate(points, 8).size() <= 8);
}

}  // namespace
}  // namespace virtrain::results
