#include <fmt/format.h>

#include <algorithm>

#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/tables/tables.h"

namespace virtrain::results {
namespace {

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

/// The experiment of one of the change's nights.
Cell experiment_cell(const Change& change, const std::optional<std::size_t>& night) {
  return night ? cell(change.night(*night).experiment) : Cell{};
}

Cell low_cell(const LevelChange& level) {
  if (!level.ci) { return {}; }
  return {level.ci->low, level.confirmed_on ? fmt::format("{} … {}", change_percent(level.ci->low),
                                                          change_percent(level.ci->high))
                                            : ""};
}

std::optional<std::size_t> settled_later(const LevelChange& level) {
  return level.settled > level.first ? std::optional(level.settled) : std::nullopt;
}

/// A loss that later runs no longer have is "recovered" for people; programs know it as mended.
Cell state_cell(const Change& change) {
  auto result = cell(to_string(change.state));
  if (change.state == ChangeState::mended) { result.text = "recovered"; }
  return result;
}

constexpr ColumnOf<Change> change_columns[] = {
    {"id", "change", [](const Change& of) { return cell(of.id); }},
    {"state", "state", state_cell},
    {.key = "direction",
     .head = "",
     .cell = [](const Change& of) { return cell(of.regression ? "worse" : "better"); }},
    {.key = "large",
     .head = "",
     .cell =
         [](const Change& of) {
           return Cell{of.level.large, of.level.large ? "large" : ""};
         },
     .hide_empty = true,
     .spare = true},
    {.key = "series",
     .head = "series",
     .cell = [](const Change& of) { return cell(of.series->name()); },
     .wraps = true},
    {.key = "first_date",
     .head = "since",
     .cell = [](const Change& of) { return text_cell(day_words(of.first_night()), true); },
     .wraps = true},
    {.key = "first_experiment",
     .head = "experiment",
     .cell = [](const Change& of) { return cell(of.first_night().experiment); },
     .spare = true},
    {"ratio", "by",
     [](const Change& of) {
       return Cell{of.level.ratio, change_percent(of.level.ratio)};
     },
     true},
    {"ratio_ci_low", "95 % interval", [](const Change& of) { return low_cell(of.level); }, true, true},
    {"ratio_ci_high", "",
     [](const Change& of) { return of.level.ci ? silent_cell(of.level.ci->high) : Cell{}; }, true, true},
    {.key = "before",
     .head = "before",
     .cell = [](const Change& of) { return cell(std::optional(of.level.before), 3); },
     .right = true,
     .spare = true},
    {.key = "after",
     .head = "after",
     .cell = [](const Change& of) { return cell(std::optional(of.level.after), 3); },
     .right = true,
     .spare = true},
    {.key = "unit",
     .head = "unit",
     .cell = [](const Change& of) { return cell(of.series->unit); },
     .hide_empty = true,
     .spare = true},
    {.key = "moved_until",
     .head = "moved until",
     .cell = [](const Change& of) { return experiment_cell(of, settled_later(of.level)); },
     .hide_empty = true,
     .spare = true},
    {.key = "confirmed_by",
     .head = "confirmed by",
     .cell = [](const Change& of) { return experiment_cell(of, of.level.confirmed_on); },
     .hide_empty = true,
     .spare = true},
    {.key = "mended_by",
     .head = "recovered in",
     .cell = [](const Change& of) { return experiment_cell(of, of.level.mended_on); },
     .hide_empty = true,
     .spare = true},
    {.key = "why",
     .head = "acknowledged",
     .cell = [](const Change& of) { return cell(of.why); },
     .hide_empty = true,
     .spare = true},
    {.key = "suspects",
     .head = "suspect",
     .cell = [](const Change& of) { return suspects_cell(of.suspects); },
     .hide_empty = true,
     .spare = true}};

/// Adds the differences, and advice on them.
void add_notes(const Change& change, std::vector<std::string>& notes) {
  if (change.state == ChangeState::unconfirmed) {
    notes.push_back(fmt::format(
        "{}: unconfirmed; three runs at the new level confirm a change, more in a noisy series.", change.id));
    return;
  }
  if (change.state != ChangeState::open) { return; }
  if (change.suspects.empty()) {
    notes.push_back(fmt::format(
        "{}: nothing stored fits: no stored property differs between the runs before and after.", change.id));
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
      fitting == 0 ? "nothing stored fits; what changed in other runs" : "suspects, likeliest first",
      join(suspects, "; ")));
  if (fitting < 2) { return; }
  notes.push_back(
      fmt::format("{}: {} of them changed with the first run; virtrain bisect {} tells settings apart.",
                  change.id, fitting, change.id));
}

std::string share_words(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

std::string night_words(const Series& series, std::size_t index) {
  return day_words(*series.nights[index]);
}

/// With what is no change: more noise, steps, slow movement.
std::string noise_words(const Series& series, const SeriesNoise& noise) {
  std::vector<std::string> parts;
  if (noise.sigma) {
    parts.push_back(fmt::format("noise {} from run to run", share_words(*noise.sigma)));
    parts.push_back(fmt::format("smallest detectable loss {} in 3 runs, {} in 15",
                                share_words(*noise.least_loss_3_nights),
                                share_words(*noise.least_loss_15_nights)));
  }
  if (noise.nights_to_go > 0) {
    parts.push_back(fmt::format("changes are detected after {}", counted(noise.nights_to_go, "more run")));
  }
  if (noise.step) { parts.push_back(fmt::format("moves in steps of {}", share_words(*noise.step))); }
  if (noise.noisier_since) {
    parts.push_back(fmt::format("noisier since {} (noise was {})", night_words(series, *noise.noisier_since),
                                share_words(*noise.sigma_before)));
  }
  if (noise.drift_ratio) {
    parts.push_back(fmt::format("moved slowly by {} since {}, which is not reported as a change",
                                change_percent(*noise.drift_ratio), night_words(series, *noise.drift_since)));
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
      "{} of these series {} too few runs: the first change can be detected after {} runs ({} show "
      "what is normal, {} confirm it).",
      fresh, fresh == 1 ? "has" : "have", rule.least_history + rule.nights_to_confirm, rule.least_history,
      rule.nights_to_confirm));
}

/// One series with its noise.
struct NoiseRow {
  const Series& series;
  const SeriesNoise& noise;
};

Cell share_or_nothing(const std::optional<double>& value) {
  return value ? Cell{*value, share_words(*value)} : Cell{};
}

Cell whole_cell(std::size_t number) {
  return {number, std::to_string(number)};
}

Cell night_cell(const Series& series, const std::optional<std::size_t>& index) {
  return index ? Cell{series.nights[*index]->experiment, night_words(series, *index)} : Cell{};
}

using N = NoiseRow;
constexpr ColumnOf<N> noise_columns[] = {
    {"series", "series", [](const N& of) { return cell(of.series.name()); }},
    {"current", "",
     [](const N& of) {
       return Cell{of.series.current, of.series.current ? "" : "scenario changed"};
     },
     false, true},
    {"nights", "runs", [](const N& of) { return whole_cell(of.series.nights.size()); }, true},
    {"nights_at_level", "at this level", [](const N& of) { return whole_cell(of.noise.nights); }, true},
    {"nights_to_go", "runs to go", [](const N& of) { return whole_cell(of.noise.nights_to_go); }, true},
    {"sigma", "noise", [](const N& of) { return share_or_nothing(of.noise.sigma); }, true},
    {"least_loss_3_nights", "least loss in 3 runs",
     [](const N& of) { return share_or_nothing(of.noise.least_loss_3_nights); }, true},
    {"least_loss_15_nights", "in 15",
     [](const N& of) { return share_or_nothing(of.noise.least_loss_15_nights); }, true},
    {"step", "in steps of", [](const N& of) { return share_or_nothing(of.noise.step); }, true, true},
    {"noisier_since", "noisier since",
     [](const N& of) { return night_cell(of.series, of.noise.noisier_since); }, false, true},
    {"sigma_before", "noise before", [](const N& of) { return share_or_nothing(of.noise.sigma_before); },
     true, true},
    {"drift_since", "moved slowly since",
     [](const N& of) { return night_cell(of.series, of.noise.drift_since); }, false, true},
    {"drift_ratio", "by",
     [](const N& of) {
       return of.noise.drift_ratio ? Cell{*of.noise.drift_ratio, change_percent(*of.noise.drift_ratio)}
                                   : Cell{};
     },
     true, true}};

}  // namespace

Table noise_table(const ChangeLog& log) {
  std::vector<NoiseRow> rows;
  for (std::size_t i = 0; i < log.noise.size(); ++i) { rows.push_back({log.series[i], log.noise[i]}); }
  return table_of(noise_columns, rows);
}

Table changes_table(const ChangeLog& log, const std::string& database_option) {
  auto table = table_of(change_columns, log.changes);
  for (const auto& change : log.changes) { add_notes(change, table.notes); }
  const auto alarms = std::ranges::count_if(log.changes, is_alarm);
  table.notes.push_back(fmt::format("{} series over {}: {} open.", log.series.size(),
                                    counted(log.nights.size(), "run"),
                                    counted(alarms, "loss is", "losses are")));
  add_noise_notes(log, table.notes);
  if (alarms > 0) {
    table.notes.push_back(
        fmt::format("To accept a change as the new normal: virtrain ack CHANGE \"why\"{}", database_option));
  }
  return table;
}

}  // namespace virtrain::results
