#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/report/data/decimate.h"
#include "results/report/data/report_data.h"

namespace virtrain::results {

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
