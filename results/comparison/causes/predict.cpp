#include "results/comparison/causes/predict.h"

#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/error.h"
#include "common/text/json.h"

namespace virtrain::results {
namespace {

/// Ring all-reduce in Hockney's model: 2 (N - 1) hops, each with a latency and 1 / N of the bytes.
/// Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009;
/// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005.
struct RingModel {
  double latency = 0;           ///< of one hop
  double seconds_per_byte = 0;  ///< 1 / bandwidth
  double overlap = 0;           ///< hidden behind the backward pass
  double bytes = 0;             ///< of all gradients

  double all_reduce_time(std::int64_t nodes) const;
  /// The part that makes a step longer.
  double exposed_time(std::int64_t nodes) const;
};

/// How much longer a step takes on so many nodes than on one.
struct ExtraTime {
  std::int64_t nodes = 2;
  double time = 0;
};

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

double RingModel::all_reduce_time(std::int64_t nodes) const {
  return latency * hops(nodes) + seconds_per_byte * sent(nodes, bytes);
}

double RingModel::exposed_time(std::int64_t nodes) const {
  return std::max(0.0, all_reduce_time(nodes) - overlap);
}

/// Latency and bandwidth from a sweep by non-negative least squares of relative errors; nothing for fewer
/// than two different points.
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

/// The overlap that fits best to what was measured, with the latency and bandwidth of a sweep.
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

/// All of the cost is latency.
RingModel fit_latency(std::span<const ExtraTime> points) {
  return {fit_one(equations_of(points, 1), &Equation::x_a), 0, 0, 1};
}

/// All of the cost is bandwidth.
RingModel fit_bandwidth(std::span<const ExtraTime> points, double bytes) {
  return {0, fit_one(equations_of(points, bytes), &Equation::x_b), 0, bytes};
}

/// Exposed latency and bandwidth straight from what was measured, by non-negative least squares; from a
/// single size the bandwidth alone.
RingModel fit_ring(std::span<const ExtraTime> points, double bytes) {
  if (points.size() < 2) { return fit_bandwidth(points, bytes); }
  const auto [latency, seconds_per_byte] = fit_two(equations_of(points, bytes));
  return {latency, seconds_per_byte, 0, bytes};
}

/// All runs of one size.
struct Size {
  std::int64_t nodes = 1;
  double mean = 0;         ///< throughput
  bool is_single = false;  ///< one run
  std::optional<double> scatter =
      {};  ///< half width of the mean's 95 % interval, relative; three runs and more
};

std::vector<Size> sizes_of(const std::vector<ScalingRun>& runs) {
  std::map<std::int64_t, std::vector<double>> by_nodes;
  for (const auto& run : runs) { by_nodes[run.nodes].push_back(run.throughput); }
  std::vector<Size> sizes;
  for (const auto& [nodes, values] : by_nodes) {
    require_throughputs(values, fmt::format("{} nodes", nodes));
    Size size{nodes, mean(values), values.size() == 1, {}};
    if (values.size() >= 3) {
      const double count = static_cast<double>(values.size());
      const boost::math::students_t_distribution<double> t(count - 1);
      size.scatter = boost::math::quantile(boost::math::complement(t, 0.025)) *
                     std::sqrt(variance(values) / count) / size.mean;
    }
    sizes.push_back(size);
  }
  if (sizes.empty() || sizes.front().nodes != 1) {
    throw Error("predict weak scaling", ErrorCode::bad_input,
                "there is no run on one node, and all else is measured against it");
  }
  return sizes;
}

/// Fits, predicts and bounds for one arm.
class Predictor {
 public:
  explicit Predictor(const ScalingEvidence& evidence) : evidence_(evidence), sizes_(sizes_of(evidence.runs)) {
    one_node_ = sizes_.front().mean;
    one_step_ = evidence.images_per_step ? *evidence.images_per_step / one_node_ : 1;
    if (evidence.images_per_step) { sweep_ = fit_sweep(evidence.probes, evidence.gradient_bytes); }
    model_ = fit(sizes_);
  }

  Prediction run(std::span<const std::int64_t> asked) const {
    Prediction result;
    describe(result);
    std::map<std::int64_t, PredictedPoint> points;
    for (const auto& size : sizes_) { points[size.nodes].measured = size.mean; }
    for (const auto nodes : asked) { points.try_emplace(nodes); }
    for (auto& [nodes, point] : points) {
      fill(nodes, point);
      result.points.push_back(point);
    }
    hold_out(result);
    judge(result);
    return result;
  }

 private:
  /// Time per step that N nodes take longer than one, in the unit of one_step_; `off` shifts every mean by
  /// its scatter, +1 towards a dearer network, -1 towards a cheaper one.
  double extra_time(const Size& size, double off = 0) const {
    const double slower = 1 - off * size.scatter.value_or(0);
    const double faster = 1 + off * sizes_.front().scatter.value_or(0);
    const double step = one_step_ * static_cast<double>(size.nodes) * one_node_ / (size.mean * slower);
    return step - one_step_ / faster;
  }

  std::vector<ExtraTime> extra_times(const std::vector<Size>& sizes, double off = 0) const {
    std::vector<ExtraTime> points;
    for (const auto& size : sizes) {
      if (size.nodes > 1) { points.push_back({size.nodes, extra_time(size, off)}); }
    }
    return points;
  }

  RingModel fit(const std::vector<Size>& sizes) const {
    const auto points = extra_times(sizes);
    return sweep_ ? fit_overlap(*sweep_, points) : fit_ring(points, evidence_.gradient_bytes);
  }

  double throughput(std::int64_t nodes, double step) const {
    return static_cast<double>(nodes) * one_node_ * one_step_ / step;
  }
  double predicted(const RingModel& model, std::int64_t nodes) const {
    return throughput(nodes, one_step_ + model.exposed_time(nodes));
  }

  void fill(std::int64_t nodes, PredictedPoint& point) const {
    point.nodes = nodes;
    point.predicted = predicted(model_, nodes);
    point.ideal = static_cast<double>(nodes) * one_node_;
    point.speedup = point.predicted / one_node_;
    point.bound = nodes == 1 ? std::nullopt : bound(nodes);
  }

  /// With probes: from nothing hidden behind the backward pass to all of it hidden. Without: from all of the
  /// cost being latency (it grows with every hop) to a cost that stays what it is on the largest measured
  /// size, each at the far end of the measured scatter. Any cost that grows, but no faster than a ring's, is
  /// between.
  std::optional<Interval> bound(std::int64_t nodes) const {
    if (sweep_) {
      const double all_reduce = sweep_->all_reduce_time(nodes);
      return Interval{throughput(nodes, one_step_ + all_reduce),
                      throughput(nodes, std::max(one_step_, all_reduce))};
    }
    if (sizes_.size() < 2) { return std::nullopt; }
    Interval hull{predicted(model_, nodes), predicted(model_, nodes)};
    for (const double off : {-1.0, 1.0}) {
      const double all_latency = predicted(fit_latency(extra_times(sizes_, off)), nodes);
      const double constant = throughput(nodes, one_step_ + std::max(0.0, extra_time(sizes_.back(), off)));
      hull.low = std::min({hull.low, all_latency, constant});
      hull.high = std::max({hull.high, all_latency, constant});
    }
    return hull;
  }

  void describe(Prediction& result) const {
    result.transport = evidence_.transport;
    result.one_node = one_node_;
    const auto beyond = sizes_.size() - 1;
    result.fitted_on = sweep_        ? (beyond > 0 ? "probes_and_runs" : "probes")
                       : beyond == 0 ? "nothing"
                       : beyond == 1 ? "one_run"
                                     : "runs";
    if (evidence_.images_per_step) {
      result.step_seconds = one_step_;
      result.latency_seconds = model_.latency;
      if (model_.seconds_per_byte > 0) { result.bytes_per_second = 1 / model_.seconds_per_byte; }
      if (sweep_) { result.overlap_seconds = model_.overlap; }
    }
    for (const auto& size : sizes_) {
      if (size.is_single) { result.single_runs.push_back(size.nodes); }
    }
    auto& notes = result.notes;
    if (result.fitted_on == "nothing") {
      notes.emplace_back("no size beyond one node was measured: only the ideal can be given");
    }
    if (result.fitted_on == "one_run") {
      notes.emplace_back(
          "a prediction from one size assumes that all of its cost is bandwidth; the bound goes from a cost "
          "that stays as it is to one that is all latency");
    }
    if (result.fitted_on == "probes") {
      notes.emplace_back("no size beyond one node was measured: predicted as if nothing overlapped");
    }
    if (!sweep_ && !evidence_.probes.empty()) {
      notes.emplace_back(evidence_.images_per_step
                             ? "the probes are too few to fit latency and bandwidth (two sizes are needed)"
                             : "the probes were left out: the images of one step are not known");
    }
    if (evidence_.several_sweeps) {
      notes.emplace_back(
          "the probes were left out: sweeps with different settings, and which of them the runs used is not "
          "known");
    }
    const bool no_scatter = std::ranges::any_of(sizes_, [](const auto& s) { return !s.scatter; });
    if (!sweep_ && beyond > 0 && no_scatter) {
      notes.emplace_back("sizes with fewer than three runs: the bound knows nothing of their scatter");
    }
  }

  /// Leaves each size beyond one node out in turn, where that leaves one to fit on.
  void hold_out(Prediction& result) const {
    if (sizes_.size() < 3) { return; }
    for (auto& point : result.points) {
      if (!point.measured || point.nodes == 1) { continue; }
      auto others = sizes_;
      std::erase_if(others, [&](const Size& size) { return size.nodes == point.nodes; });
      point.held_out_error = predicted(fit(others), point.nodes) / *point.measured - 1;
      result.worst_held_out_error =
          std::max(result.worst_held_out_error.value_or(0), std::abs(*point.held_out_error));
    }
  }

  /// Where the measured sizes contradict the model, its bounds promise nothing.
  void judge(Prediction& result) const {
    name_first_step(result);
    constexpr double tolerance = 0.02;  // of the throughput
    const auto say = [&](const std::string& sentence) {
      result.outside_model = true;
      result.notes.push_back(sentence);
    };
    for (const auto& size : sizes_) {
      if (size.nodes == 1) { continue; }
      const double give = tolerance + size.scatter.value_or(0) + sizes_.front().scatter.value_or(0);
      const auto limits = bound(size.nodes);
      const double ideal = static_cast<double>(size.nodes) * one_node_;
      if (size.mean > ideal * (1 + give)) {
        say(fmt::format("{} nodes are faster than {} times one node: the bound does not hold", size.nodes,
                        size.nodes));
      } else if (sweep_ && (size.mean < limits->low * (1 - give) || size.mean > limits->high * (1 + give))) {
        say(fmt::format(
            "{} nodes measured lie outside the bound: the probes do not carry what the trainer does",
            size.nodes));
      }
    }
    if (sweep_ || sizes_.size() < 3) { return; }
    // A ring's cost per hop never grows with the number of nodes.
    const auto hops = [](const Size& size) { return 2 * static_cast<double>(size.nodes - 1); };
    const double small = extra_time(sizes_[1], 1) / hops(sizes_[1]);
    const double large = extra_time(sizes_.back(), -1) / hops(sizes_.back());
    if (large > std::max(small, 0.0) + tolerance * one_step_ / hops(sizes_.back())) {
      say("the cost grows faster than that of a ring: the bound does not hold for more nodes");
    }
  }

  double efficiency(const Size& size) const {
    return size.mean / (static_cast<double>(size.nodes) * one_node_);
  }

  /// One node has no network between its ranks. Where nearly all that is lost is lost on the way to the first
  /// size with one, that step decides the prediction, and how many nodes there are hardly does.
  void name_first_step(Prediction& result) const {
    if (sizes_.size() < 2) { return; }
    constexpr double large = 0.2;  // of the throughput
    const double at_first = 1 - efficiency(sizes_[1]);
    const double further = std::max(0.0, efficiency(sizes_[1]) - efficiency(sizes_.back()));
    if (at_first < large || at_first < 2 * further) { return; }
    result.notes.push_back(fmt::format(
        "the step from 1 to {} nodes costs {:.0f} % of the throughput of each node{}: one node needs no "
        "network "
        "between its ranks, so check the link between nodes before you add more",
        sizes_[1].nodes, 100 * at_first,
        sizes_.size() > 2
            ? fmt::format(", all further ones to {} nodes {:.0f} %", sizes_.back().nodes, 100 * further)
            : ""));
  }

  const ScalingEvidence& evidence_;
  std::vector<Size> sizes_;
  double one_node_ = 0;
  double one_step_ = 1;  ///< seconds, or 1 where the images of a step are not known
  std::optional<RingModel> sweep_;
  RingModel model_;
};

}  // namespace

Prediction predict(const ScalingEvidence& evidence, std::span<const std::int64_t> sizes) {
  for (const auto nodes : sizes) {
    if (nodes >= 1) { continue; }
    throw Error("predict weak scaling", ErrorCode::bad_input,
                fmt::format("{} nodes are not possible (allowed: 1 and more)", nodes));
  }
  return Predictor(evidence).run(sizes);
}

nlohmann::json to_json(const Prediction& prediction) {
  auto points = nlohmann::json::array();
  for (const auto& point : prediction.points) {
    points.push_back({{"nodes", point.nodes},
                      {"measured", or_null(point.measured)},
                      {"predicted", point.predicted},
                      {"ideal", point.ideal},
                      {"bound_low", point.bound ? nlohmann::json(point.bound->low) : nlohmann::json()},
                      {"bound_high", point.bound ? nlohmann::json(point.bound->high) : nlohmann::json()},
                      {"held_out_error", or_null(point.held_out_error)},
                      {"speedup", point.speedup}});
  }
  return {
      {"transport", prediction.transport.empty() ? nlohmann::json() : nlohmann::json(prediction.transport)},
      {"fitted_on", prediction.fitted_on},
      {"one_node", prediction.one_node},
      {"step_seconds", or_null(prediction.step_seconds)},
      {"latency_seconds", or_null(prediction.latency_seconds)},
      {"bytes_per_second", or_null(prediction.bytes_per_second)},
      {"overlap_seconds", or_null(prediction.overlap_seconds)},
      {"worst_held_out_error", or_null(prediction.worst_held_out_error)},
      {"outside_model", prediction.outside_model},
      {"points", points},
      {"notes", prediction.notes}};
}

}  // namespace virtrain::results
