#include "results/tables/mitigation_table.h"

#include <fmt/format.h>

#include <set>

#include "common/contains.h"
#include "results/tables/isolation_table.h"

namespace virtrain::results {
namespace {

const std::vector<Column> mitigation_columns{{"case", "victim", false, true},
                                             {"arm", "with"},
                                             {"like", "against", false, true},
                                             {"changes", "", false, true},
                                             {"neighbour", "neighbour"},
                                             {"rounds", "", true, true},
                                             {"verdict", "", false, true},
                                             {"reason", "", false, true},
                                             {"relief", "", true, true},
                                             {"relief_low", "", true, true},
                                             {"relief_high", "", true, true},
                                             {"loss_without", "loss without"},
                                             {"loss_without_low", "", true, true},
                                             {"loss_without_high", "", true, true},
                                             {"loss_with", "loss with"},
                                             {"loss_with_low", "", true, true},
                                             {"loss_with_high", "", true, true},
                                             {"cost_alone", "alone", true, true},
                                             {"cost_alone_low", "", true, true},
                                             {"cost_alone_high", "", true, true},
                                             {"cost_aggressor", "its rate", true, true},
                                             {"cost_aggressor_low", "", true, true},
                                             {"cost_aggressor_high", "", true, true}};

void add_interval(std::vector<Cell>& cells, const std::optional<Interval>& interval) {
  cells.push_back(silent_cell(interval ? std::optional(interval->low) : std::nullopt));
  cells.push_back(silent_cell(interval ? std::optional(interval->high) : std::nullopt));
}

void add_loss(std::vector<Cell>& cells, const std::optional<Disturbance>& one, const std::string& verdict) {
  cells.push_back(one ? Cell{one->loss, verdict + to_text(*one, false)} : Cell{});
  add_interval(cells, one ? one->loss_ci : std::nullopt);
}

/// For people without its interval: there is no room for it.
void add_cost(std::vector<Cell>& cells, const std::optional<ShareLost>& cost) {
  cells.push_back(cost ? Cell{cost->loss, to_text(ShareLost{cost->loss, {}, cost->rounds})} : Cell{});
  add_interval(cells, cost ? cost->ci : std::nullopt);
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

std::vector<Cell> mitigation_row(const Mitigation& one, bool several_cases, bool several_likes) {
  const auto shown = [](const std::string& text, bool is_shown) { return Cell{text, is_shown ? text : ""}; };
  std::vector<Cell> cells{
      shown(one.case_name, several_cases), cell(one.arm),        shown(one.like, several_likes),
      shown(one.changes, false),           cell(one.neighbour),  Cell{one.rounds, ""},
      Cell{to_string(one.verdict), ""},    Cell{one.reason, ""}, silent_cell(one.relief)};
  add_interval(cells, one.relief_ci);
  add_loss(cells, one.without, "");
  add_loss(cells, one.with, verdict_words(one.verdict));
  add_cost(cells, one.cost_alone);
  add_cost(cells, one.cost_aggressor);
  return cells;
}

}  // namespace

Table mitigation_table(const std::vector<Mitigation>& mitigations) {
  Table table;
  table.title = "What helps how much";
  table.columns = mitigation_columns;
  std::set<std::string> cases, likes;
  for (const auto& one : mitigations) {
    cases.insert(one.case_name);
    likes.insert(one.like);
  }
  for (const auto& one : mitigations) {
    table.rows.push_back(mitigation_row(one, cases.size() > 1, likes.size() > 1));
    add_once(table.notes, fmt::format("{} is {} with {}", one.arm, one.like,
                                      one.changes.empty() ? "nothing changed" : one.changes));
    if (one.reason.empty()) { continue; }
    table.notes.push_back(
        fmt::format("{} beside {} is not comparable: {}", one.arm, one.neighbour, one.reason));
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
