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
                            {"at_the_change", one.at_the_change}});
  }
  if (!suspects.empty()) { result.text = suspects.front().fact; }
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
          night(level.confirmed_on),
          night(level.mended_on),
          cell(change.why),
          suspects_cell(change.suspects)};
}

/// What differed, and what to do about it.
void add_notes(const Change& change, std::vector<std::string>& notes) {
  if (change.state == ChangeState::unconfirmed) {
    notes.push_back(
        fmt::format("{}: unconfirmed; three nights at the new level confirm a change.", change.id));
    return;
  }
  if (change.state != ChangeState::open) { return; }
  if (change.suspects.empty()) {
    notes.push_back(
        fmt::format("{}: no stored fact differs between the nights before and after.", change.id));
    return;
  }
  constexpr std::size_t most_bytes = 60;
  std::vector<std::string> suspects;
  for (const auto& one : change.suspects) {
    suspects.push_back(fmt::format("{} ({} → {}{})", excerpt(one.fact, most_bytes),
                                   excerpt(one.before, most_bytes), excerpt(one.after, most_bytes),
                                   one.at_the_change ? ""
                                   : one.earlier     ? ", earlier"
                                                     : ", later"));
  }
  notes.push_back(fmt::format("{}: suspects, likeliest first: {}.", change.id, join(suspects, "; ")));
}

}  // namespace

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
  if (alarms > 0) {
    table.notes.push_back(
        fmt::format("To accept a change as the new normal: virtrain ack CHANGE \"why\"{}", database_option));
  }
  return table;
}

}  // namespace virtrain::results
