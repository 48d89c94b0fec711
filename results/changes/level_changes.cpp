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
};

Level level_of(std::span<const double> logs) {
  Level level;
  level.nights = logs.size();
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
  shift.df = static_cast<double>(before.nights - 1);
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
    for (auto& change : changes_) { describe(change); }
    std::vector<LevelChange> found;
    for (auto& change : changes_) { found.push_back(change.change); }
    return found;
  }

 private:
  struct Found {
    LevelChange change;
    Nights before;
    Nights after;
  };

  std::vector<double> values(const Nights& nights) const {
    std::vector<double> result;
    for (const auto night : nights) { result.push_back(logs_[night]); }
    return result;
  }
  std::vector<double> history(const Nights& nights, std::size_t end) const {
    const std::size_t begin = end - std::min(end, rule_.most_history);
    return values({nights.begin() + static_cast<std::ptrdiff_t>(begin),
                   nights.begin() + static_cast<std::ptrdiff_t>(end)});
  }

  /// Whether the last nights are back where they were before the open change; then they go on with that.
  bool mended() {
    if (!open_ || level_.size() < 2 * rule_.nights_to_confirm) { return false; }
    auto& found = changes_.back();
    if (accepted_ && accepted_(found.change.first)) { return false; }
    const double old = level_of(history(found.before, found.before.size())).centre;
    const double half = 0.5;
    const auto after = values(level_);
    const auto back = after.end() - static_cast<std::ptrdiff_t>(rule_.nights_to_confirm);
    const double shift = median({after.begin(), back}) - old;
    if (!std::all_of(back, after.end(), [&](double value) { return (value - old) / shift < half; })) {
      return false;
    }
    found.change.mended_on = level_.back();
    const auto split = level_.end() - static_cast<std::ptrdiff_t>(rule_.nights_to_confirm);
    found.after.assign(level_.begin(), split);
    Nights whole = found.before;
    whole.insert(whole.end(), split, level_.end());
    level_ = std::move(whole);
    open_ = false;
    return true;
  }

  void look_for_change(std::size_t night) {
    const std::size_t n = level_.size();
    if (n < rule_.least_history + rule_.nights_to_confirm) { return; }
    const Level usual = level_of(history(level_, n - rule_.nights_to_confirm));
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
        const auto tau = level_.begin() + static_cast<std::ptrdiff_t>(begin + point);
        Found found;
        found.change.first = *tau;
        found.change.confirmed_on = night;
        found.before.assign(level_.begin(), tau);
        changes_.push_back(found);
        level_.erase(level_.begin(), tau);
        open_ = true;
        return;
      }
    }
  }

  bool confirms(std::size_t tau) const {
    const std::size_t n = level_.size();
    if (tau < rule_.least_history || n - tau < rule_.nights_to_confirm) { return false; }
    const auto all = values(level_);
    const std::span<const double> after = std::span(all).subspan(tau);
    const Level before = level_of(history(level_, tau));
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
    if (n < rule_.least_history + 1) { return; }
    const std::size_t most = std::min(rule_.nights_to_confirm - 1, n - rule_.least_history);
    const Level usual = level_of(history(level_, n - most));
    std::size_t odd = 0;
    const auto far = [&](std::size_t i) { return (logs_[level_[i]] - usual.centre) / usual.sigma; };
    while (odd < most && std::abs(far(n - 1 - odd)) > odd_in_sigmas && far(n - 1 - odd) * far(n - 1) > 0) {
      ++odd;
    }
    if (odd == 0 || std::abs(std::expm1(logs_.back() - usual.centre)) < rule_.least_shift) { return; }
    Found found;
    found.change.first = level_[n - odd];
    found.before.assign(level_.begin(), level_.end() - static_cast<std::ptrdiff_t>(odd));
    level_.erase(level_.begin(), level_.end() - static_cast<std::ptrdiff_t>(odd));
    changes_.push_back(found);
    open_ = true;
  }

  void describe(Found& found) const {
    if (found.after.empty()) {
      // Up to the next change's first night, or to the end.
      const bool last = &found == &changes_.back();
      const auto& next = last ? level_ : (&found + 1)->before;
      for (const auto night : next) {
        if (night >= found.change.first) { found.after.push_back(night); }
      }
    }
    const Level before = level_of(history(found.before, found.before.size()));
    const auto after = values(found.after);
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
  Nights level_;       ///< nights of the present level, the oldest first
  bool open_ = false;  ///< the last change can still be mended
  std::vector<Found> changes_;
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
