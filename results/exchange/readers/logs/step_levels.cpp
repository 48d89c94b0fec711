#include "results/exchange/readers/logs/step_levels.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace virtrain::results {
namespace {

constexpr std::ptrdiff_t fewest_blocks = 3;  // of a level
constexpr std::ptrdiff_t most_blocks = 200;  // that a log is parted into
constexpr double least_share = 0.1;          // of the log, of a level
constexpr double short_share = 0.25;         // a level below it must differ by more
constexpr double most_astray = 0.1;          // of a level's blocks: pauses, single slow steps
constexpr double fallen = 0.75;              // of the first level: where the second one is at most
constexpr double fallen_far = 0.5;           // likewise, of levels of few blocks and of passing ones
constexpr double least_distance = 4;         // between levels, in standard deviations within them

using Speeds = std::vector<StepSpeed>;

double median_of_speeds(Speeds::const_iterator begin, Speeds::const_iterator end) {
  std::vector<double> speeds;
  for (auto one = begin; one != end; ++one) { speeds.push_back(one->speed); }
  const auto middle = speeds.begin() + std::ssize(speeds) / 2;
  std::ranges::nth_element(speeds, middle);
  return *middle;
}

/// Medians of as many lines each, which single slow steps do not move.
Speeds blocks_of(const Speeds& speeds) {
  const auto size = (std::ssize(speeds) + most_blocks - 1) / most_blocks;
  Speeds blocks;
  for (auto begin = speeds.begin(); begin != speeds.end();) {
    const auto end = begin + std::min(size, std::distance(begin, speeds.end()));
    blocks.push_back({median_of_speeds(begin, end), begin->line});
    begin = end;
  }
  return blocks;
}

/// How many blocks of a level may be of another.
std::ptrdiff_t astray(std::ptrdiff_t blocks) {
  return std::max<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(most_astray * static_cast<double>(blocks)));
}

/// Some blocks of a log that follow each other.
struct Stretch {
  Speeds::const_iterator begin, end;
  std::ptrdiff_t size() const { return std::distance(begin, end); }
  double level() const { return median_of_speeds(begin, end); }
};

/// The distance of each block from its level, as the logarithm of a ratio.
void add_deviations(const Stretch& stretch, Speeds& deviations) {
  const double level = stretch.level();
  for (auto one = stretch.begin; one != stretch.end; ++one) {
    deviations.push_back({std::abs(std::log(one->speed / level)), 0});
  }
}

/// Whether the blocks have two levels, the lower one at most `ratio` of the higher, and hardly a block is on
/// the other's side of the middle.
bool are_two_levels(const Stretch& higher, const Stretch& lower, double ratio) {
  const double high = higher.level(), low = lower.level(), middle = std::sqrt(high * low);
  if (low > ratio * high) { return false; }
  const auto below = [&](const StepSpeed& one) { return one.speed <= middle; };
  const auto strays = lower.size() - std::count_if(lower.begin, lower.end, below);
  if (std::count_if(higher.begin, higher.end, below) > astray(higher.size())) { return false; }
  if (strays > (lower.size() < 10 ? 0 : astray(lower.size()))) { return false; }
  Speeds deviations;
  add_deviations(higher, deviations);
  add_deviations(lower, deviations);
  constexpr double deviation_of_median = 1.4826;  // of a normal distribution
  const double spread = deviation_of_median * median_of_speeds(deviations.begin(), deviations.end());
  return std::log(high / low) >= least_distance * spread;
}

/// At least this part of the blocks, and this many.
std::ptrdiff_t blocks_in(const Speeds& blocks, double share, std::ptrdiff_t fewest) {
  return std::max(fewest, static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(blocks.size()))));
}

/// The fall at `first`, if what is before is one level and what follows, to the end or to a recovery, a lower
/// one.
std::optional<SpeedFall> fall_at(const Speeds& blocks, Speeds::const_iterator first) {
  const Stretch before{blocks.begin(), first}, after{first, blocks.end()};
  const auto least = blocks_in(blocks, least_share, fewest_blocks);
  const double level = before.level();
  if (first->speed > fallen * level || after.size() < least) { return std::nullopt; }
  const bool is_short = std::min(before.size(), after.size()) < blocks_in(blocks, short_share, 5);
  if (are_two_levels(before, after, is_short ? fallen_far : fallen)) {
    return SpeedFall{level, after.level(), first->line};
  }
  const auto is_back = [&](const StepSpeed& one) { return one.speed > fallen_far * level; };
  const Stretch passing{first, std::find_if(first, blocks.end(), is_back)};
  if (passing.size() < least || !are_two_levels(before, passing, fallen_far)) { return std::nullopt; }
  return SpeedFall{level, passing.level(), first->line};
}

/// Where a quarter of the log and more was at half the speed of the rest: that is no start any more.
std::optional<SpeedFall> rise_of(const Speeds& blocks) {
  constexpr std::ptrdiff_t fewest = 5;
  const auto least_slow = blocks_in(blocks, short_share, fewest),
             least_fast = blocks_in(blocks, least_share, fewest);
  if (std::ssize(blocks) < least_slow + least_fast) { return std::nullopt; }
  for (auto first = blocks.begin() + least_slow; std::distance(first, blocks.end()) >= least_fast; ++first) {
    const Stretch before{blocks.begin(), first}, after{first, blocks.end()};
    const double middle = std::sqrt(before.level() * after.level());
    if (first->speed <= middle || std::prev(first)->speed > middle) { continue; }
    if (are_two_levels(after, before, fallen_far)) {
      return SpeedFall{before.level(), after.level(), first->line};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<SpeedFall> find_fall(const std::vector<StepSpeed>& speeds) {
  const auto blocks = blocks_of(speeds);
  const auto least = blocks_in(blocks, least_share, fewest_blocks);
  if (std::ssize(blocks) < 2 * least) { return std::nullopt; }
  for (auto first = blocks.begin() + least; first != blocks.end(); ++first) {
    auto fall = fall_at(blocks, first);
    if (!fall) { continue; }
    // The first slow line may stand inside the block before.
    const double edge = std::sqrt(fall->before * fall->after);
    const auto end = std::ranges::find(speeds, fall->line, &StepSpeed::line);
    auto begin = end;
    while (begin != speeds.begin() && std::prev(begin)->speed < edge) { --begin; }
    while (begin != speeds.end() && begin->speed >= edge) { ++begin; }
    fall->line = begin == speeds.end() ? fall->line : begin->line;
    return fall;
  }
  return rise_of(blocks);
}

}  // namespace virtrain::results
