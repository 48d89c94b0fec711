#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace virtrain::resnet50 {

/// Quantile with linear interpolation between order statistics (numpy's default). Values must not be empty.
double quantile(std::vector<double> values, double share);

/// tf_cnn_benchmarks' table, byte for byte.
std::string tf_cnn_header();
/// One line after the step with these step times so far: mean speed, its standard error, jitter, loss.
std::string tf_cnn_line(const std::vector<double>& step_seconds, int images_per_step, double loss);
std::string tf_cnn_total(double images_per_second);

/// Facts after one step of the warm-up. Without a GPU, or where it does not tell, the last two are absent.
struct WarmupStep {
  double end_s = 0;  ///< on any clock that runs evenly
  double step_seconds = 0;
  std::optional<double> sm_clock_mhz;
  std::optional<double> temperature_c;
};

/// Says when a warm-up has gone on long enough: when step time, clock and temperature are level, or when the
/// time allowed for it is over.
///
/// The rule has the form of the steady state in SNIA's Solid State Storage Performance Test Specification
/// (2.0.2, definition "steady state"): in a window that moves along, the values stay within a range of 20 %
/// of their mean, and the line fitted through them (least squares) changes little from the window's one end
/// to the other. SNIA allows that line 10 %, fitting results that are compared by tens of percent; ours are
/// judged by a margin of 2 %, so it may change by 1 %, the temperature by 1 °C (NVML's resolution). Two
/// things are our own: the range is that between the 10 % and the 90 % quantile, since a single hiccup of the
/// host does not make a GPU cold, and a slope that the noise explains (three standard errors) counts as none.
class SteadyState {
 public:
  static constexpr double window_s = 10;
  static constexpr std::size_t least_steps = 10;  ///< in a window, which is longer for slow steps

  /// A warm-up that may take at most `bound_s`, from the first step's beginning.
  explicit SteadyState(double bound_s) : bound_s_(bound_s) {}

  void add(const WarmupStep& step);

  bool is_level() const { return looked_ && not_level_.empty(); }
  /// Level, or the bound is reached.
  bool is_over() const { return is_level() || seconds() >= bound_s_; }

  /// {"level", "seconds", "bound_seconds", "window_seconds", "observed": ["step_seconds", …],
  /// "not_level": ["sm_clock_mhz falls by 3.1 % in 10 s (at most 1 %)", …]}
  nlohmann::json to_json() const;

 private:
  void look();
  double seconds() const { return begin_s_ ? last_s_ - *begin_s_ : 0; }

  double bound_s_;
  std::optional<double> begin_s_;
  double last_s_ = 0;
  double last_look_s_ = 0;
  std::deque<WarmupStep> window_;
  bool looked_ = false;  ///< a whole window has been seen
  std::vector<std::string> observed_;
  std::vector<std::string> not_level_;
};

}  // namespace virtrain::resnet50
