#include "results/tables/mitigation_table.h"

#include <fmt/format.h>

#include <set>

#include "common/contains.h"
#include "results/tables/isolation_table.h"

namespace virtrain::results {
namespace {

/// One line of the table. Case and arm are shown to people only where there are several.
struct MitigationRow {
  const Mitigation& of;
  bool several_cases = false, several_likes = false, several_units = false;
};

/// An end of the interval of a loss or a cost.
Cell limit_cell(const std::optional<Disturbance>& one, double Interval::*end) {
  return one ? limit_cell(one->loss_ci, end) : Cell{};
}
Cell limit_cell(const std::optional<ShareLost>& one, double Interval::*end) {
  return one ? limit_cell(one->ci, end) : Cell{};
}

Cell loss_cell(const std::optional<Disturbance>& one, const std::string& verdict) {
  return one ? Cell{one->loss, verdict + to_text(*one, false)} : Cell{};
}

/// For people without its interval: there is no room for it.
Cell cost_cell(const std::optional<ShareLost>& cost) {
  return cost ? Cell{cost->loss, to_text(ShareLost{cost->loss, {}, cost->rounds})} : Cell{};
}

/// Before the loss that it leaves.
std::string verdict_words(Help verdict) {
  switch (verdict) {
    case Help::helps:
      return "helps ";
    case Help::no_effect:
      return "no help ";
    case Help::hurts:
      return "hurts ";
    case Help::not_comparable:
      return "not comparable ";
    case Help::inconclusive:
      break;
  }
  return "? ";
}

using M = MitigationRow;
constexpr ColumnOf<M> mitigation_columns[] = {
    {"case", "victim", [](const M& row) { return text_cell(row.of.case_name, row.several_cases); }, false,
     true},
    {"arm", "with", [](const M& row) { return cell(row.of.arm); }},
    {"like", "against", [](const M& row) { return text_cell(row.of.like, row.several_likes); }, false, true},
    {"unit", "of",
     [](const M& row) {
       return Cell{row.of.unit == images_unit ? nlohmann::json() : nlohmann::json(row.of.unit),
                   row.several_units ? row.of.unit : ""};
     },
     false, true},
    {"changes", "", [](const M& row) { return silent_cell(row.of.changes); }, false, true},
    {"neighbour", "neighbour", [](const M& row) { return cell(row.of.neighbour); }},
    {"rounds", "", [](const M& row) { return silent_cell(row.of.rounds); }, true, true},
    {"verdict", "", [](const M& row) { return silent_cell(to_string(row.of.verdict)); }, false, true},
    {"reason", "", [](const M& row) { return silent_cell(row.of.reason); }, false, true},
    {"relief", "", [](const M& row) { return silent_cell(row.of.relief); }, true, true},
    {"relief_low", "", [](const M& row) { return limit_cell(row.of.relief_ci, &Interval::low); }, true, true},
    {"relief_high", "", [](const M& row) { return limit_cell(row.of.relief_ci, &Interval::high); }, true,
     true},
    {"loss_without", "loss without", [](const M& row) { return loss_cell(row.of.without, ""); }},
    {"loss_without_low", "", [](const M& row) { return limit_cell(row.of.without, &Interval::low); }, true,
     true},
    {"loss_without_high", "", [](const M& row) { return limit_cell(row.of.without, &Interval::high); }, true,
     true},
    {"loss_with", "loss with",
     [](const M& row) { return loss_cell(row.of.with, verdict_words(row.of.verdict)); }},
    {"loss_with_low", "", [](const M& row) { return limit_cell(row.of.with, &Interval::low); }, true, true},
    {"loss_with_high", "", [](const M& row) { return limit_cell(row.of.with, &Interval::high); }, true, true},
    {"cost_alone", "alone", [](const M& row) { return cost_cell(row.of.cost_alone); }, true, true},
    {"cost_alone_low", "", [](const M& row) { return limit_cell(row.of.cost_alone, &Interval::low); }, true,
     true},
    {"cost_alone_high", "", [](const M& row) { return limit_cell(row.of.cost_alone, &Interval::high); }, true,
     true},
    {"cost_aggressor", "its rate", [](const M& row) { return cost_cell(row.of.cost_aggressor); }, true, true},
    {"cost_aggressor_low", "", [](const M& row) { return limit_cell(row.of.cost_aggressor, &Interval::low); },
     true, true},
    {"cost_aggressor_high", "",
     [](const M& row) { return limit_cell(row.of.cost_aggressor, &Interval::high); }, true, true}};

}  // namespace

Table mitigation_table(const std::vector<Mitigation>& mitigations) {
  std::set<std::string> cases, likes, units;
  for (const auto& one : mitigations) {
    cases.insert(one.case_name);
    likes.insert(one.like);
    units.insert(one.unit);
  }
  std::vector<MitigationRow> rows;
  for (const auto& one : mitigations) {
    rows.push_back({one, cases.size() > 1, likes.size() > 1, units.size() > 1});
  }
  auto table = table_of(mitigation_columns, rows);
  table.title = "What helps how much";
  for (const auto& one : mitigations) {
    add_once(table.notes, fmt::format("{} is {} with {}", one.arm, one.like,
                                      one.changes.empty() ? "nothing changed" : one.changes));
    if (one.reason.empty()) { continue; }
    table.notes.push_back(
        fmt::format("{} next to {} is not comparable: {}", one.arm, one.neighbour, one.reason));
  }
  if (!table.rows.empty()) {
    table.notes.emplace_back("loss: of the victim's throughput alone in the same arm; ?: no verdict");
    table.notes.emplace_back("costs: alone, of the victim without a neighbour; its rate, of the neighbour");
  }
  return table;
}

std::string render(const IsolationStudy& study, Format format, const Screen& screen) {
  auto text = render(isolation_table(study.matrices), format, screen);
  const bool for_programs = format == Format::json || format == Format::csv;
  if (for_programs || study.mitigations.empty()) { return text; }
  return text + "\n" + render(mitigation_table(study.mitigations), format, screen);
}

}  // namespace virtrain::results
