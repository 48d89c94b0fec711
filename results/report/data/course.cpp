#include "results/report/data/course.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

namespace virtrain::results {
namespace {

constexpr double seconds_per_ns = 1e-9;

/// How readings become a line. A counter only grows, so its rate is drawn; a share is a rate of busy time
/// over the rate of all of it.
enum class Kind { gauge, rate, share_of_cpu };

struct MetricRule {
  std::string_view metric;
  Kind kind;
  std::string_view title;
  std::string_view unit;
  double scale;
  double least;  ///< a panel whose values all lie below it says nothing and is left out
};

constexpr MetricRule metric_rules[] = {
    {"cpu_busy", Kind::share_of_cpu, "CPU busy in the node", "%", 100, 0.05},
    {"cpu_steal_seconds", Kind::share_of_cpu, "CPU stolen from the node", "%", 100, 0.05},
    {"vcpu_wait_seconds", Kind::rate, "Waiting for a core", "vCPUs", 1, 0.001},
    {"helper_cpu_seconds", Kind::rate, "Used by QEMU's helper threads", "cores", 1, 0.001},
    {"gpu_utilization_percent", Kind::gauge, "GPU busy", "%", 1, 0.05},
    {"gpu_clock_mhz", Kind::gauge, "GPU clock", "MHz", 1, 1},
    {"gpu_sm_clock_mhz", Kind::gauge, "GPU clock (SM)", "MHz", 1, 1},
    {"gpu_throttle_share", Kind::gauge, "GPU throttled", "%", 100, 0.05},
    {"gpu_power_watts", Kind::gauge, "GPU power", "W", 1, 0.1},
    {"gpu_temperature_celsius", Kind::gauge, "GPU temperature", "°C", 1, 1},
    {"cpu_clock_mhz", Kind::gauge, "CPU clock", "MHz", 1, 1},
    {"cpu_mhz", Kind::gauge, "CPU clock", "MHz", 1, 1},
    {"cpu_throttle_share", Kind::gauge, "CPU throttled", "%", 100, 0.05},
    {"cpu_throttled_seconds", Kind::rate, "Held back by the CPU limit", "cores", 1, 0.001},
    {"network_tx_bytes", Kind::rate, "Network, sent", "MB/s", 1e-6, 0.01},
};

// Parts of CPU time; all but the last two are work.
constexpr std::string_view cpu_times[] = {"cpu_user_seconds", "cpu_system_seconds", "cpu_steal_seconds",
                                          "cpu_idle_seconds", "cpu_iowait_seconds"};

/// Readings of one metric in the order of time. Where the guest and the host both read it, the guest's count.
std::vector<Point> readings(const NodeRecord& node, std::string_view metric) {
  std::vector<Point> points;
  for (const std::string_view source : {"guest", "host"}) {
    for (const auto& reading : node.telemetry) {
      if (reading.metric == metric && reading.source == source) {
        points.push_back({static_cast<double>(reading.t_ns) * seconds_per_ns, reading.value});
      }
    }
    if (!points.empty()) { break; }
  }
  std::ranges::stable_sort(points, [](const Point& a, const Point& b) { return a.t_seconds < b.t_seconds; });
  return points;
}

std::vector<Point> rate_of(const std::vector<Point>& counter, double scale) {
  std::vector<Point> rates;
  for (std::size_t i = 1; i < counter.size(); ++i) {
    const double span = counter[i].t_seconds - counter[i - 1].t_seconds;
    const double grown = counter[i].value - counter[i - 1].value;
    // A counter that fell was reset: nothing is known of that span.
    if (span > 0 && grown >= 0) { rates.push_back({counter[i].t_seconds, grown / span * scale}); }
  }
  return rates;
}

/// Sum of several counters at the times that all of them have.
std::vector<Point> sum_of(const NodeRecord& node, std::span<const std::string_view> metrics) {
  std::map<double, std::pair<double, std::size_t>> sums;
  for (const auto metric : metrics) {
    for (const auto& [t, value] : readings(node, metric)) {
      sums[t].first += value;
      ++sums[t].second;
    }
  }
  std::vector<Point> points;
  for (const auto& [t, sum] : sums) {
    if (sum.second == metrics.size()) { points.push_back({t, sum.first}); }
  }
  return points;
}

/// Growth of `part` over growth of the node's whole CPU time.
std::vector<Point> share_of_cpu(const NodeRecord& node, const std::vector<Point>& part, double scale) {
  std::map<double, double> whole;
  for (const auto& [t, value] : rate_of(sum_of(node, cpu_times), 1)) { whole[t] = value; }
  std::vector<Point> shares;
  for (const auto& [t, value] : rate_of(part, 1)) {
    const auto all = whole.find(t);
    if (all != whole.end() && all->second > 0) { shares.push_back({t, value / all->second * scale}); }
  }
  return shares;
}

std::vector<Point> line_of(const NodeRecord& node, const MetricRule& rule) {
  switch (rule.kind) {
    case Kind::gauge: {
      auto points = readings(node, rule.metric);
      for (auto& point : points) { point.value *= rule.scale; }
      return points;
    }
    case Kind::rate:
      return rate_of(readings(node, rule.metric), rule.scale);
    case Kind::share_of_cpu:
      break;
  }
  const bool busy = rule.metric == "cpu_busy";
  return share_of_cpu(node, busy ? sum_of(node, std::span(cpu_times).first(2)) : readings(node, rule.metric),
                      rule.scale);
}

/// The first thing known of the trial: start of its first window or its first reading.
double start_of(const TrialRecord& trial) {
  double start = std::numeric_limits<double>::infinity();
  for (const auto& tenant : trial.tenants) {
    for (const auto& rank : tenant.samples) {
      for (const auto& sample : rank) {
        start = std::min(start, static_cast<double>(sample.t_ns) * seconds_per_ns - sample.seconds);
      }
    }
    for (const auto& node : tenant.nodes) {
      for (const auto& reading : node.telemetry) {
        start = std::min(start, static_cast<double>(reading.t_ns) * seconds_per_ns);
      }
    }
  }
  return start;
}

void add_line(CoursePanel& panel, const TrialRecord& trial, double start, std::string name,
              std::vector<Point> points) {
  if (points.empty()) { return; }
  for (auto& point : points) { point.t_seconds -= start; }
  panel.lines.push_back({trial.trial.arm, std::move(name), std::move(points)});
}

bool says_anything(const CoursePanel& panel, double least) {
  return std::ranges::any_of(panel.lines, [least](const CourseLine& line) {
    return std::ranges::any_of(line.points, [least](const Point& point) { return point.value >= least; });
  });
}

}  // namespace

std::string tenant_name(std::int64_t index, const std::string& name) {
  return name.empty() ? fmt::format("tenant {}", index + 1) : name;
}

std::vector<Point> tenant_throughput(const std::vector<std::vector<Sample>>& ranks) {
  struct Step {
    std::int64_t t_ns = 0;
    double throughput = 0;
    std::size_t ranks = 0;
  };
  std::map<std::int64_t, Step> steps;
  for (const auto& samples : ranks) {
    for (const auto& sample : samples) {
      auto& step = steps[sample.step];
      step.t_ns = std::max(step.t_ns, sample.t_ns);
      step.throughput += static_cast<double>(sample.images) / sample.seconds;
      ++step.ranks;
    }
  }
  std::vector<Point> points;
  for (const auto& [number, step] : steps) {
    if (step.ranks == ranks.size()) {
      points.push_back({static_cast<double>(step.t_ns) * seconds_per_ns, step.throughput});
    }
  }
  std::ranges::stable_sort(points, [](const Point& a, const Point& b) { return a.t_seconds < b.t_seconds; });
  return points;
}

std::vector<CoursePanel> course_of(std::span<const TrialRecord* const> trials) {
  std::map<std::int64_t, CoursePanel> throughput;
  std::vector<CoursePanel> telemetry;
  for (const auto& rule : metric_rules) {
    telemetry.push_back({std::string(rule.title), std::string(rule.unit), {}});
  }
  for (const auto* trial : trials) {
    const double start = start_of(*trial);
    for (const auto& tenant : trial->tenants) {
      const auto name = tenant_name(tenant.index, tenant.name);
      auto& panel = throughput[tenant.index];
      panel.is_throughput = true;
      panel.unit = unit_of(trial->trial.throughput);
      panel.title = trial->tenants.size() > 1 ? "Throughput of " + name : "Throughput";
      add_line(panel, *trial, start, name, tenant_throughput(tenant.samples));
      for (const auto& node : tenant.nodes) {
        for (std::size_t m = 0; m < std::size(metric_rules); ++m) {
          add_line(telemetry[m], *trial, start, node.name, line_of(node, metric_rules[m]));
        }
      }
    }
  }
  std::vector<CoursePanel> panels;
  for (auto& [index, panel] : throughput) {
    if (!panel.lines.empty()) { panels.push_back(std::move(panel)); }
  }
  for (std::size_t m = 0; m < telemetry.size(); ++m) {
    if (says_anything(telemetry[m], metric_rules[m].least)) { panels.push_back(std::move(telemetry[m])); }
  }
  return panels;
}

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
