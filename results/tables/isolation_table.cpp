#include "results/tables/isolation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/text/units.h"
#include "results/comparison/case_rows.h"
#include "results/comparison/verdict.h"

namespace virtrain::results {
namespace {

const std::vector<Column> isolation_columns{{"case", "victim", false, true},
                                            {"arm", "arm", false, true},
                                            {"neighbour", "neighbour"},
                                            {"aggressor", "", false, true},
                                            {"level", "", true, true},
                                            {"trials", "", true, true},
                                            {"failed", "failed", true, true},
                                            {"invalid", "invalid", true, true},
                                            {"images_per_second", "images/s", true},
                                            {"verdict", "slower than alone", false, true},
                                            {"reason", "", false, true},
                                            {"loss", "", true, true},
                                            {"loss_low", "", true, true},
                                            {"loss_high", "", true, true},
                                            {"slowdown", "", true, true},
                                            {"verdict_idle", "than beside idle", false, true},
                                            {"reason_idle", "", false, true},
                                            {"loss_idle", "", true, true},
                                            {"loss_idle_low", "", true, true},
                                            {"loss_idle_high", "", true, true},
                                            {"p99_inflation", "p99", true, true},
                                            {"p99_inflation_ci_low", "", true, true},
                                            {"p99_inflation_ci_high", "", true, true},
                                            {"few_samples", "", false, true},
                                            {"p_worse_holm", "", true, true},
                                            {"p_worse_idle_holm", "", true, true},
                                            {"fairness", "", true, true},
                                            {"busy", "", true, true},
                                            {"recovery_seconds", "back in", true, true},
                                            {"recovery_longest", "", true, true},
                                            {"recovery_rounds", "", true, true},
                                            {"recovery_missed", "", true, true},
                                            {"recovery_looked_seconds", "", true, true}};

std::optional<double> loss_limit(const std::optional<Disturbance>& one, double Interval::*end) {
  return one && one->loss_ci ? std::optional(*one->loss_ci.*end) : std::nullopt;
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
std::optional<double> tail_limit(const std::optional<TailInflation>& tail, double Interval::*end) {
  return tail && tail->ci ? std::optional(*tail->ci.*end) : std::nullopt;
}

Cell reason_cell(const std::optional<Disturbance>& one) {
  return one && !one->reason.empty() ? silent_cell(one->reason) : Cell{};
}

void add_recovery(std::vector<Cell>& cells, const std::optional<Recovery>& one) {
  if (!one) { return cells.resize(cells.size() + 5); }
  cells.push_back(one->seconds ? Cell{*one->seconds, to_text(*one)} : Cell{nullptr, to_text(*one)});
  cells.push_back(silent_cell(one->longest));
  cells.push_back(silent_cell(one->rounds));
  cells.push_back(silent_cell(one->missed));
  cells.push_back(silent_cell(one->looked_seconds));
}

std::vector<Cell> isolation_row(const IsolationMatrix& matrix, const NeighbourCell& cell, bool several_cases,
                                bool several_arms) {
  const auto& alone = cell.against_alone;
  const auto& beside_idle = cell.against_idle;
  const auto loss = alone ? std::optional(alone->loss) : std::nullopt;
  const auto count = [](std::int64_t number) {
    return Cell{number, number == 0 ? "" : std::to_string(number)};
  };
  std::vector<Cell> cells{
      several_cases ? results::cell(matrix.case_name) : silent_cell(matrix.case_name),
      several_arms ? results::cell(matrix.arm) : silent_cell(matrix.arm),
      results::cell(cell.neighbour),
      cell.aggressor.empty() ? Cell{} : silent_cell(cell.aggressor),
      silent_cell(cell.level),
      silent_cell(cell.trials),
      count(cell.failed),
      count(cell.invalid),
      results::cell(cell.images_per_second, cell.images_per_second.value_or(100) < 10 ? 3 : 1),
      verdict_cell(alone, true),
      reason_cell(alone),
      silent_cell(loss),
      silent_cell(loss_limit(alone, &Interval::low)),
      silent_cell(loss_limit(alone, &Interval::high)),
      silent_cell(loss && *loss < 1 ? std::optional(1 / (1 - *loss)) : std::nullopt),
      verdict_cell(beside_idle, false),
      reason_cell(beside_idle),
      silent_cell(beside_idle ? std::optional(beside_idle->loss) : std::nullopt),
      silent_cell(loss_limit(beside_idle, &Interval::low)),
      silent_cell(loss_limit(beside_idle, &Interval::high)),
      tail_cell(cell.tail),
      silent_cell(tail_limit(cell.tail, &Interval::low)),
      silent_cell(tail_limit(cell.tail, &Interval::high)),
      silent_cell(cell.tail ? std::optional(cell.tail->few_samples) : std::nullopt),
      silent_cell(alone ? alone->p_worse_holm : std::nullopt),
      silent_cell(beside_idle ? beside_idle->p_worse_holm : std::nullopt),
      silent_cell(cell.fairness),
      silent_cell(cell.busy)};
  add_recovery(cells, cell.recovery);
  return cells;
}

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
  notes.push_back(fmt::format("{} in {}: {}{}; margin {}, intervals of {}", matrix.case_name, matrix.arm,
                              counted(rounds, "round"),
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
  Table table;
  table.columns = isolation_columns;
  std::set<std::string> cases, arms;
  bool few_steps = false;
  for (const auto& matrix : matrices) {
    cases.insert(matrix.case_name);
    arms.insert(matrix.arm);
  }
  for (const auto& matrix : matrices) {
    for (const auto& cell : matrix.cells) {
      table.rows.push_back(isolation_row(matrix, cell, cases.size() > 1, arms.size() > 1));
      few_steps = few_steps || (cell.tail && !cell.tail->ci);
    }
    add_notes(matrix, table.notes);
  }
  if (few_steps) {
    table.notes.emplace_back(
        "p99 of step times: not shown where a side has too few steps for an interval (437)");
  }
  return table;
}

}  // namespace virtrain::results
