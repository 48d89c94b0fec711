#include "workloads/resnet50/training/step_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace virtrain::resnet50 {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Population standard deviation, as numpy.std.
double deviation(const std::vector<double>& values) {
  const double centre = mean(values);
  double sum = 0;
  for (const double value : values) { sum += (value - centre) * (value - centre); }
  return std::sqrt(sum / static_cast<double>(values.size()));
}

const std::string rule(64, '-');

}  // namespace

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double position = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(position);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (position - static_cast<double>(low)) * (values[high] - values[low]);
}

std::string tf_cnn_header() {
  return "Step\tImg/sec\ttotal_loss\n";
}

std::string tf_cnn_line(const std::vector<double>& step_seconds, int images_per_step, double loss) {
  std::vector<double> speeds;
  speeds.reserve(step_seconds.size());
  for (const double seconds : step_seconds) { speeds.push_back(images_per_step / seconds); }
  const double median = quantile(speeds, 0.5);
  std::vector<double> distances;
  distances.reserve(speeds.size());
  for (const double speed : speeds) { distances.push_back(std::abs(speed - median)); }
  const double uncertainty = deviation(speeds) / std::sqrt(static_cast<double>(speeds.size()));
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%zu\timages/sec: %.1f +/- %.1f (jitter = %.1f)\t%.3f\n",
                step_seconds.size(), images_per_step / mean(step_seconds), uncertainty,
                1.4826 * quantile(distances, 0.5), loss);
  return line.data();
}

std::string tf_cnn_total(double images_per_second) {
  std::array<char, 64> total{};
  std::snprintf(total.data(), total.size(), "total images/sec: %.2f\n", images_per_second);
  return rule + "\n" + total.data() + rule + "\n";
}

namespace {

constexpr double most_range = 0.20;  // of the mean
constexpr double most_drift = 0.01;  // of the mean
constexpr double most_drift_c = 1;
constexpr double noise_errors = 3;        // standard errors within which a slope is none
constexpr double seconds_of_looks = 0.5;  // a look sorts the window, which may have thousands of steps

struct Point {
  double t, y;
};

struct Line {
  double mean = 0;
  double drift = 0;  ///< of the fitted line from the first point to the last
  double error = 0;  ///< standard error of that
};

/// Least squares, at least three points.
Line fit(const std::vector<Point>& points) {
  const auto n = static_cast<double>(points.size());
  double t_mean = 0, y_mean = 0;
  for (const auto& [t, y] : points) {
    t_mean += t / n;
    y_mean += y / n;
  }
  double tt = 0, ty = 0, yy = 0;
  for (const auto& [t, y] : points) {
    tt += (t - t_mean) * (t - t_mean);
    ty += (t - t_mean) * (y - y_mean);
    yy += (y - y_mean) * (y - y_mean);
  }
  const double slope = tt > 0 ? ty / tt : 0;
  const double residual = std::max(0.0, yy - slope * ty);
  const double span = points.back().t - points.front().t;
  return {y_mean, slope * span, tt > 0 ? std::sqrt(residual / (n - 2) / tt) * span : 0};
}

double range_of(const std::vector<Point>& points) {
  std::vector<double> values;
  values.reserve(points.size());
  for (const Point& point : points) { values.push_back(point.y); }
  return quantile(values, 0.9) - quantile(values, 0.1);
}

/// Why this is not level; "" if it is.
std::string unrest(const char* name, const std::vector<Point>& points, bool is_temperature) {
  const Line line = fit(points);
  const char* const way = line.drift > 0 ? "rises" : "falls";
  const double span = points.back().t - points.front().t;
  if (std::abs(line.drift) > noise_errors * line.error) {
    if (is_temperature && std::abs(line.drift) > most_drift_c) {
      return fmt::format("{} {} by {:.1f} in {:.0f} s (at most {:g})", name, way, std::abs(line.drift), span,
                         most_drift_c);
    }
    if (!is_temperature && std::abs(line.drift) > most_drift * line.mean) {
      return fmt::format("{} {} by {:.1f} % in {:.0f} s (at most {:g} %)", name, way,
                         100 * std::abs(line.drift) / line.mean, span, 100 * most_drift);
    }
  }
  if (const double range = range_of(points); !is_temperature && range > most_range * line.mean) {
    return fmt::format("{} varies by {:.0f} % (at most {:g} %)", name, 100 * range / line.mean,
                       100 * most_range);
  }
  return "";
}

}  // namespace

void SteadyState::add(const WarmupStep& step) {
  if (!begin_s_) {
    begin_s_ = step.end_s - step.step_seconds;
    last_look_s_ = *begin_s_;
  }
  last_s_ = step.end_s;
  window_.push_back(step);
  while (window_.size() > least_steps && last_s_ - window_[1].end_s >= window_s) { window_.pop_front(); }
  if (window_.size() < least_steps || last_s_ - window_.front().end_s < window_s) { return; }
  if (looked_ && last_s_ - last_look_s_ < seconds_of_looks) { return; }
  look();
}

void SteadyState::look() {
  looked_ = true;
  last_look_s_ = last_s_;
  observed_.clear();
  not_level_.clear();
  const auto check = [this](const char* name, auto value_of, bool is_temperature) {
    std::vector<Point> points;
    for (const WarmupStep& step : window_) {
      if (const std::optional<double> value = value_of(step)) { points.push_back({step.end_s, *value}); }
    }
    if (points.size() < least_steps) { return; }
    observed_.emplace_back(name);
    if (std::string words = unrest(name, points, is_temperature); !words.empty()) {
      not_level_.push_back(std::move(words));
    }
  };
  check(
      "step_seconds", [](const WarmupStep& step) { return std::optional(step.step_seconds); }, false);
  check(
      "sm_clock_mhz", [](const WarmupStep& step) { return step.sm_clock_mhz; }, false);
  check(
      "temperature_c", [](const WarmupStep& step) { return step.temperature_c; }, true);
}

nlohmann::json SteadyState::to_json() const {
  std::vector<std::string> why = not_level_;
  if (!looked_) {
    why.push_back(fmt::format("fewer than {:g} s or {} steps were seen", window_s, least_steps));
  }
  return {{"level", is_level()},        {"seconds", seconds()},  {"bound_seconds", bound_s_},
          {"window_seconds", window_s}, {"observed", observed_}, {"not_level", why}};
}

}  // namespace virtrain::resnet50
