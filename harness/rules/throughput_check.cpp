#include "harness/rules/throughput_check.h"

#include <fmt/format.h>

#include <cmath>

namespace virtrain::harness {
namespace {

/// The trainer's figure is over its samples' windows, but for what it takes to print them.
constexpr double most_share = 0.02, most_printing_seconds = 0.05;
/// Samples come by a pipe, mpirun and the agent, on cores that are busy training.
constexpr double most_delay_seconds = 2;
/// Longest time from taking a sample to receiving it.
constexpr double most_clock_seconds = 10;

double seconds_between(std::int64_t from_ns, std::int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) * 1e-9;
}

struct Sum {
  double images = 0, seconds = 0;
};

Sum sum_of(const std::vector<RankState::Window>& samples) {
  Sum sum;
  for (const auto& sample : samples) {
    sum.images += static_cast<double>(sample.images);
    sum.seconds += sample.seconds;
  }
  return sum;
}

std::string figure_doubt(double said, const Sum& sum) {
  const double seconds_said = sum.images / said;
  if (std::abs(seconds_said - sum.seconds) <= most_share * sum.seconds + most_printing_seconds) { return {}; }
  return fmt::format("says {:.6g} images/s where its samples show {:.6g}", said, sum.images / sum.seconds);
}

/// From its last warm-up step (if it told of any, else from its first sample) to its last sample, and since
/// the barrier.
std::string clock_doubt(const RankState& rank, const Sum& sum, std::int64_t released_ns, double standstill) {
  const auto& samples = rank.samples;
  const auto end_ns = samples.back().received_ns;
  const auto begin_ns = rank.warmed_up_ns.value_or(samples.front().received_ns);
  const double said = sum.seconds - (rank.warmed_up_ns ? 0 : samples.front().seconds);
  const double seen = seconds_between(begin_ns, end_ns), most = seconds_between(released_ns, end_ns);
  const auto allowed = [&](double of) { return most_delay_seconds + most_share * of + standstill; };
  if (std::abs(said - seen) > allowed(seen)) {
    return fmt::format("says its samples took {:.6g} s where they came over {:.6g} s of the host's clock",
                       said, seen);
  }
  if (sum.seconds > most + allowed(most)) {
    return fmt::format(
        "says its samples took {:.6g} s where the host's clock counts {:.6g} s since the barrier",
        sum.seconds, most);
  }
  return {};
}

std::string time_doubt(const std::vector<RankState::Window>& samples, double standstill) {
  for (const auto& sample : samples) {
    const double off = seconds_between(sample.received_ns, sample.t_ns);
    if (std::abs(off) > most_clock_seconds + standstill) {
      return fmt::format("dates a sample {:.6g} s {} the host's clock", std::abs(off),
                         off > 0 ? "after" : "before");
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> throughput_doubts(const RankState& rank, std::int64_t images_planned,
                                           std::int64_t released_ns, double standstill_seconds) {
  if (!rank.result || rank.samples.empty()) { return {"shows no sample of its work"}; }
  const auto sum = sum_of(rank.samples);
  std::vector<std::string> doubts;
  const auto add = [&](std::string doubt) {
    if (!doubt.empty()) { doubts.push_back(std::move(doubt)); }
  };
  if (sum.images != static_cast<double>(images_planned)) {
    add(fmt::format("counts {:.0f} images where {} were planned", sum.images, images_planned));
  }
  add(figure_doubt(rank.result->images_per_second, sum));
  add(clock_doubt(rank, sum, released_ns, standstill_seconds));
  add(time_doubt(rank.samples, standstill_seconds));
  return doubts;
}

}  // namespace virtrain::harness
