#include "results/tables/isolation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/contains.h"
#include "common/text/units.h"
#include "results/comparison/case_rows.h"
#include "results/comparison/verdict.h"

namespace virtrain::results {
namespace {

/// One line of the table. Case and arm are shown to people only where there are several.
struct IsolationRow {
  const IsolationMatrix& matrix;
  const NeighbourCell& cell;
  bool several_cases = false, several_arms = false;
};

std::optional<double> loss_of(const std::optional<Disturbance>& one) {
  return one ? std::optional(one->loss) : std::nullopt;
}
Cell loss_limit(const std::optional<Disturbance>& one, double Interval::*end) {
  return one ? limit_cell(one->loss_ci, end) : Cell{};
}

/// For people the verdict with its figures, or the figures alone.
Cell verdict_cell(const std::optional<Disturbance>& one, bool with_verdict) {
  return one ? Cell{to_string(one->verdict), to_text(*one, with_verdict)} : Cell{};
}

/// For people only with an interval: without one it is a hint at best.
Cell tail_cell(const std::optional<TailInflation>& tail) {
  if (!tail) { return {}; }
  return {tail->inflation,
          tail->ci ? fmt::format("{:.2f} ({:.2f} to {:.2f})", tail->inflation, tail->ci->low, tail->ci->high)
                   : ""};
}
Cell tail_limit(const std::optional<TailInflation>& tail, double Interval::*end) {
  return tail ? limit_cell(tail->ci, end) : Cell{};
}

Cell reason_cell(const std::optional<Disturbance>& one) {
  return one && !one->reason.empty() ? silent_cell(one->reason) : Cell{};
}

Cell count_cell(std::int64_t number) {
  return {number, number == 0 ? "" : std::to_string(number)};
}

Cell slowdown_cell(const std::optional<Disturbance>& alone) {
  return silent_cell(alone && alone->loss < 1 ? std::optional(1 / (1 - alone->loss)) : std::nullopt);
}

std::optional<double> p_worse(const std::optional<Disturbance>& one) {
  return one ? one->p_worse_holm : std::nullopt;
}

Cell recovery_cell(const std::optional<Recovery>& one) {
  if (!one) { return {}; }
  return {one->seconds ? nlohmann::json(*one->seconds) : nlohmann::json(), to_text(*one)};
}

/// A member of the recovery for programs.
template <typename Value>
Cell recovered(const IsolationRow& row, Value Recovery::*member) {
  return row.cell.recovery ? silent_cell((*row.cell.recovery).*member) : Cell{};
}

using R = IsolationRow;
constexpr ColumnOf<R> isolation_columns[] = {
    {"case", "victim", [](const R& of) { return text_cell(of.matrix.case_name, of.several_cases); }, false,
     true},
    {"arm", "arm", [](const R& of) { return text_cell(of.matrix.arm, of.several_arms); }, false, true},
    {"neighbour", "neighbour", [](const R& of) { return cell(of.cell.neighbour); }},
    {"aggressor", "",
     [](const R& of) { return of.cell.aggressor.empty() ? Cell{} : silent_cell(of.cell.aggressor); }, false,
     true},
    {"level", "", [](const R& of) { return silent_cell(of.cell.level); }, true, true},
    {"trials", "", [](const R& of) { return silent_cell(of.cell.trials); }, true, true},
    {"failed", "failed", [](const R& of) { return count_cell(of.cell.failed); }, true, true},
    {"invalid", "invalid", [](const R& of) { return count_cell(of.cell.invalid); }, true, true},
    {"images_per_second", "images/s",
     [](const R& of) { return throughput_cell(in_images(of.cell.throughput, of.matrix.unit)); }, true, true},
    {"throughput", "throughput",
     [](const R& of) { return other_unit_cell(of.cell.throughput, of.matrix.unit); }, true, true},
    {"unit", "", [](const R& of) { return unit_cell(of.cell.throughput, of.matrix.unit); }, false, true},
    {"verdict", "slower than alone", [](const R& of) { return verdict_cell(of.cell.against_alone, true); },
     false, true},
    {"reason", "", [](const R& of) { return reason_cell(of.cell.against_alone); }, false, true},
    {"loss", "", [](const R& of) { return silent_cell(loss_of(of.cell.against_alone)); }, true, true},
    {"loss_low", "", [](const R& of) { return loss_limit(of.cell.against_alone, &Interval::low); }, true,
     true},
    {"loss_high", "", [](const R& of) { return loss_limit(of.cell.against_alone, &Interval::high); }, true,
     true},
    {"slowdown", "", [](const R& of) { return slowdown_cell(of.cell.against_alone); }, true, true},
    {"verdict_idle", "than next to idle",
     [](const R& of) { return verdict_cell(of.cell.against_idle, false); }, false, true},
    {"reason_idle", "", [](const R& of) { return reason_cell(of.cell.against_idle); }, false, true},
    {"loss_idle", "", [](const R& of) { return silent_cell(loss_of(of.cell.against_idle)); }, true, true},
    {"loss_idle_low", "", [](const R& of) { return loss_limit(of.cell.against_idle, &Interval::low); }, true,
     true},
    {"loss_idle_high", "", [](const R& of) { return loss_limit(of.cell.against_idle, &Interval::high); },
     true, true},
    {"p99_inflation", "p99", [](const R& of) { return tail_cell(of.cell.tail); }, true, true},
    {"p99_inflation_ci_low", "", [](const R& of) { return tail_limit(of.cell.tail, &Interval::low); }, true,
     true},
    {"p99_inflation_ci_high", "", [](const R& of) { return tail_limit(of.cell.tail, &Interval::high); }, true,
     true},
    {"few_samples", "",
     [](const R& of) { return of.cell.tail ? silent_cell(of.cell.tail->few_samples) : Cell{}; }, false, true},
    {"p_worse_holm", "", [](const R& of) { return silent_cell(p_worse(of.cell.against_alone)); }, true, true},
    {"p_worse_idle_holm", "", [](const R& of) { return silent_cell(p_worse(of.cell.against_idle)); }, true,
     true},
    {"fairness", "", [](const R& of) { return silent_cell(of.cell.fairness); }, true, true},
    {"busy", "", [](const R& of) { return silent_cell(of.cell.busy); }, true, true},
    {"recovery_seconds", "back in", [](const R& of) { return recovery_cell(of.cell.recovery); }, true, true},
    {"recovery_longest", "", [](const R& of) { return recovered(of, &Recovery::longest); }, true, true},
    {"recovery_rounds", "", [](const R& of) { return recovered(of, &Recovery::rounds); }, true, true},
    {"recovery_missed", "", [](const R& of) { return recovered(of, &Recovery::missed); }, true, true},
    {"recovery_looked_seconds", "", [](const R& of) { return recovered(of, &Recovery::looked_seconds); },
     true, true}};

std::string margin_words(double share) {
  return fmt::format("{:.3g} %", share * 100);
}

std::string emulation_words(const std::set<std::string>& virtualization) {
  if (std::any_of(virtualization.begin(), virtualization.end(), is_emulation)) {
    return "VMs were emulated by QEMU: the contention is real, the speed is not";
  }
  return "";
}

void add_notes(const IsolationMatrix& matrix, std::vector<std::string>& notes) {
  std::int64_t rounds = 0;
  for (const auto& cell : matrix.cells) { rounds = std::max(rounds, cell.trials); }
  notes.push_back(fmt::format("{} in {}{}: {}{}; margin {}, intervals of {}", matrix.case_name, matrix.arm,
                              in_unit(matrix.unit), counted(rounds, "round"),
                              matrix.seed ? fmt::format(", order by seed {}", *matrix.seed) : "",
                              margin_words(matrix.settings.margin), level_words(matrix.settings.alpha)));
  if (const auto words = emulation_words(matrix.virtualization); !words.empty()) { notes.push_back(words); }
  std::set<std::string> said;
  for (const auto& cell : matrix.cells) {
    for (const auto& one : {cell.against_alone, cell.against_idle}) {
      if (!one || one->verdict != Isolated::not_comparable || !said.insert(one->reason).second) { continue; }
      notes.push_back(fmt::format("{} is not comparable: {}", cell.neighbour, one->reason));
    }
  }
  for (const auto& dose : matrix.doses) {
    if (!dose.on_a_line) {
      notes.push_back(
          fmt::format("{}: its levels do not lie on a line, each stands for itself", dose.aggressor));
      continue;
    }
    notes.push_back(fmt::format("{} at full level: {} % slower{}, by a line over its levels", dose.aggressor,
                                whole_percents(dose.loss_at_full_level),
                                dose.ci ? fmt::format(" (95 %: {} to {})", whole_percents(dose.ci->low),
                                                      whole_percents(dose.ci->high))
                                        : ""));
  }
}

}  // namespace

Table isolation_table(const std::vector<IsolationMatrix>& matrices) {
  std::set<std::string> cases, arms;
  for (const auto& matrix : matrices) {
    cases.insert(matrix.case_name);
    arms.insert(matrix.arm);
  }
  std::vector<IsolationRow> rows;
  for (const auto& matrix : matrices) {
    for (const auto& cell : matrix.cells) {
      rows.push_back({matrix, cell, cases.size() > 1, arms.size() > 1});
    }
  }
  auto table = table_of(isolation_columns, rows);
  for (const auto& matrix : matrices) { add_notes(matrix, table.notes); }
  if (std::ranges::any_of(rows, [](const R& of) { return of.cell.tail && !of.cell.tail->ci; })) {
    table.notes.emplace_back(
        "p99 of step times: not shown where a side has too few steps for an interval (437)");
  }
  return table;
}

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
