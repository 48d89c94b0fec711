#include <fmt/format.h>

#include <algorithm>

#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/tables/tables.h"

namespace virtrain::results {
namespace {

std::string percent(double ratio) {
  return fmt::format("{:+.1f} %", (ratio - 1) * 100);
}

std::string date_of(const Night& night) {
  constexpr std::size_t date_bytes = 10;
  return night.started_at.substr(0, date_bytes);
}

Cell suspects_cell(const std::vector<Suspect>& suspects) {
  Cell result;
  result.value = nlohmann::json::array();
  for (const auto& one : suspects) {
    result.value.push_back({{"fact", one.fact},
                            {"before", one.before},
                            {"after", one.after},
                            {"fit", one.fit},
                            {"fits", one.fits},
                            {"at_the_change", one.at_the_change}});
  }
  if (!suspects.empty() && suspects.front().fits) { result.text = suspects.front().fact; }
  return result;
}

std::vector<Cell> row_of(const Change& change) {
  const auto& level = change.level;
  const auto& series = *change.series;
  const auto night = [&](const std::optional<std::size_t>& index) {
    return index ? cell(change.night(*index).experiment) : Cell{};
  };
  const auto interval = level.ci && level.confirmed_on
                            ? fmt::format("{} … {}", percent(level.ci->low), percent(level.ci->high))
                            : "";
  return {cell(change.id),
          cell(to_string(change.state)),
          cell(change.regression ? "worse" : "better"),
          {level.large, level.large ? "large" : ""},
          cell(series.name()),
          {date_of(change.first_night()), date_of(change.first_night())},
          cell(change.first_night().experiment),
          {level.ratio, percent(level.ratio)},
          {level.ci ? nlohmann::json(level.ci->low) : nlohmann::json(), interval},
          {level.ci ? nlohmann::json(level.ci->high) : nlohmann::json(), ""},
          cell(std::optional(level.before), 3),
          cell(std::optional(level.after), 3),
          cell(series.unit),
          night(level.settled > level.first ? std::optional(level.settled) : std::nullopt),
          night(level.confirmed_on),
          night(level.mended_on),
          cell(change.why),
          suspects_cell(change.suspects)};
}

/// Adds the differences, and advice on them.
void add_notes(const Change& change, std::vector<std::string>& notes) {
  if (change.state == ChangeState::unconfirmed) {
    notes.push_back(fmt::format(
        "{}: unconfirmed; three nights at the new level confirm a change, more in a noisy series.",
        change.id));
    return;
  }
  if (change.state != ChangeState::open) { return; }
  if (change.suspects.empty()) {
    notes.push_back(fmt::format(
        "{}: nothing stored fits: no stored fact differs between the nights before and after.", change.id));
    return;
  }
  constexpr std::size_t most_bytes = 60;
  std::vector<std::string> suspects;
  for (const auto& one : change.suspects) {
    suspects.push_back(fmt::format("{} ({} → {}{}), fits {:.0f} %", excerpt(one.fact, most_bytes),
                                   excerpt(one.before, most_bytes), excerpt(one.after, most_bytes),
                                   one.at_the_change ? ""
                                   : one.earlier     ? ", earlier"
                                                     : ", later",
                                   one.fit * 100));
  }
  const auto fitting = std::ranges::count_if(change.suspects, &Suspect::fits);
  notes.push_back(fmt::format(
      "{}: {}: {}.", change.id,
      fitting == 0 ? "nothing stored fits; what changed on other nights" : "suspects, likeliest first",
      join(suspects, "; ")));
  if (fitting < 2) { return; }
  notes.push_back(
      fmt::format("{}: {} of them changed with the first night; virtrain bisect {} tells settings apart.",
                  change.id, fitting, change.id));
}

std::string share_words(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

std::string night_words(const Series& series, std::size_t index) {
  const auto& night = *series.nights[index];
  return night.started_at.empty() ? night.experiment : date_of(night);
}

/// With what is no change: more noise, steps, slow movement.
std::string noise_words(const Series& series, const SeriesNoise& noise) {
  std::vector<std::string> parts;
  if (noise.sigma) {
    parts.push_back(fmt::format("noise {} a night", share_words(*noise.sigma)));
    parts.push_back(fmt::format("smallest detectable loss {} in 3 nights, {} in 15",
                                share_words(*noise.least_loss_3_nights),
                                share_words(*noise.least_loss_15_nights)));
  }
  if (noise.nights_to_go > 0) {
    parts.push_back(fmt::format("changes are detected after {}", counted(noise.nights_to_go, "more night")));
  }
  if (noise.step) { parts.push_back(fmt::format("moves in steps of {}", share_words(*noise.step))); }
  if (noise.noisier_since) {
    parts.push_back(fmt::format("noisier since {} (noise was {})", night_words(series, *noise.noisier_since),
                                share_words(*noise.sigma_before)));
  }
  if (noise.drift_ratio) {
    parts.push_back(fmt::format("moved slowly by {} since {}, which is not reported as a change",
                                percent(*noise.drift_ratio), night_words(series, *noise.drift_since)));
  }
  return join(parts, "; ");
}

void add_noise_notes(const ChangeLog& log, std::vector<std::string>& notes) {
  constexpr std::size_t most = 24;
  std::size_t listed = 0, left = 0, fresh = 0;
  for (std::size_t i = 0; i < log.noise.size(); ++i) {
    const auto& series = log.series[i];
    if (!series.current) { continue; }
    fresh += log.noise[i].sigma ? 0 : 1;
    if (!log.noise[i].sigma) { continue; }
    if (listed == most) {
      ++left;
      continue;
    }
    ++listed;
    notes.push_back(fmt::format("{}: {}.", series.name(), noise_words(series, log.noise[i])));
  }
  if (left > 0) { notes.push_back(fmt::format("{} more series: virtrain changes --noise", left)); }
  if (fresh == 0) { return; }
  const ChangeRule rule;
  notes.push_back(fmt::format(
      "{} of these series {} too few nights: the first change can be detected after {} nights ({} show "
      "what is normal, {} confirm it).",
      fresh, fresh == 1 ? "has" : "have", rule.least_history + rule.nights_to_confirm, rule.least_history,
      rule.nights_to_confirm));
}

}  // namespace

Table noise_table(const ChangeLog& log) {
  Table table;
  table.columns = {{"series", "series"},
                   {"current", "", false, true},
                   {"nights", "nights", true},
                   {"nights_at_level", "at this level", true},
                   {"nights_to_go", "nights to go", true},
                   {"sigma", "noise", true},
                   {"least_loss_3_nights", "least loss in 3 nights", true},
                   {"least_loss_15_nights", "in 15", true},
                   {"step", "in steps of", true, true},
                   {"noisier_since", "noisier since", false, true},
                   {"sigma_before", "noise before", true, true},
                   {"drift_since", "moved slowly since", false, true},
                   {"drift_ratio", "by", true, true}};
  const auto share = [](const std::optional<double>& value) {
    return value ? Cell{*value, share_words(*value)} : Cell{};
  };
  for (std::size_t i = 0; i < log.noise.size(); ++i) {
    const auto& series = log.series[i];
    const auto& noise = log.noise[i];
    const auto night = [&](const std::optional<std::size_t>& index) {
      return index ? Cell{series.nights[*index]->experiment, night_words(series, *index)} : Cell{};
    };
    table.rows.push_back(
        {cell(series.name()),
         {series.current, series.current ? "" : "scenario changed"},
         {series.nights.size(), std::to_string(series.nights.size())},
         {noise.nights, std::to_string(noise.nights)},
         {noise.nights_to_go, std::to_string(noise.nights_to_go)},
         share(noise.sigma),
         share(noise.least_loss_3_nights),
         share(noise.least_loss_15_nights),
         share(noise.step),
         night(noise.noisier_since),
         share(noise.sigma_before),
         night(noise.drift_since),
         noise.drift_ratio ? Cell{*noise.drift_ratio, percent(*noise.drift_ratio)} : Cell{}});
  }
  return table;
}

Table changes_table(const ChangeLog& log, const std::string& database_option) {
  Table table;
  table.columns = {{"id", "change"},
                   {"state", "state"},
                   {"direction", ""},
                   {"large", "", false, true},
                   {"series", "series"},
                   {"first_date", "first night"},
                   {"first_experiment", "experiment"},
                   {"ratio", "by", true},
                   {"ratio_ci_low", "95 % interval", true, true},
                   {"ratio_ci_high", "", true, true},
                   {"before", "before", true},
                   {"after", "after", true},
                   {"unit", "unit", false, true},
                   {"moved_until", "moved until", false, true},
                   {"confirmed_by", "confirmed by", false, true},
                   {"mended_by", "mended by", false, true},
                   {"why", "acknowledged", false, true},
                   {"suspects", "suspect", false, true}};
  for (const auto& change : log.changes) { table.rows.push_back(row_of(change)); }
  for (const auto& change : log.changes) { add_notes(change, table.notes); }
  const auto alarms = std::ranges::count_if(log.changes, is_alarm);
  table.notes.push_back(fmt::format("{} series over {}: {} open.", log.series.size(),
                                    counted(log.nights.size(), "night"),
                                    counted(alarms, "loss is", "losses are")));
  add_noise_notes(log, table.notes);
  if (alarms > 0) {
    table.notes.push_back(
        fmt::format("To accept a change as the new normal: virtrain ack CHANGE \"why\"{}", database_option));
  }
  return table;
}

}  // namespace virtrain::results
