#include "results/changes/level_changes.h"

#include <boost/math/distributions/students_t.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "results/statistics/change_points.h"
#include "results/statistics/statistics.h"

namespace virtrain::results {
namespace {

/// Nights around two changes in one direction, as distances from the level before both.
struct TwoSteps {
  std::span<const double> nights;
  std::size_t first = 0;   ///< first night after the first change
  std::size_t second = 0;  ///< and after the second
  double sigma = 0;        ///< of one night
};

/// A change as it is described: which nights, and how certain it became when it was told.
struct SizedChange {
  NightLevel level;                ///< before, as it was known when the change was told
  std::span<const double> before;  ///< all nights of that level, the oldest first
  std::span<const double> after;   ///< of the new one
  std::size_t nights_told = 0;     ///< nights of `after` when it was told; 0: it was not
  double least_told = 0;           ///< a smaller shift would not have been
};

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

/// Whether the nights moved to the last level gradually rather than by two steps.
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

/// Centres on both sides, ratio and interval; of `rule.nights_of_size` nights a side, so that slow drift does
/// not count as a part of the change.
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

/// First nights that fit nearly as well as `first`: the nights between which the change lies.
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

using Nights = std::vector<std::size_t>;

constexpr double fence_in_sigmas = 5;  // further out a night is as odd as it can be
constexpr double odd_in_sigmas = 4;    // of one night that is shown as unconfirmed

/// One series, read night by night.
class Replay {
 public:
  Replay(std::vector<double> logs, const ChangeRule& rule, const AcceptedChanges& accepted)
      : logs_(std::move(logs)), rule_(rule), accepted_(accepted) {}

  std::vector<LevelChange> run() {
    for (std::size_t night = 0; night < logs_.size(); ++night) {
      level_.push_back(night);
      look_for_change(night);
    }
    note_odd_nights();
    std::vector<LevelChange> found;
    for (auto& change : changes_) {
      describe(change);
      found.push_back(change.change);
    }
    return found;
  }

 private:
  struct Found {
    LevelChange change;
    std::vector<double> before;      ///< the nights
    NightLevel level;                ///< of those nights, as it was known when they ended
    std::optional<std::size_t> end;  ///< first night that is not at the new level any more
    double shift = 0;                ///< as it was known when it was told
    double least_told = 0;           ///< a smaller one would not have been
  };
  struct Shift {
    double size = 0;
    double least_told = 0;
    bool can_mend = false;  ///< it is certain enough to call an old level back
  };

  std::vector<double> values(std::size_t begin, std::size_t end) const {
    std::vector<double> result;
    for (std::size_t i = begin; i < end; ++i) { result.push_back(logs_[level_[i]]); }
    return result;
  }
  /// The normal level before the night `end` of the present level. Few nights tell where a level is and not
  /// how noisy it is: they have the noise of the level that they left.
  NightLevel level_before(std::size_t end) const {
    auto level = night_level(values(end - std::min(end, rule_.most_history), end));
    if (end < rule_.least_history && noise_) { level.take_noise_of(*noise_); }
    return level;
  }
  /// Nights that have to lie before a change of the present level.
  std::size_t least_before() const { return noise_ ? rule_.nights_to_confirm : rule_.least_history; }

  void look_for_change(std::size_t night) {
    for (const std::size_t tau : candidates()) {
      const auto shift = confirmed_shift(tau);
      if (!shift) { continue; }
      if (const auto place = taken_back_by(shift->size)) {
        if (!shift->can_mend) { continue; }
        return mend(*place, tau, night);
      }
      if (std::abs(std::expm1(shift->size)) < rule_.least_shift) { continue; }
      if (continues_ramp(tau, shift->size, night)) { return go_on_from(tau, shift->size); }
      begin_level(tau, *shift);
      changes_.back().change.confirmed_on = night;
      return;
    }
  }

  /// Where a new level may have begun, the latest first.
  Nights candidates() const {
    const std::size_t n = level_.size();
    if (n < least_before() + rule_.nights_to_confirm) { return {}; }
    const auto usual = level_before(n - rule_.nights_to_confirm);
    const auto off = [&](std::size_t i) { return (logs_[level_[i]] - usual.centre) / usual.sigma; };
    // Cheap, and nearly always the end of it.
    constexpr double least_off = 0.7;
    for (std::size_t i = n - rule_.nights_to_confirm; i < n; ++i) {
      if (std::abs(off(i)) < least_off || off(i) * off(n - 1) < 0) { return {}; }
    }
    const std::size_t begin = n - std::min(n, rule_.most_history + 5);
    std::vector<double> fenced;
    for (std::size_t i = begin; i < n; ++i) {
      fenced.push_back(std::clamp(off(i), -fence_in_sigmas, fence_in_sigmas));
    }
    Nights found;
    for (const auto point : weak_change_points(fenced, {fenced.size(), 0.001})) {
      found.insert(found.begin(), begin + point);
    }
    return found;
  }

  /// The shift from the nights before tau to those since, if chance and the series' own odd nights do not
  /// explain it.
  std::optional<Shift> confirmed_shift(std::size_t tau) const {
    const std::size_t n = level_.size();
    const bool at_once = n - tau == rule_.nights_to_confirm;
    if (tau < least_before() || n - tau < rule_.nights_to_confirm) { return std::nullopt; }
    const auto before = noise_now(tau, at_once ? 2 : 1.5);
    const auto after = values(tau, n);
    Shift shift{median_night(after) - before.centre};
    const double least_move = std::max(std::log1p(rule_.least_shift / 2), 1.5 * before.step);
    if (std::abs(shift.size) < least_move || !lasts(after, before.centre, shift.size)) {
      return std::nullopt;
    }
    const double error = before.standard_error(before.nights, after.size());
    shift.least_told = before.reach(at_once ? rule_.alpha_at_once : rule_.alpha) * error;
    if (std::abs(shift.size) < shift.least_told) { return std::nullopt; }
    if (!is_rare(tau, before.centre, shift.size)) { return std::nullopt; }
    shift.least_told = std::max(shift.least_told, rule_.least_shift);
    shift.can_mend = std::abs(shift.size) >= before.reach(rule_.mending_alpha) * error;
    return shift;
  }

  /// The normal level before that night, with the noise of the last nights where that has grown.
  NightLevel noise_now(std::size_t tau, double noisier) const {
    constexpr std::size_t last_nights = 13;
    constexpr double df = 12;
    auto level = level_before(tau);
    const auto steps_of = [&](std::size_t end, std::size_t nights) {
      return sigma_of_steps(values(end - std::min(end, nights), end));
    };
    const double usual = std::max(level.sigma, steps_of(tau, rule_.most_history));
    const double growth = steps_of(level_.size(), last_nights) / usual;
    if (growth > noisier) {
      level.sigma *= growth;
      level.df = std::min(level.df, df);
    }
    return level;
  }

  /// Whether the last nights are all there, so that two outliers and an ordinary night are no change.
  bool lasts(const std::vector<double>& after, double centre, double shift) const {
    constexpr double least_share = 0.6;
    return std::all_of(after.end() - static_cast<std::ptrdiff_t>(rule_.nights_to_confirm), after.end(),
                       [&](double value) { return (value - centre) / shift >= least_share; });
  }

  /// Whether such nights did not come now and then before, as where one in five is slower.
  bool is_rare(std::size_t tau, double centre, double shift) const {
    constexpr std::size_t most_before = 120;
    const std::size_t n = level_.size(), before = std::min(tau, most_before), after = n - tau;
    const auto beyond = [&](std::size_t begin, std::size_t end) {
      return static_cast<std::size_t>(
          std::count_if(level_.begin() + static_cast<std::ptrdiff_t>(begin),
                        level_.begin() + static_cast<std::ptrdiff_t>(end),
                        [&](std::size_t night) { return (logs_[night] - centre) / shift >= 0.5; }));
    };
    // Few nights cannot show it: there one such night before is allowed.
    const double least = chance_of_gathering(1, before, rule_.nights_to_confirm, rule_.nights_to_confirm);
    const double rarity = after == rule_.nights_to_confirm ? rule_.rarity_at_once : rule_.rarity;
    return chance_of_gathering(beyond(tau - before, tau), before, beyond(tau, n), after) <=
           std::max(rarity, least);
  }

  /// Who takes a level for the new normal takes what has led there.
  std::optional<Accepted> acceptance_of(std::size_t place) const {
    if (!accepted_) { return std::nullopt; }
    for (std::size_t i = place; i < lasting_.size(); ++i) {
      if (auto found = accepted_(changes_[lasting_[i]].change.first)) { return found; }
    }
    return std::nullopt;
  }

  /// The oldest change that lasts and would not with this shift, which then takes back what came after it as
  /// well. Shifts are added up, for levels of long ago have drifted.
  std::optional<std::size_t> taken_back_by(double shift) const {
    const double half = 0.5;
    for (std::size_t place = 0; place < lasting_.size(); ++place) {
      const double own = changes_[lasting_[place]].shift;
      if (own * shift > 0 || acceptance_of(place)) { continue; }
      double left = shift;
      for (std::size_t i = place; i < lasting_.size(); ++i) { left += changes_[lasting_[i]].shift; }
      // Beyond the old level is back as well, unless it is a later change that has led there.
      const bool is_last = place + 1 == lasting_.size();
      if (left / own < half && (is_last || left / own > -half)) { return place; }
    }
    return std::nullopt;
  }

  void mend(std::size_t place, std::size_t tau, std::size_t night) {
    end_last_level(level_[tau]);
    for (std::size_t i = place; i < lasting_.size(); ++i) {
      changes_[lasting_[i]].change.mended_on = night;
      changes_[lasting_[i]].change.back_since = level_[tau];
    }
    noise_ = level_before(tau);
    lasting_.resize(place);
    leave_before(tau);
  }

  /// Whether the last change is still under way: a level that moves for some nights is one change.
  bool continues_ramp(std::size_t tau, double shift, std::size_t night) const {
    constexpr std::size_t longest = 15, nights_ahead = 3;
    if (lasting_.empty() || tau > longest) { return false; }
    const auto& last = changes_[lasting_.back()];
    const auto acceptance = acceptance_of(lasting_.size() - 1);
    if (last.shift * shift < 0 || level_.front() != last.change.settled) { return false; }
    if (acceptance && acceptance->nights <= night) { return false; }
    const std::size_t ahead = std::min(nights_ahead, last.change.first);
    const std::size_t begin = last.change.first - ahead;
    std::vector<double> distances;
    for (std::size_t i = begin; i <= night; ++i) { distances.push_back(logs_[i] - last.level.centre); }
    return is_ramp({distances, ahead, level_[tau] - begin, last.level.sigma});
  }
  void go_on_from(std::size_t tau, double shift) {
    auto& last = changes_[lasting_.back()];
    last.change.settled = level_[tau];
    last.shift += shift;
    leave_before(tau);
  }

  /// A new level from that night of the present one on.
  void begin_level(std::size_t tau, const Shift& shift) {
    end_last_level(level_[tau]);
    Found found;
    found.change.first = found.change.settled = level_[tau];
    found.before = values(0, tau);
    found.level = level_before(tau);
    found.shift = shift.size;
    found.least_told = shift.least_told;
    noise_ = found.level;
    lasting_.push_back(changes_.size());
    changes_.push_back(std::move(found));
    leave_before(tau);
  }
  void end_last_level(std::size_t night) {
    if (!lasting_.empty()) { changes_[lasting_.back()].end = changes_[lasting_.back()].end.value_or(night); }
  }
  void leave_before(std::size_t tau) {
    level_.erase(level_.begin(), level_.begin() + static_cast<std::ptrdiff_t>(tau));
  }

  /// The last nights, if they are odd and too few to say more.
  void note_odd_nights() {
    const std::size_t n = level_.size();
    if (n < least_before() + 1) { return; }
    const std::size_t most = std::min(2 * rule_.nights_to_confirm, n - least_before());
    const auto usual = level_before(n - most);
    std::size_t odd = 0;
    const auto far = [&](std::size_t i) { return (logs_[level_[i]] - usual.centre) / usual.sigma; };
    while (odd < most && std::abs(far(n - 1 - odd)) > odd_in_sigmas && far(n - 1 - odd) * far(n - 1) > 0) {
      ++odd;
    }
    if (odd == 0 || std::abs(std::expm1(logs_.back() - usual.centre)) < rule_.least_shift) { return; }
    begin_level(n - odd, {});
  }

  void describe(Found& found) const {
    auto& change = found.change;
    const std::size_t end = found.end.value_or(logs_.size());
    const std::size_t told = change.confirmed_on && *change.confirmed_on < end
                                 ? *change.confirmed_on + 1 - std::min(change.settled, *change.confirmed_on)
                                 : 0;
    const auto after = std::span(logs_).subspan(change.settled, end - change.settled);
    describe_size({found.level, found.before, after, std::min(told, after.size()), found.least_told}, rule_,
                  change);
    const double shift = std::log(change.ratio);
    std::tie(change.earliest, change.latest) = range_of_first(logs_, change.first, found.level, shift);
    // Where the level moved for some nights, it began to before it was far enough to be told.
    const std::size_t length = change.settled - change.first;
    change.earliest -= std::min(length, change.earliest);
  }

  std::vector<double> logs_;
  const ChangeRule& rule_;
  const AcceptedChanges& accepted_;
  Nights level_;                     ///< nights of the present level, the oldest first
  std::optional<NightLevel> noise_;  ///< of the level before it
  std::vector<Found> changes_;
  std::vector<std::size_t> lasting_;  ///< of these, the ones that are not mended, the oldest first
};

}  // namespace

std::vector<LevelChange> level_changes(std::span<const double> nights, const ChangeRule& rule,
                                       const AcceptedChanges& accepted) {
  require_throughputs(nights, "nights");
  std::vector<double> logs;
  for (const double value : nights) { logs.push_back(std::log(value)); }
  return Replay(std::move(logs), rule, accepted).run();
}

namespace {

constexpr double least_sigma = 0.001;        // a series that never moved is not infinitely sure
constexpr double mad_to_sigma = 1.4826;      // of normally distributed values
constexpr double median_to_mean = 1.2533;    // standard error of a median over that of a mean
constexpr double fence = 2.5;                // in sigmas: further out a night counts as this far
constexpr double fenced_variance = 0.97756;  // of normally distributed values of variance 1
constexpr double efficiency = 0.8;           // of the fenced standard deviation: its degrees of freedom

/// The smallest distance of two values, where there are few values for many nights.
double step_of(std::span<const double> logs) {
  constexpr double same = 1e-6;
  std::vector<double> sorted(logs.begin(), logs.end());
  std::ranges::sort(sorted);
  std::size_t distinct = 1;
  double least = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const double distance = sorted[i] - sorted[i - 1];
    if (distance < same) { continue; }
    ++distinct;
    least = least == 0 ? distance : std::min(least, distance);
  }
  return distinct * 3 <= logs.size() ? least : 0;
}

double fenced_sigma(std::span<const double> logs, double centre, double least) {
  const auto n = static_cast<double>(logs.size());
  std::vector<double> distances;
  for (const double value : logs) { distances.push_back(std::abs(value - centre)); }
  const double typical = std::max(least, mad_to_sigma * median_night(distances) * n / (n - 0.8));
  if (logs.size() < 2) { return typical; }
  double squares = 0;
  for (const double distance : distances) { squares += std::pow(std::min(distance / typical, fence), 2); }
  return std::max(least, typical * std::sqrt(squares / (n - 1) / fenced_variance));
}

/// A few nights hardly tell the autocorrelation: the usual one of hosts counts as much as forty of them.
double autocorrelation_of(std::span<const double> logs, const NightLevel& level) {
  constexpr double usual = 0.2, nights_of_usual = 40, most = 0.6;
  double products = 0, squares = 0;
  const auto near = [&](double value) {
    return std::clamp((value - level.centre) / level.sigma, -fence, fence);
  };
  for (std::size_t i = 0; i < logs.size(); ++i) {
    squares += near(logs[i]) * near(logs[i]);
    if (i > 0) { products += near(logs[i]) * near(logs[i - 1]); }
  }
  const double seen = squares > 0 ? products / squares : 0;
  const auto n = static_cast<double>(logs.size());
  return std::clamp((seen * n + usual * nights_of_usual) / (n + nights_of_usual), 0.0, most);
}

/// The logarithm of n choose k.
double log_choose(std::size_t n, std::size_t k) {
  const auto log_factorial = [](std::size_t i) { return std::lgamma(static_cast<double>(i) + 1); };
  return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

}  // namespace

double median_night(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

double NightLevel::standard_error(std::size_t before, std::size_t after) const {
  return sigma * median_to_mean *
         std::sqrt(inflation() * (1 / static_cast<double>(before) + 1 / static_cast<double>(after)));
}

double NightLevel::reach(double probability) const {
  return boost::math::quantile(boost::math::complement(boost::math::students_t(df), probability / 2));
}

void NightLevel::take_noise_of(const NightLevel& other) {
  sigma = other.sigma;
  autocorrelation = other.autocorrelation;
  step = other.step;
  df = other.df;
}

NightLevel night_level(std::span<const double> logs) {
  NightLevel level;
  level.nights = logs.size();
  level.centre = median_night({logs.begin(), logs.end()});
  level.step = step_of(logs);
  level.sigma = fenced_sigma(logs, level.centre, std::max(least_sigma, level.step / std::sqrt(12.0)));
  level.df = std::max(1.0, efficiency * static_cast<double>(logs.size() - 1));
  level.autocorrelation = autocorrelation_of(logs, level);
  return level;
}

double sigma_of_steps(std::span<const double> logs) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < logs.size(); ++i) { steps.push_back(std::abs(logs[i] - logs[i - 1])); }
  return steps.empty() ? 0 : mad_to_sigma * median_night(std::move(steps)) / std::sqrt(2.0);
}

double chance_of_gathering(std::size_t found_before, std::size_t before, std::size_t found_after,
                           std::size_t after) {
  const std::size_t found = found_before + found_after;
  double chance = 0;
  for (std::size_t i = found_after; i <= std::min(after, found); ++i) {
    if (found - i > before) { continue; }
    chance +=
        std::exp(log_choose(after, i) + log_choose(before, found - i) - log_choose(before + after, found));
  }
  return chance;
}

}  // namespace virtrain::results
