#include "results/changes/series_noise.h"

#include <algorithm>
#include <cmath>

#include "results/changes/night_level.h"
#include "results/statistics/statistics.h"

namespace virtrain::results {
namespace {

/// Nights [begin, end) of a level.
struct LevelNights {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

/// The levels of a series, the oldest first; the last one is the present one.
std::vector<LevelNights> levels_of(std::size_t nights, std::span<const LevelChange> changes) {
  struct Move {
    std::size_t from = 0;  ///< first night that is not at the old level any more
    std::size_t to = 0;    ///< first night of the new one
  };
  std::vector<Move> moves;
  for (const auto& change : changes) {
    if (!change.confirmed_on) {
      nights = std::min(nights, change.first);
      continue;
    }
    moves.push_back({change.first, change.settled});
    if (change.back_since) { moves.push_back({*change.back_since, *change.back_since}); }
  }
  std::ranges::sort(moves, {}, &Move::from);
  std::vector<LevelNights> levels{{0, nights}};
  for (const auto& [from, to] : moves) {
    levels.back().end = from;
    levels.push_back({to, nights});
  }
  return levels;
}

/// The present level, or the last one before it that has nights enough to know its noise.
LevelNights level_of_noise(const std::vector<LevelNights>& levels, std::size_t least) {
  const auto known = std::find_if(levels.rbegin(), levels.rend(),
                                  [&](const LevelNights& one) { return one.size() >= least; });
  return known == levels.rend() ? levels.front() : *known;
}

/// The split of the nights after which each is farther from the one before it, if chance does not make that.
std::optional<std::size_t> noisier_from(std::span<const double> logs, const NightLevel& level) {
  constexpr std::size_t least = 10;
  constexpr double most_in_sigmas = 5, least_growth = 1.5, least_t = 4.5;
  if (logs.size() < 3 * least) { return std::nullopt; }
  std::vector<double> distances;
  for (std::size_t i = 1; i < logs.size(); ++i) {
    distances.push_back(std::min(std::abs(logs[i] - logs[i - 1]) / level.sigma, most_in_sigmas));
  }
  std::optional<std::size_t> found;
  double largest = least_t;
  for (std::size_t split = 2 * least; split + least <= distances.size(); ++split) {
    const std::span<const double> before(distances.data(), split),
        after = std::span(distances).subspan(split);
    if (mean(after) < least_growth * mean(before)) { continue; }
    const auto test = welch_test(before, after);
    if (test.t && *test.t > largest) {
      largest = *test.t;
      found = split + 1;
    }
  }
  return found;
}

void add_least_losses(const NightLevel& level, const ChangeRule& rule, SeriesNoise& noise) {
  // Four of five by simulation: the last nights have to be there one by one, too.
  constexpr double at_once = 1.5, later = 1.0;
  const auto least = [&](std::size_t nights, double alpha, double sure) {
    const double error = level.standard_error(std::max(level.nights, rule.least_history), nights);
    const double shift = std::max(level.reach(alpha) * error, -std::log1p(-rule.least_shift));
    return -std::expm1(-std::max(shift + sure * error, 1.5 * level.step));
  };
  noise.least_loss_3_nights = least(3, rule.alpha_at_once, at_once);
  noise.least_loss_15_nights = least(15, rule.alpha, later);
}

/// Where a level ends elsewhere than it began, though no night was told as a change.
void add_drift(std::span<const double> logs, std::size_t begin, const ChangeRule& rule, SeriesNoise& noise) {
  const std::size_t part = rule.most_history;
  if (logs.size() < 2 * part) { return; }
  const auto first = night_level(logs.first(part)), last = night_level(logs.last(part));
  const double shift = last.centre - first.centre;
  if (std::abs(std::expm1(shift)) < rule.least_shift) { return; }
  if (std::abs(shift) < first.reach(rule.alpha) * first.standard_error(part, part)) { return; }
  noise.drift_since = begin;
  noise.drift_ratio = std::exp(shift);
}

}  // namespace

SeriesNoise series_noise(std::span<const double> nights, std::span<const LevelChange> changes,
                         const ChangeRule& rule) {
  const auto levels = levels_of(nights.size(), changes);
  const auto present = levels.back();
  std::vector<double> logs;
  for (const double value : nights) { logs.push_back(std::log(value)); }
  const auto all = std::span<const double>(logs).subspan(present.begin, present.size());
  SeriesNoise noise;
  noise.nights = all.size();
  const bool has_former = present.begin > 0;
  const std::size_t needed =
      rule.nights_to_confirm + (has_former ? rule.nights_to_confirm : rule.least_history);
  noise.nights_to_go = needed - std::min(needed, all.size());
  if (all.size() < rule.least_history && !has_former) { return noise; }
  // A level of a few nights has the noise of the one before it.
  const auto former = level_of_noise(levels, rule.least_history);
  const auto known = std::span<const double>(logs).subspan(former.begin, former.size());
  constexpr std::size_t most_nights_of_noise = 400;  // each is tried as the first noisier one
  const auto level = night_level(known.last(std::min(known.size(), rule.most_history)));
  noise.sigma = level.sigma;
  if (level.step > 0) { noise.step = level.step; }
  add_least_losses(level, rule, noise);
  const std::size_t older = all.size() - std::min(all.size(), most_nights_of_noise);
  if (const auto split = noisier_from(all.subspan(older), level)) {
    noise.noisier_since = present.begin + older + *split;
    noise.sigma_before = night_level(all.subspan(older, *split)).sigma;
    noise.sigma = std::max(level.sigma, night_level(all.subspan(older + *split)).sigma);
  }
  add_drift(all, present.begin, rule, noise);
  return noise;
}

}  // namespace virtrain::results
