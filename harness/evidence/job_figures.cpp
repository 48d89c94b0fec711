#include "harness/evidence/job_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace virtrain::harness {

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
    auto said = rule.pattern.figure_in(line);
    if (!said) { continue; }
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
    }
    auto reading = figure_of(key);
    reading.value = said->value;
    reading.t_ns = t_ns;
    readings.push_back(std::move(reading));
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
