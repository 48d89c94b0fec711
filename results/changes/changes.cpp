#include "results/changes/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "common/text/sha256.h"
#include "common/text/text.h"
#include "results/changes/level_changes.h"
#include "results/changes/scenario_version.h"
#include "results/statistics/statistics.h"

namespace virtrain::results {
namespace {

std::string id_of(const Series& series, std::size_t first) {
  constexpr std::size_t digits = 8;
  return sha256(series.key() + "\n" + series.version + "\n" + series.nights[first]->experiment)
      .substr(0, digits);
}

ChangeState state_of(const LevelChange& level, const Series& series, bool acknowledged) {
  if (acknowledged) { return ChangeState::acknowledged; }
  if (level.mended_on) { return ChangeState::mended; }
  if (!series.current) { return ChangeState::superseded; }
  return level.confirmed_on ? ChangeState::open : ChangeState::unconfirmed;
}

/// When somebody accepted a change: how many nights of the series were known. Nights are counted from its
/// first on, so that a clock that jumps earlier or later makes no difference.
Accepted acceptance(const Series& series, std::size_t first, const Acknowledgement& one) {
  std::size_t nights = first + 1;
  while (nights < series.nights.size() && series.nights[nights]->started_at <= one.acknowledged_at) {
    ++nights;
  }
  return {nights};
}

}  // namespace

std::vector<Change> find_changes(std::span<const Series> series,
                                 std::span<const Acknowledgement> acknowledgements, const ChangeRule& rule) {
  std::map<std::string, Acknowledgement> reasons;
  for (const auto& one : acknowledgements) { reasons[one.change] = one; }
  std::vector<Change> changes;
  for (const auto& one : series) {
    const auto accepted = [&](std::size_t first) -> std::optional<Accepted> {
      const auto reason = reasons.find(id_of(one, first));
      if (reason == reasons.end()) { return std::nullopt; }
      return acceptance(one, first, reason->second);
    };
    for (const auto& level : level_changes(one.values, rule, accepted)) {
      const auto id = id_of(one, level.first);
      const auto reason = reasons.find(id);
      Change change;
      change.id = id;
      change.state = state_of(level, one, reason != reasons.end());
      change.series = &one;
      change.level = level;
      change.regression = (level.ratio < 1) == one.higher_is_better();
      if (reason != reasons.end()) { change.why = reason->second.why; }
      changes.push_back(std::move(change));
    }
  }
  // Who takes a level for the new normal takes what has led there.
  for (auto one = changes.begin(); one != changes.end(); ++one) {
    if (one->state != ChangeState::acknowledged) { continue; }
    for (auto earlier = changes.begin(); earlier != one; ++earlier) {
      if (earlier->series != one->series || earlier->state != ChangeState::open) { continue; }
      earlier->state = ChangeState::acknowledged;
      earlier->why = one->why;
    }
  }
  std::ranges::stable_sort(changes, [](const Change& a, const Change& b) {
    return a.first_night().number < b.first_night().number;
  });
  return changes;
}

bool is_alarm(const Change& change) {
  return change.state == ChangeState::open && change.regression;
}

std::string change_percent(double ratio) {
  return fmt::format("{:+.1f} %", (ratio - 1) * 100);
}

std::string day_words(const Night& night) {
  constexpr std::size_t date_bytes = 10;
  return night.started_at.empty() ? night.experiment : night.started_at.substr(0, date_bytes);
}

std::string change_sentence(const Change& change) {
  const auto& level = change.level;
  const auto interval =
      level.ci && level.confirmed_on
          ? fmt::format(" ({} to {})", change_percent(level.ci->low), change_percent(level.ci->high))
          : "";
  return fmt::format("{}{}, {}, since {}, {}", change_percent(level.ratio), interval,
                     change.regression ? "worse" : "better", day_words(change.first_night()),
                     to_string(change.state));
}

namespace {

/// Without the nights of changes that were mended or are not certain, and those before a change that lasts.
std::vector<double> nights_at_level(const Series& series, const std::vector<const Change*>& changes,
                                    const ChangeRule& rule) {
  std::vector<bool> counts(series.values.size(), true);
  const auto leave_out = [&](std::size_t begin, std::size_t end) {
    std::fill(counts.begin() + static_cast<std::ptrdiff_t>(begin),
              counts.begin() + static_cast<std::ptrdiff_t>(end), false);
  };
  for (const Change* change : changes) {
    const auto& level = change->level;
    if (level.back_since) {
      leave_out(level.first, *level.back_since);
    } else if (level.confirmed_on) {
      leave_out(0, level.settled);
    } else {
      leave_out(level.first, counts.size());
    }
  }
  std::vector<double> values;
  for (std::size_t i = series.values.size(); i-- > 0 && values.size() < rule.most_history;) {
    if (counts[i]) { values.push_back(series.values[i]); }
  }
  return values;
}

SeriesVerdict verdict_of(const SeriesState& state) {
  if (state.changes.empty()) { return SeriesVerdict::level; }
  if (!state.open_losses.empty()) { return SeriesVerdict::loss; }  // whatever the newest night says
  const auto last = state.changes.back()->state;
  if (last == ChangeState::unconfirmed) { return SeriesVerdict::unconfirmed; }
  return last == ChangeState::open ? SeriesVerdict::gain : SeriesVerdict::level;
}

}  // namespace

std::vector<SeriesState> series_states(const ChangeLog& log, const ChangeRule& rule) {
  std::map<const Series*, std::vector<const Change*>> changes;
  for (const auto& change : log.changes) { changes[change.series].push_back(&change); }
  std::vector<SeriesState> states;
  for (std::size_t i = 0; i < log.series.size(); ++i) {
    const auto& series = log.series[i];
    if (!series.current || series.values.empty()) { continue; }
    SeriesState state;
    state.series = &series;
    if (i < log.noise.size()) { state.noise = log.noise[i]; }
    state.changes = changes[&series];
    std::ranges::sort(state.changes,
                      [](const Change* a, const Change* b) { return a->level.first < b->level.first; });
    std::copy_if(state.changes.begin(), state.changes.end(), std::back_inserter(state.open_losses),
                 [](const Change* change) { return is_alarm(*change); });
    state.verdict = verdict_of(state);
    const auto values = nights_at_level(series, state.changes, rule);
    state.level = values.empty() ? series.values.back() : quantile(values, 0.5);
    states.push_back(std::move(state));
  }
  return states;
}

namespace {

/// "1024,8" as "8+1024".
std::string sorted_sizes(const std::string& sizes) {
  auto all = split(sizes, ',');
  std::ranges::sort(all, [](const std::string& one, const std::string& other) {
    return std::pair(one.size(), one) < std::pair(other.size(), other);
  });
  return fmt::format("{}", fmt::join(all, "+"));
}

}  // namespace

std::string Series::figure_name() const {
  return figure + (imported && is_one_of_two ? " (imported)" : "");
}

std::string Series::name() const {
  return key().substr(0, key().size() - figure.size()) + figure_name();
}

std::string Series::key() const {
  return fmt::format("{}/{}{}{}/{}", scenario, case_name, case_name.empty() ? "" : "/", arm, figure);
}

std::vector<Series> series_of(std::span<const Night> nights, std::span<const NightFigure> figures) {
  std::map<std::int64_t, std::vector<const NightFigure*>> figures_of;
  for (const auto& figure : figures) {
    if (std::isfinite(figure.value) && figure.value > 0) { figures_of[figure.night].push_back(&figure); }
  }
  std::map<std::string, std::string> versions;  // of texts: most nights have the same
  // Version of each scenario, of nights that ran here and of imported ones, which are series of their own.
  std::map<std::pair<std::string, bool>, std::string> present;
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string, bool>;
  std::map<Key, std::size_t> places;
  // A mean over other sizes, with other settings or in another unit is another figure of the same name.
  std::map<Key, std::string> first_sizes, first_apart, first_units;
  std::vector<Series> all;
  for (const auto& night : nights) {
    const auto of_night = figures_of.find(night.number);
    if (of_night == figures_of.end()) { continue; }
    auto& version = versions[night.scenario_text];
    if (version.empty()) { version = scenario_version(night.scenario_text); }
    const bool imported = night.imported || night.host_name.empty();
    present[{night.scenario, imported}] = version;
    for (const auto* figure : of_night->second) {
      Key key{night.scenario, version, figure->case_name, figure->arm, figure->figure, imported};
      auto& name = std::get<4>(key);
      const auto keep_apart = [&](auto& first, const std::string& value, const std::string& ending) {
        if (first.try_emplace(key, value).first->second != value) { name += ending; }
      };
      const auto sizes = sorted_sizes(figure->sizes);
      keep_apart(first_sizes, sizes, "." + (sizes.empty() ? "no-size" : sizes));
      keep_apart(first_apart, figure->apart, figure->apart.empty() ? ".not-said" : figure->apart);
      keep_apart(first_units, figure->unit, " in " + figure->unit);
      const auto [place, fresh] = places.try_emplace(key, all.size());
      if (fresh) {
        all.push_back({night.scenario, version, true, imported, false, figure->case_name, figure->arm,
                       figure->kind, name, figure->unit});
      }
      all[place->second].nights.push_back(&night);
      all[place->second].values.push_back(figure->value);
    }
  }
  std::map<std::string, std::set<bool>> kinds;
  for (auto& series : all) {
    series.current = present.at({series.scenario, series.imported}) == series.version;
    kinds[series.key()].insert(series.imported);
  }
  for (auto& series : all) { series.is_one_of_two = kinds.at(series.key()).size() > 1; }
  return all;
}

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
