#include "harness/evidence/job_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "common/error.h"
#include "common/text/units.h"
#include "results/exchange/readers/logs/step_levels.h"
#include "results/exchange/readers/logs/step_lines.h"

namespace virtrain::harness {
namespace {

using results::StepSpeed;

constexpr std::size_t fewest_figures = 3;  ///< of each source, in the window
/// Lines that come within this time of each other came at once: no step ends and is told so soon.
constexpr std::int64_t at_once_ns = 1'000'000;
/// Between ranks that do the same work, and between what a job says of its speed and of its work.
constexpr double most_rank_difference = 0.1, most_claimed_difference = 0.05;
/// A line's way from the job to its agent.
constexpr double most_line_delay_seconds = 0.25;

double job_seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

/// How many times figures came: those that came at once are one.
std::size_t arrivals_of(const std::vector<JobFigure>& figures) {
  std::size_t arrivals = 0;
  std::int64_t before = std::numeric_limits<std::int64_t>::min() / 2;
  for (const auto& one : figures) {
    if (one.t_ns - before > at_once_ns) { ++arrivals; }
    before = one.t_ns;
  }
  return arrivals;
}

/// The part of a source's figures that count: `first` only marks where their time begins.
struct Counted {
  const FigureSource* source;
  JobFigure first;
  std::vector<JobFigure> figures;
};

/// Work over time, of figures that each hold since the one before.
double mean_rate(const Counted& counted) {
  double work = 0;
  std::int64_t before = counted.first.t_ns;
  for (const auto& one : counted.figures) {
    work += one.value * job_seconds(one.t_ns - before);
    before = one.t_ns;
  }
  return work / job_seconds(before - counted.first.t_ns);
}

std::string level_doubt(const std::vector<StepSpeed>& speeds, const char* what, const std::string& unit) {
  const auto fall = results::find_fall(speeds);
  if (!fall) { return {}; }
  return fmt::format("its {} {} from about {} to {} {} at figure {}, and one mean cannot describe both", what,
                     fall->after < fall->before ? "fall" : "rise", figure_words(fall->before),
                     figure_words(fall->after), unit, fall->line);
}

/// Two levels, in what the lines say and in how fast they come.
std::vector<std::string> level_doubts(const Counted& counted, const std::string& unit) {
  std::vector<StepSpeed> said, came;
  std::int64_t before = counted.first.t_ns, number = 0;
  for (const auto& one : counted.figures) {
    said.push_back({one.value, ++number});
    came.push_back({1 / std::max(job_seconds(one.t_ns - before), 1e-6), number});
    before = one.t_ns;
  }
  std::vector<std::string> doubts;
  for (auto& doubt :
       {level_doubt(said, "figures", unit), level_doubt(came, "lines", "lines/s by the clock")}) {
    if (!doubt.empty()) { doubts.push_back(doubt); }
  }
  return doubts;
}

/// Where lines say how much was done: what that makes by the agent's clock.
std::string work_doubt(const Counted& counted, const std::string& unit) {
  const auto& last = counted.figures.back();
  if (!counted.first.work || !last.work) { return {}; }
  const double seconds = job_seconds(last.t_ns - counted.first.t_ns);
  const double by_clock = (*last.work - *counted.first.work) / seconds, said = mean_rate(counted);
  const double allowed = most_claimed_difference + most_line_delay_seconds / seconds;
  if (std::abs(said - by_clock) <= allowed * std::max(said, by_clock)) { return {}; }
  return fmt::format("says {} {} where its work by the clock is {}", figure_words(said), unit,
                     figure_words(by_clock));
}

/// Each line is of as many steps: where that is so, a line that claims twice the speed comes after half the
/// time.
std::string claim_doubt(const Counted& counted) {
  constexpr std::size_t fewest = 8;
  constexpr double most = 1.5;
  const auto half = counted.figures.size() / 2;
  if (counted.figures.size() < fewest) { return {}; }
  const auto ratio_of = [&](std::size_t begin, std::size_t end) {
    double said = 0;
    for (auto i = begin; i < end; ++i) { said += 1 / counted.figures[i].value; }
    const auto since = begin == 0 ? counted.first.t_ns : counted.figures[begin - 1].t_ns;
    return job_seconds(counted.figures[end - 1].t_ns - since) / said;
  };
  const double change = ratio_of(half, counted.figures.size()) / ratio_of(0, half);
  if (change < most && change > 1 / most) { return {}; }
  return fmt::format(
      "its figures and the clock part: a line's work by both is {} times as much in the second half",
      figure_words(change));
}

/// Whether each source said enough, and not at once; else doubts.
void check_sources(const std::vector<FigureSource>& sources, std::size_t skip,
                   std::vector<std::string>& doubts) {
  for (const auto& source : sources) {
    const auto count = source.figures.size();
    if (count == 0) {
      doubts.push_back(source.misread.count == 0
                           ? source.name + " printed no figure"
                           : fmt::format("{} printed no figure: the last line that should have one says {}",
                                         source.name, source.misread.words));
    } else if (count < std::max<std::size_t>(skip, 1) + fewest_figures) {
      doubts.push_back(fmt::format("{} printed {}, and after {} that do not count {} must be left",
                                   source.name, counted(count, "figure"), std::max<std::size_t>(skip, 1),
                                   fewest_figures));
    } else if (const auto arrivals = arrivals_of(source.figures); arrivals < count / 2 + 1) {
      doubts.push_back(
          fmt::format("{} printed {} in {}, so no clock checks them (let it print each at once: python -u, "
                      "stdbuf -oL)",
                      source.name, counted(count, "figure"), counted(arrivals, "burst")));
    }
  }
}

/// The figures of a source in the window; the last one before it marks its beginning.
Counted within(const FigureSource& source, std::int64_t begin_ns, std::int64_t end_ns) {
  Counted counted{&source, {}, {}};
  for (const auto& one : source.figures) {
    if (one.t_ns <= begin_ns) {
      counted.first = one;
    } else if (one.t_ns <= end_ns) {
      counted.figures.push_back(one);
    }
  }
  return counted;
}

/// Ranks train together: where one says another speed, it did not.
void check_alike(const std::vector<std::pair<std::string, double>>& rates, const std::string& unit,
                 std::vector<std::string>& doubts) {
  const auto [least, most] = std::ranges::minmax_element(rates, {}, &std::pair<std::string, double>::second);
  if (most->second - least->second <= most_rank_difference * most->second) { return; }
  doubts.push_back(fmt::format("{} says {} {} and {} {}, who do the same work", least->first,
                               figure_words(least->second), unit, most->first, figure_words(most->second)));
}

}  // namespace

FigureReader::FigureReader(const JobThroughput& throughput) : format_(throughput.format) {
  if (!format_) { pattern_.emplace(throughput.pattern); }
}

std::optional<JobFigure> FigureReader::read_mllog(std::string_view line, std::int64_t t_ns) {
  const auto object = results::mllog_object(line);
  const auto said = object ? rates_.take(*object) : std::nullopt;
  if (!said || !(said->rate > 0) || (rate_source_ && said->source < *rate_source_)) { return std::nullopt; }
  JobFigure figure{t_ns, said->rate};
  figure.replaces_others = rate_source_ && said->source > *rate_source_;
  rate_source_ = said->source;
  return figure;
}

std::optional<JobFigure> FigureReader::read(std::string_view line, std::int64_t t_ns) {
  if (!format_) {
    const auto found = pattern_->read(line);
    if (found && !found->figure) { misread_ = {misread_.count + 1, t_ns, found->refusal}; }
    return found && found->figure ? std::optional(JobFigure{t_ns, found->figure->value, found->figure->work})
                                  : std::nullopt;
  }
  if (*format_ == LineFormat::mllog) { return read_mllog(line, t_ns); }
  const auto reading = results::read_step(*format_, line);
  if (!reading) { return std::nullopt; }
  if (!reading->misread.empty()) {
    misread_ = {misread_.count + 1, t_ns, no_number_words(reading->misread)};
    return std::nullopt;
  }
  const auto* said = &reading->step;
  JobFigure figure{t_ns, said->speed, said->work};
  if (said->is_mean && said->steps) {
    // The mean of all steps so far: these since the line before took the rest of the time.
    const double time = *said->steps / said->speed, between = time - time_before_;
    const double steps = *said->steps - steps_before_;
    if (between <= 0 || steps <= 0) { return std::nullopt; }
    figure.value = steps / between;
    steps_before_ = *said->steps;
    time_before_ = time;
  }
  return figure;
}

JobResult judge_job(const std::vector<FigureSource>& sources, const JobThroughput& how, std::int64_t ranks) {
  JobResult result;
  const auto skip = static_cast<std::size_t>(how.skip);
  check_sources(sources, skip, result.doubts);
  if (!result.doubts.empty() || sources.empty()) { return result; }
  result.begin_ns = std::numeric_limits<std::int64_t>::min();
  result.end_ns = std::numeric_limits<std::int64_t>::max();
  for (const auto& source : sources) {
    result.begin_ns = std::max(result.begin_ns, source.figures[std::max<std::size_t>(skip, 1) - 1].t_ns);
    result.end_ns = std::min(result.end_ns, source.figures.back().t_ns);
  }
  std::vector<std::pair<std::string, double>> rates;
  for (const auto& source : sources) {
    // The figures around such a line would count for its time.
    if (source.misread.count > 0 && source.misread.last_ns > result.begin_ns) {
      result.doubts.push_back(fmt::format("{}: {} without the figure that belongs there; the last says {}",
                                          source.name, counted(source.misread.count, "line"),
                                          source.misread.words));
    }
    const auto counting = within(source, result.begin_ns, result.end_ns);
    if (counting.figures.size() < fewest_figures) {
      result.doubts.push_back(fmt::format("{} has {} in the window in which all report, of the {} needed",
                                          source.name, counted(counting.figures.size(), "figure"),
                                          fewest_figures));
      continue;
    }
    result.figures += counting.figures.size();
    rates.emplace_back(source.name, mean_rate(counting));
    auto doubts = level_doubts(counting, how.unit);
    doubts.push_back(work_doubt(counting, how.unit));
    if (doubts.size() == 1) { doubts.push_back(claim_doubt(counting)); }
    for (const auto& doubt : doubts) {
      if (!doubt.empty()) { result.doubts.push_back(fmt::format("{}: {}", source.name, doubt)); }
    }
  }
  if (rates.size() < sources.size()) { return result; }
  check_alike(rates, how.unit, result.doubts);
  for (const auto& [name, rate] : rates) { result.throughput += rate; }
  if (how.scope == FigureScope::each_rank) { result.throughput *= static_cast<double>(ranks); }
  return result;
}

std::string FigureOwner::name() const {
  return rank ? fmt::format("rank {}", *rank) : node;
}

results::Figure FigureOwner::figure(std::string name, std::string unit) const {
  results::Figure figure;
  figure.node = node;
  figure.rank = rank;
  figure.name = std::move(name);
  figure.unit = std::move(unit);
  return figure;
}

JobFigures::JobFigures(const std::vector<JobFigureLines>& rules) {
  for (const auto& lines : rules) {
    rules_.push_back({&lines, LinePattern(lines.pattern, LinePattern::Values::any)});
  }
}

std::int64_t JobFigures::counted(std::size_t rule, const Tally& tally) const {
  return std::max<std::int64_t>(0, tally.said - rules_[rule].lines->skip);
}

results::Figure JobFigures::figure_of(const Key& key) const {
  const auto& lines = *rules_[key.rule].lines;
  auto figure = key.owner.figure(lines.name, lines.unit);
  if (!key.settings.empty()) { figure.settings = key.settings; }
  return figure;
}

std::vector<results::Figure> JobFigures::take(std::string_view line, const FigureOwner& owner,
                                              std::int64_t t_ns) {
  std::vector<results::Figure> readings;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    auto& rule = rules_[i];
    const bool is_of_job = rule.lines->scope == FigureScope::job;
    if (is_of_job && rule.speaker && *rule.speaker != owner) { continue; }
    auto reading = rule.pattern.read(line);
    if (!reading) { continue; }
    if (!reading->figure) {
      // Before the first that counts it may have nothing to say yet.
      if (rule.counts) { rule.misread = std::move(reading->refusal); }
      continue;
    }
    auto& said = reading->figure;
    if (is_of_job) { rule.speaker = owner; }
    const Key key{i, is_of_job ? FigureOwner() : owner, std::move(said->settings)};
    auto& tally = tallies_[key];
    if (tallies_.size() > most_distinct_figures) {
      throw Error("read the command's output", ErrorCode::protocol,
                  fmt::format("more than {} figures of different settings (narrow the pattern of {})",
                              most_distinct_figures, rule.lines->name));
    }
    ++tally.said;
    if (const auto count = counted(i, tally); count > 0) {
      tally.mean += (said->value - tally.mean) / static_cast<double>(count);
      rule.counts = true;
    }
    auto figure = figure_of(key);
    figure.value = said->value;
    figure.t_ns = t_ns;
    readings.push_back(std::move(figure));
  }
  return readings;
}

std::vector<results::Figure> JobFigures::values() const {
  std::vector<results::Figure> values;
  for (const auto& [key, tally] : tallies_) {
    if (counted(key.rule, tally) == 0) { continue; }
    values.push_back(figure_of(key));
    values.back().value = tally.mean;
  }
  return values;
}

std::vector<std::string> JobFigures::doubts(const std::vector<FigureOwner>& owners) const {
  std::vector<std::string> doubts;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const auto& lines = *rules_[i].lines;
    const auto says = [&](const FigureOwner& owner) {
      return std::ranges::any_of(tallies_, [&](const auto& one) {
        return one.first.rule == i && one.first.owner == owner && counted(i, one.second) > 0;
      });
    };
    if (!rules_[i].misread.empty()) {
      doubts.push_back(
          fmt::format("a line that the pattern of {} matches says {}", lines.name, rules_[i].misread));
    }
    const bool is_of_job = lines.scope == FigureScope::job;
    for (const auto& owner : is_of_job ? std::vector<FigureOwner>(1) : owners) {
      if (says(owner)) { continue; }
      doubts.push_back(fmt::format(
          "{} printed no {}{}", is_of_job ? "the command" : owner.name(), lines.name,
          lines.skip > 0 ? fmt::format(" after {} that do not count", lines.skip) : std::string()));
    }
  }
  return doubts;
}

}  // namespace virtrain::harness
