#include "results/changes/level_changes.h"

#include <boost/math/distributions/students_t.hpp>

#include <algorithm>
#include <cmath>

#include "results/statistics/change_points.h"

namespace virtrain::results {
namespace {

using Nights = std::vector<std::size_t>;

constexpr double least_sigma = 0.001;      // a series that never moved is not infinitely sure
constexpr double mad_to_sigma = 1.4826;    // of normally distributed values
constexpr double median_to_mean = 1.2533;  // standard error of a median over that of a mean
constexpr double most_autocorrelation = 0.6;
constexpr double fence_in_sigmas = 5;  // further out a night is as odd as it can be
constexpr double odd_in_sigmas = 4;    // of one night that is shown as unconfirmed

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

/// What is normal, robust against odd nights: on the scale of logarithms.
struct Level {
  double centre = 0;
  double sigma = 0;      ///< of one night
  double inflation = 1;  ///< of the variance of a mean, by autocorrelation
  std::size_t nights = 0;
  std::size_t nights_of_sigma = 0;
};

Level level_of(std::span<const double> logs) {
  Level level;
  level.nights = level.nights_of_sigma = logs.size();
  level.centre = median({logs.begin(), logs.end()});
  std::vector<double> distances;
  for (const double value : logs) { distances.push_back(std::abs(value - level.centre)); }
  const auto n = static_cast<double>(logs.size());
  level.sigma = std::max(least_sigma, mad_to_sigma * median(std::move(distances)) * n / (n - 0.8));
  double products = 0;
  double squares = 0;
  const auto near = [&](double value) { return std::clamp((value - level.centre) / level.sigma, -2.5, 2.5); };
  for (std::size_t i = 0; i < logs.size(); ++i) {
    squares += near(logs[i]) * near(logs[i]);
    if (i > 0) { products += near(logs[i]) * near(logs[i - 1]); }
  }
  const double r = squares > 0 ? std::clamp(products / squares, 0.0, most_autocorrelation) : 0;
  level.inflation = (1 + r) / (1 - r);
  return level;
}

/// The distance of the nights after from the level before.
struct Shift {
  double size = 0;
  double standard_error = 0;
  double df = 1;
};

Shift shift_of(const Level& before, std::span<const double> after) {
  Shift shift;
  shift.size = median({after.begin(), after.end()}) - before.centre;
  shift.standard_error = before.sigma * median_to_mean *
                         std::sqrt(before.inflation * (1 / static_cast<double>(after.size()) +
                                                       1 / static_cast<double>(before.nights)));
  shift.df = static_cast<double>(before.nights_of_sigma - 1);
  return shift;
}

/// One series, read night by night.
class Replay {
 public:
  Replay(std::vector<double> logs, const ChangeRule& rule, const std::function<bool(std::size_t)>& accepted)
      : logs_(std::move(logs)), rule_(rule), accepted_(accepted) {}

  std::vector<LevelChange> run() {
    for (std::size_t night = 0; night < logs_.size(); ++night) {
      level_.push_back(night);
      if (!mended()) { look_for_change(night); }
    }
    note_odd_nights();
    for (std::size_t change = 0; change < changes_.size(); ++change) { describe(change); }
    std::vector<LevelChange> found;
    for (auto& change : changes_) { found.push_back(change.change); }
    return found;
  }

 private:
  struct Found {
    LevelChange change;
    Nights before;
    Level level;   ///< of those nights, as it was known when they ended
    Nights after;  ///< empty: nights_since() has them
  };

  std::vector<double> values(const Nights& nights) const {
    std::vector<double> result;
    for (const auto night : nights) { result.push_back(logs_[night]); }
    return result;
  }
  /// What is normal before the night `end` of the present level. Few nights tell where a level is and not how
  /// noisy it is: they have the noise of the level that they left.
  Level level_before(std::size_t end) const {
    const std::size_t begin = end - std::min(end, rule_.most_history);
    auto level = level_of(values({level_.begin() + static_cast<std::ptrdiff_t>(begin),
                                  level_.begin() + static_cast<std::ptrdiff_t>(end)}));
    if (end >= rule_.least_history || lasting_.empty()) { return level; }
    const auto& former = changes_[lasting_.back()].level;
    level.sigma = former.sigma;
    level.inflation = former.inflation;
    level.nights_of_sigma = former.nights_of_sigma;
    return level;
  }
  /// Nights that have to lie before a change of the present level.
  std::size_t least_before() const {
    return lasting_.empty() ? rule_.least_history : rule_.nights_to_confirm;
  }
  /// Nights from a change that lasts to the next one that does.
  const Nights& nights_since(std::size_t change) const {
    const auto next = std::ranges::upper_bound(lasting_, change);
    return next == lasting_.end() ? level_ : changes_[*next].before;
  }

  /// Whether the last nights are back where they were before a change that lasts; then they go on with that,
  /// and what came after it is mended as well.
  bool mended() {
    if (lasting_.empty() || level_.size() < 2 * rule_.nights_to_confirm) { return false; }
    for (auto lasting = lasting_.begin(); lasting != lasting_.end(); ++lasting) {
      if (!is_back_before(*lasting)) { continue; }
      const auto split = level_.end() - static_cast<std::ptrdiff_t>(rule_.nights_to_confirm);
      const Nights back(split, level_.end());
      level_.erase(split, level_.end());
      for (auto one = lasting; one != lasting_.end(); ++one) {
        changes_[*one].change.mended_on = back.back();
        changes_[*one].after = nights_since(*one);
      }
      level_ = changes_[*lasting].before;
      level_.insert(level_.end(), back.begin(), back.end());
      lasting_.erase(lasting, lasting_.end());
      return true;
    }
    return false;
  }

  bool is_back_before(std::size_t change) const {
    const auto& found = changes_[change];
    if (accepted_ && accepted_(found.change.first)) { return false; }
    const bool is_last = change == lasting_.back();
    auto since = values(nights_since(change));
    if (is_last) { since.resize(since.size() - rule_.nights_to_confirm); }
    const double shift = median(std::move(since)) - found.level.centre;
    // Beyond the old level is back as well, unless it is a later change that has led there.
    const double half = 0.5;
    const auto back = level_.end() - static_cast<std::ptrdiff_t>(rule_.nights_to_confirm);
    return std::all_of(back, level_.end(), [&](std::size_t night) {
      const double share = (logs_[night] - found.level.centre) / shift;
      return share < half && (is_last || share > -half);
    });
  }

  void look_for_change(std::size_t night) {
    const std::size_t n = level_.size();
    if (n < least_before() + rule_.nights_to_confirm) { return; }
    const Level usual = level_before(n - rule_.nights_to_confirm);
    // Cheap, and nearly always the end of it.
    const auto off = [&](std::size_t i) { return (logs_[level_[i]] - usual.centre) / usual.sigma; };
    for (std::size_t i = n - rule_.nights_to_confirm; i < n; ++i) {
      if (std::abs(off(i)) < 1 || off(i) * off(n - 1) < 0) { return; }
    }
    const std::size_t begin = n - std::min(n, rule_.most_history + 5);
    std::vector<double> fenced;
    for (std::size_t i = begin; i < n; ++i) {
      fenced.push_back(std::clamp(off(i), -fence_in_sigmas, fence_in_sigmas));
    }
    auto points = weak_change_points(fenced, {fenced.size(), 0.001, 0});
    std::reverse(points.begin(), points.end());
    for (const std::size_t point : points) {
      if (confirms(begin + point)) {
        begin_level(begin + point);
        changes_.back().change.confirmed_on = night;
        return;
      }
    }
  }

  /// A new level from that night of the present one on.
  void begin_level(std::size_t tau) {
    const auto first = level_.begin() + static_cast<std::ptrdiff_t>(tau);
    Found found;
    found.change.first = *first;
    found.before.assign(level_.begin(), first);
    found.level = level_before(tau);
    lasting_.push_back(changes_.size());
    changes_.push_back(std::move(found));
    level_.erase(level_.begin(), first);
  }

  bool confirms(std::size_t tau) const {
    const std::size_t n = level_.size();
    if (tau < least_before() || n - tau < rule_.nights_to_confirm) { return false; }
    const auto all = values(level_);
    const std::span<const double> after = std::span(all).subspan(tau);
    const Level before = level_before(tau);
    const Shift shift = shift_of(before, after);
    if (std::abs(std::expm1(shift.size)) < rule_.least_shift) { return false; }
    for (const double value : after.last(rule_.nights_to_confirm)) {
      if ((value - before.centre) / shift.size < 0.6) { return false; }
    }
    const boost::math::students_t distribution(shift.df);
    return 2 * boost::math::cdf(
                   boost::math::complement(distribution, std::abs(shift.size) / shift.standard_error)) <
           rule_.alpha;
  }

  /// The last nights, if they are odd and too few to say more.
  void note_odd_nights() {
    const std::size_t n = level_.size();
    if (n < least_before() + 1) { return; }
    const std::size_t most = std::min(rule_.nights_to_confirm - 1, n - least_before());
    const Level usual = level_before(n - most);
    std::size_t odd = 0;
    const auto far = [&](std::size_t i) { return (logs_[level_[i]] - usual.centre) / usual.sigma; };
    while (odd < most && std::abs(far(n - 1 - odd)) > odd_in_sigmas && far(n - 1 - odd) * far(n - 1) > 0) {
      ++odd;
    }
    if (odd == 0 || std::abs(std::expm1(logs_.back() - usual.centre)) < rule_.least_shift) { return; }
    begin_level(n - odd);
  }

  void describe(std::size_t index) {
    auto& found = changes_[index];
    std::vector<double> after;
    for (const auto night : found.after.empty() ? nights_since(index) : found.after) {
      if (night >= found.change.first) { after.push_back(logs_[night]); }
    }
    const Level& before = found.level;
    const Shift shift = shift_of(before, after);
    auto& change = found.change;
    change.before = std::exp(before.centre);
    change.after = std::exp(before.centre + shift.size);
    change.ratio = std::exp(shift.size);
    change.large = std::abs(change.ratio - 1) >= rule_.large_shift;
    const boost::math::students_t distribution(shift.df);
    const double reach = boost::math::quantile(distribution, 0.975) * shift.standard_error;
    change.ci = Interval{std::exp(shift.size - reach), std::exp(shift.size + reach)};
  }

  std::vector<double> logs_;
  const ChangeRule& rule_;
  const std::function<bool(std::size_t)>& accepted_;
  Nights level_;  ///< nights of the present level, the oldest first
  std::vector<Found> changes_;
  std::vector<std::size_t> lasting_;  ///< of these, the ones that are not mended, the oldest first
};

}  // namespace

std::vector<LevelChange> level_changes(std::span<const double> nights, const ChangeRule& rule,
                                       const std::function<bool(std::size_t)>& accepted) {
  require_throughputs(nights, "nights");
  std::vector<double> logs;
  for (const double value : nights) { logs.push_back(std::log(value)); }
  return Replay(std::move(logs), rule, accepted).run();
}

}  // namespace virtrain::results
