#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace virtrain::results {

/// One value at one time; in a series, times never go back.
struct Point {
  double t_seconds = 0;
  double value = 0;
  bool operator==(const Point&) const = default;
};

/// At most `most` points (4 or more) that draw the same line: of each of most/4 equal spans of time the
/// first, the lowest, the highest and the last point, in the order of the series. A series that is short
/// enough comes back whole. (M4: Jugel et al., PVLDB 7(10), 2014.)
std::vector<Point> decimate(std::span<const Point> series, std::size_t most);

}  // namespace virtrain::results
