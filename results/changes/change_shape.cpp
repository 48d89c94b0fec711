#include "results/changes/change_shape.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace virtrain::results {
namespace {

/// Sum over the nights of their squared distance from what is expected, in sigmas; odd nights count little.
template <typename Expected>
double misfit(std::span<const double> nights, double sigma, Expected&& expected) {
  constexpr double most = 4;
  double sum = 0;
  for (std::size_t i = 0; i < nights.size(); ++i) {
    sum += std::pow(std::clamp((nights[i] - expected(i)) / sigma, -most, most), 2);
  }
  return sum;
}

double median_between(std::span<const double> nights, std::size_t begin, std::size_t end) {
  const auto part = nights.subspan(begin, end - begin);
  return median_night({part.begin(), part.end()});
}

/// Variance of one night's part of a random walk: 2 % a year, and more where the nights before say so.
double drift_of(std::span<const double> before, const NightLevel& level) {
  constexpr double usual = 0.02 * 0.02 / 365, blocks_of_usual = 5;
  constexpr std::size_t block = 10, most_blocks = 36;
  const double noise = std::pow(level.standard_error(block, block), 2);
  double sum = 0, blocks = 0, later = 0;
  for (std::size_t end = before.size(); end >= block && blocks < most_blocks; end -= block, ++blocks) {
    const double centre = median_between(before, end - block, end);
    if (blocks > 0) { sum += (std::pow(centre - later, 2) - noise) / (block * 2.0 / 3); }
    later = centre;
  }
  const double pairs = std::max(0.0, blocks - 1);
  return (std::max(0.0, sum) + blocks_of_usual * usual) / (pairs + blocks_of_usual);
}

/// The mean that is seen of a shift of size `truth` that is told only where it looks larger than `least`.
double seen_of(double truth, double least, double standard_error, double share_of_nights) {
  const double distance = (least - truth) / standard_error;
  const double above = 0.5 * std::erfc(distance / std::numbers::sqrt2);
  const double density = std::exp(-distance * distance / 2) / std::sqrt(2 * std::numbers::pi);
  const double excess = above > 1e-12 ? density / above : distance;
  return truth + standard_error * excess * share_of_nights;
}

/// The shift that is seen as `seen` on average; not below none.
double truth_of(double seen, double least, double standard_error, double share_of_nights) {
  double low = 0, high = std::max(seen, 0.0);
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (seen_of(middle, least, standard_error, share_of_nights) < seen ? low : high) = middle;
  }
  return std::min(seen, low);
}

}  // namespace

bool is_ramp(const TwoSteps& steps) {
  // Two steps have to explain the nights this much better, so that chance does not make two out of one.
  constexpr double least_gain = 4;
  const auto& nights = steps.nights;
  const double one = median_between(nights, steps.first, steps.second);
  const double two = median_between(nights, steps.second, nights.size());
  const double by_steps = misfit(nights, steps.sigma, [&](std::size_t i) {
    return i < steps.first ? 0 : i < steps.second ? one : two;
  });
  double by_ramp = std::numeric_limits<double>::infinity();
  for (std::size_t begin = 0; begin <= steps.first + 1; ++begin) {
    for (std::size_t end = std::max(steps.second, begin + 3); end < nights.size(); ++end) {
      const double level = median_between(nights, end, nights.size());
      const auto length = static_cast<double>(end - begin + 1);
      by_ramp = std::min(
          by_ramp, misfit(nights, steps.sigma, [&](std::size_t i) {
            return i < begin ? 0 : i >= end ? level : level * static_cast<double>(i - begin + 1) / length;
          }));
    }
  }
  return by_ramp < by_steps + least_gain;
}

void describe_size(const SizedChange& sized, const ChangeRule& rule, LevelChange& change) {
  const std::size_t nights = rule.nights_of_size;
  // A change is told on nights at which it looks large. Later nights do not have that fault.
  const bool later = sized.nights_told > 0 && sized.after.size() >= sized.nights_told + nights;
  const std::size_t gap = later ? sized.nights_told : 0;
  const auto after = sized.after.subspan(gap, std::min(nights, sized.after.size() - gap));
  const auto before = sized.before.last(std::min(nights, sized.before.size()));
  const double centre = median_night({before.begin(), before.end()});
  const double shift = median_night({after.begin(), after.end()}) - centre;
  change.before = std::exp(centre);
  change.after = std::exp(centre + shift);
  change.ratio = std::exp(shift);
  change.large = std::abs(change.ratio - 1) >= rule.large_shift;

  const double drift = drift_of(sized.before, sized.level) *
                       (static_cast<double>(before.size() + after.size()) / 3 + static_cast<double>(gap));
  const double error = std::hypot(sized.level.standard_error(before.size(), after.size()), std::sqrt(drift));
  const double reach = sized.level.reach(0.05) * error;
  double near = std::abs(shift) - reach, far = std::abs(shift) + reach;
  if (sized.nights_told > 0 && !later) {
    const double when_told = sized.level.standard_error(sized.level.nights, sized.nights_told);
    const double share =
        std::min(1.0, static_cast<double>(sized.nights_told) / static_cast<double>(after.size()));
    near = truth_of(near, sized.least_told, when_told, share);
    far = truth_of(far, sized.least_told, when_told, share);
  }
  change.ci = shift < 0 ? Interval{std::exp(-far), std::exp(-near)} : Interval{std::exp(near), std::exp(far)};
}

std::pair<std::size_t, std::size_t> range_of_first(std::span<const double> nights, std::size_t first,
                                                   const NightLevel& before, double shift) {
  constexpr std::size_t around = 10;
  constexpr double least_misfit = 6;  // of 95 % of first nights where the shift is a few sigmas
  const std::size_t begin = first - std::min(first, around), end = std::min(nights.size(), first + around);
  // Each night that changes sides is nearer to one of the levels.
  const auto gain = [&](std::size_t night) {
    const auto one = nights.subspan(night, 1);
    return misfit(one, before.sigma, [&](std::size_t) { return before.centre + shift; }) -
           misfit(one, before.sigma, [&](std::size_t) { return before.centre; });
  };
  const double limit = least_misfit * before.inflation();
  std::pair<std::size_t, std::size_t> range(first, first);
  double worse = 0;
  for (std::size_t i = first; i-- > begin;) {
    worse += gain(i);
    if (worse < limit) { range.first = i; }
  }
  worse = 0;
  for (std::size_t i = first; i + 1 < end; ++i) {
    worse -= gain(i);
    if (worse < limit) { range.second = i + 1; }
  }
  return range;
}

}  // namespace virtrain::results
