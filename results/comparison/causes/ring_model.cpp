#include "results/comparison/causes/ring_model.h"

#include <algorithm>
#include <set>
#include <vector>

namespace virtrain::results {
namespace {

double hops(std::int64_t nodes) {
  return 2 * static_cast<double>(nodes - 1);
}

/// Bytes that each node sends in an all-reduce of `bytes`.
double sent(std::int64_t nodes, double bytes) {
  return hops(nodes) / static_cast<double>(nodes) * bytes;
}

/// y = a * x_a + b * x_b with weight w.
struct Equation {
  double x_a = 0;
  double x_b = 0;
  double y = 0;
  double weight = 1;
};

struct Solution {
  double a = 0;
  double b = 0;
};

double squares(const std::vector<Equation>& equations, const Solution& solution) {
  double sum = 0;
  for (const auto& [x_a, x_b, y, weight] : equations) {
    const double off = y - solution.a * x_a - solution.b * x_b;
    sum += weight * off * off;
  }
  return sum;
}

/// Least squares with one unknown, not below zero.
double fit_one(const std::vector<Equation>& equations, double Equation::*x) {
  double product = 0;
  double square = 0;
  for (const auto& equation : equations) {
    product += equation.weight * equation.*x * equation.y;
    square += equation.weight * equation.*x * equation.*x;
  }
  return square > 0 ? std::max(0.0, product / square) : 0;
}

/// Least squares with two unknowns, neither below zero: the inner solution if it is allowed, else the better
/// edge.
Solution fit_two(const std::vector<Equation>& equations) {
  double aa = 0, ab = 0, bb = 0, ay = 0, by = 0;
  for (const auto& [x_a, x_b, y, weight] : equations) {
    aa += weight * x_a * x_a;
    ab += weight * x_a * x_b;
    bb += weight * x_b * x_b;
    ay += weight * x_a * y;
    by += weight * x_b * y;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant > 1e-12 * aa * bb) {
    const Solution inner{(ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant};
    if (inner.a >= 0 && inner.b >= 0) { return inner; }
  }
  const Solution only_b{0, fit_one(equations, &Equation::x_b)};
  const Solution only_a{fit_one(equations, &Equation::x_a), 0};
  return squares(equations, only_a) < squares(equations, only_b) * (1 - 1e-9) ? only_a : only_b;
}

std::vector<Equation> equations_of(std::span<const ExtraTime> points, double bytes) {
  std::vector<Equation> equations;
  for (const auto& [nodes, time] : points) {
    equations.push_back({hops(nodes), sent(nodes, bytes), time, 1});
  }
  return equations;
}

}  // namespace

double RingModel::all_reduce_time(std::int64_t nodes) const {
  return latency * hops(nodes) + seconds_per_byte * sent(nodes, bytes);
}

double RingModel::exposed_time(std::int64_t nodes) const {
  return std::max(0.0, all_reduce_time(nodes) - overlap);
}

std::optional<RingModel> fit_sweep(std::span<const AllReducePoint> sweep, double bytes) {
  std::vector<Equation> equations;
  std::set<std::pair<std::int64_t, double>> different;
  for (const auto& [ranks, size, seconds] : sweep) {
    if (ranks < 2 || !(size > 0) || !(seconds > 0)) { continue; }
    equations.push_back({hops(ranks), sent(ranks, size), seconds, 1 / (seconds * seconds)});
    different.insert({ranks, size});
  }
  if (different.size() < 2) { return std::nullopt; }
  const auto [latency, seconds_per_byte] = fit_two(equations);
  return RingModel{latency, seconds_per_byte, 0, bytes};
}

RingModel fit_overlap(RingModel model, std::span<const ExtraTime> points) {
  const auto misfit = [&](double overlap) {
    model.overlap = overlap;
    double sum = 0;
    for (const auto& [nodes, time] : points) {
      const double off = time - model.exposed_time(nodes);
      sum += off * off;
    }
    return sum;
  };
  // Between two all-reduce times the same sizes are exposed, and the best overlap is a mean; so the best of
  // all is among these means and the times themselves.
  std::vector<double> times;
  for (const auto& point : points) { times.push_back(model.all_reduce_time(point.nodes)); }
  std::vector<double> candidates = times;
  candidates.push_back(0);
  for (const double from : std::vector<double>(candidates)) {
    double sum = 0;
    double count = 0;
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (times[i] <= from) { continue; }
      sum += times[i] - points[i].time;
      ++count;
    }
    if (count > 0) { candidates.push_back(std::max(0.0, sum / count)); }
  }
  std::ranges::sort(candidates);
  model.overlap = *std::ranges::min_element(
      candidates, [&](double one, double other) { return misfit(one) < misfit(other); });
  return model;
}

RingModel fit_ring(std::span<const ExtraTime> points, double bytes) {
  if (points.size() < 2) { return fit_bandwidth(points, bytes); }
  const auto [latency, seconds_per_byte] = fit_two(equations_of(points, bytes));
  return {latency, seconds_per_byte, 0, bytes};
}

RingModel fit_latency(std::span<const ExtraTime> points) {
  return {fit_one(equations_of(points, 1), &Equation::x_a), 0, 0, 1};
}

RingModel fit_bandwidth(std::span<const ExtraTime> points, double bytes) {
  return {0, fit_one(equations_of(points, bytes), &Equation::x_b), 0, bytes};
}

}  // namespace virtrain::results
