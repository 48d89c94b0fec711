#include "results/report/data/decimate.h"

#include <algorithm>
#include <array>

namespace virtrain::results {
namespace {

/// First, lowest, highest and last of the span, in its order, each once.
void keep_extremes(std::span<const Point> bucket, std::vector<Point>& kept) {
  const auto by_value = [](const Point& a, const Point& b) { return a.value < b.value; };
  const auto [low, high] = std::minmax_element(bucket.begin(), bucket.end(), by_value);
  std::array positions{bucket.begin(), low, high, bucket.end() - 1};
  std::ranges::sort(positions);
  const auto end = std::unique(positions.begin(), positions.end());
  std::for_each(positions.begin(), end, [&](auto position) { kept.push_back(*position); });
}

}  // namespace

std::vector<Point> decimate(std::span<const Point> series, std::size_t most) {
  if (series.size() <= most) { return {series.begin(), series.end()}; }
  const std::size_t buckets = std::max<std::size_t>(1, most / 4);
  const double start = series.front().t_seconds;
  const double span = series.back().t_seconds - start;
  const auto bucket_of = [&](const Point& point) {
    const double share = span > 0 ? (point.t_seconds - start) / span : 0;
    return std::min(buckets - 1, static_cast<std::size_t>(share * static_cast<double>(buckets)));
  };
  std::vector<Point> kept;
  for (auto first = series.begin(); first != series.end();) {
    const auto bucket = bucket_of(*first);
    const auto next =
        std::find_if(first, series.end(), [&](const Point& point) { return bucket_of(point) != bucket; });
    keep_extremes({first, next}, kept);
    first = next;
  }
  return kept;
}

}  // namespace virtrain::results
