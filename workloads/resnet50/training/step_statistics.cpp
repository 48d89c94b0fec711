#include "workloads/resnet50/training/step_statistics.h"

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

}  // namespace virtrain::resnet50
