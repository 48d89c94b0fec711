#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "results/report/data/report_data.h"

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

/// A line of a panel: one tenant's or node's values over the seconds since the trial's first reading.
struct CourseLine {
  std::string arm;
  std::string name;  ///< of the tenant, or of the node
  std::vector<Point> points;
};

/// Lines that share one vertical axis.
struct CoursePanel {
  std::string title;
  std::string unit;
  std::vector<CourseLine> lines = {};
  bool is_throughput = false;
};

/// Throughput of a tenant, in what its samples count, at the end of each window: the sum over its ranks, for
/// steps that all of them measured (ranks train in step, so a step of some only would look like a loss).
/// Times are those of the samples.
std::vector<Point> tenant_throughput(const std::vector<std::vector<Sample>>& ranks);

/// The panels of one case: a throughput panel for each tenant, then one for each metric that is known, all
/// trials in the same panels. Each trial's clock starts with its first reading.
std::vector<CoursePanel> course_of(std::span<const TrialRecord* const> trials);

/// "tenant 1", or the name that the scenario gave it.
std::string tenant_name(std::int64_t index, const std::string& name);

}  // namespace virtrain::results
