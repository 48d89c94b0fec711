#include "results/tables/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/error.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/arms.h"
#include "results/comparison/compare_json.h"
#include "results/comparison/verdict.h"
#include "results/store/canonical_json.h"
#include "results/tables/render.h"

namespace virtrain::results {
namespace {

/// Three decimals below ten images a second (emulated guests), one from there on.
Cell throughput_cell(const std::optional<double>& value) {
  return cell(value, value && *value < 10 ? 3 : 1);
}

/// "1234.5 tokens/s"; empty for images/s, which have a column of their own.
Cell other_unit_cell(const std::optional<double>& throughput, const std::string& unit) {
  if (!throughput || unit.empty() || unit == images_unit) { return {}; }
  auto result = throughput_cell(throughput);
  result.text += " " + printable(unit);
  return result;
}

Cell tenants_cell(const std::vector<TenantMean>& tenants) {
  Cell result;
  std::vector<std::string> texts;
  for (const auto& tenant : tenants) {
    result.value.push_back(tenant.images_per_second ? nlohmann::json(*tenant.images_per_second)
                                                    : nlohmann::json());
    texts.push_back(throughput_cell(tenant.images_per_second).text);
  }
  result.text = join(texts, " + ");
  return result;
}

/// Images for a unit of the currency; programs get no value of what else is counted, and people its name.
Cell price_cell(const ArmSummary& arm) {
  auto result = cell(arm.work_per_currency_unit, arm.work_per_currency_unit.value_or(0) < 100 ? 3 : 0);
  if (arm.work_per_currency_unit && arm.unit != images_unit) {
    result = {nullptr, result.text + " " + printable(work_of(arm.unit))};
  }
  return result;
}

constexpr std::size_t ratio_column = 10;

std::optional<double> sweep_limit(const ArmSummary& arm, double Interval::*limit) {
  return arm.sweep && arm.sweep->ci ? std::optional(*arm.sweep->ci.*limit) : std::nullopt;
}

/// Both limits, which people read in the sentences below the table.
void add_limits(std::vector<Cell>& row, const std::optional<Interval>& interval) {
  row.push_back(interval ? silent_cell(interval->low) : Cell{});
  row.push_back(interval ? silent_cell(interval->high) : Cell{});
}

/// Currency of the prices, which all share it.
std::string currency_of(const std::vector<CaseComparison>& comparisons) {
  for (const auto& comparison : comparisons) {
    for (const auto& arm : comparison.arms) {
      if (!arm.currency.empty()) { return printable(arm.currency); }
    }
  }
  return "currency";
}

/// The comparison of this case in which the arm is the candidate; null: in none that has a ratio.
const CaseComparison* judged(const std::vector<CaseComparison>& comparisons, const CaseComparison& first,
                             const std::string& arm) {
  for (const auto* one = &first; one != comparisons.data() + comparisons.size(); ++one) {
    if (one != &first && one->first_of_case) { break; }
    if (one->candidate == arm && one->test) { return one; }
  }
  return nullptr;
}

/// `verdict`: of the arm against another; null: it is none's candidate. `to`: say against which.
std::vector<Cell> arm_row(const CaseComparison& comparison, const ArmSummary& arm,
                          const CaseComparison* verdict, bool to) {
  const auto scaling = [&](double Scaling::*member) {
    return arm.scaling ? std::optional(*arm.scaling.*member) : std::nullopt;
  };
  std::vector<Cell> row{
      cell(comparison.case_name),
      cell(comparison.arm.empty() ? arm.arm : comparison.arm + ", " + arm.arm),
      cell(arm.nodes),
      cell(arm.runs),
      throughput_cell(in_images(arm.throughput, arm.unit)),
      tenants_cell(arm.tenants),
      cell(scaling(&Scaling::speedup), 3),
      cell(arm.scaling ? std::optional(arm.nodes) : std::nullopt),
      cell(arm.scaling && arm.published ? std::optional(arm.published->speedup) : std::nullopt, 3),
      share_cell(scaling(&Scaling::efficiency)),
      verdict ? Cell{verdict->test->ratio, ratio_words(verdict->test->ratio)} : Cell{},
      cell(verdict && to ? verdict->baseline : ""),
      cell(verdict ? to_string(verdict->verdict) : ""),
      cell(arm.sweep ? std::string(to_string(arm.sweep->standing)) : ""),
      cell(sweep_limit(arm, &Interval::low), 2),
      cell(sweep_limit(arm, &Interval::high), 2),
      cell(arm.images_per_joule, 3),
      cell(arm.cpu_images_per_joule, 3),
      other_unit_cell(arm.throughput, arm.unit),
      arm.throughput && arm.unit != images_unit ? silent_cell(arm.unit) : Cell{},
      price_cell(arm)};
  const bool is_judged = verdict && verdict->verdict != Verdict::not_comparable;
  add_limits(row, is_judged ? verdict->test->ci : std::nullopt);
  add_limits(row, arm.scaling ? arm.scaling->speedup_ci : std::nullopt);
  add_limits(row, arm.scaling ? arm.scaling->efficiency_ci : std::nullopt);
  row.push_back(arm.work_per_currency_unit ? silent_cell(arm.currency) : Cell{});
  return row;
}

/// Sentences in the order they first came, each with the cases it holds for.
class SentencesOfCases {
 public:
  void add(const std::string& sentence, const std::string& case_name) {
    const auto [found, fresh] = index_.try_emplace(sentence, sentences_.size());
    if (fresh) { sentences_.push_back({sentence, {}}); }
    auto& cases = sentences_[found->second].second;
    if (cases.empty() || cases.back() != case_name) { cases.push_back(case_name); }
  }
  void append_to(std::vector<std::string>& lines) const {
    for (const auto& [sentence, cases] : sentences_) {
      lines.push_back(join(cases, ", ") + ": " + sentence + ".");
    }
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> sentences_;
  std::map<std::string, std::size_t> index_;
};

std::string words_of_fit(const std::string& fitted_on) {
  if (fitted_on == "probes_and_runs") { return "probes and runs"; }
  if (fitted_on == "one_run") { return "one size"; }
  return fitted_on;
}

std::string prediction_line(const PredictedPoint& point, const std::string& unit) {
  const auto rate = [](double value) { return throughput_cell(value).text; };
  auto line = fmt::format("  {}: {} {}, speedup {:.2f} of {}", counted(point.nodes, "node"),
                          rate(point.predicted), printable(unit), point.speedup, point.nodes);
  if (point.bound) {
    line += fmt::format(", bound {} … {}", rate(point.bound->low), rate(point.bound->high));
  }
  if (point.measured) { line += ", measured " + rate(*point.measured); }
  return line;
}

std::string words_of_tail(const std::optional<TailInflation>& tail) {
  if (!tail) { return ""; }
  if (!tail->ci) { return "; too few steps for a p99"; }
  return fmt::format("; p99 of its steps {:.3f} times as long ({:.3f} to {:.3f})", tail->inflation,
                     tail->ci->low, tail->ci->high);
}

/// Where the published speedups come from, and tenants against their runs alone.
void add_arm_notes(const CaseComparison& comparison, SentencesOfCases& notes) {
  for (const auto& arm : comparison.arms) {
    if (arm.scaling && arm.published) {
      notes.add("the published speedup is that of experiment " + arm.published->experiment,
                comparison.case_name);
    }
    if (!arm.alone) { continue; }
    std::vector<std::string> parts;
    for (const auto& tenant : arm.alone->tenants) {
      parts.push_back(
          fmt::format("{} has {:.1f} % of its throughput alone ({}; slowdown {:.3f}{})",
                      tenant.name.empty() ? fmt::format("tenant {}", tenant.tenant_index + 1) : tenant.name,
                      100 / tenant.slowdown, tenant.alone_case, tenant.slowdown, words_of_tail(tenant.tail)));
    }
    auto sentence = fmt::format("in {}, {}", arm.arm, join(parts, ", "));
    if (const auto& all = arm.alone->isolation) {
      sentence +=
          fmt::format(": STP {:.3f}, ANTT {:.3f}, Jain {:.4f}, worst slowdown {:.3f}", all->system_throughput,
                      all->mean_slowdown, all->jain_index, all->worst_slowdown);
    }
    notes.add(sentence, comparison.case_name);
  }
}

/// One line for each size of each weak scaling and arm; the cases of one family share their prediction.
void append_predictions(const std::vector<CaseComparison>& comparisons, std::vector<std::string>& lines) {
  std::set<std::string> said;
  for (const auto& comparison : comparisons) {
    for (const auto& arm : comparison.arms) {
      if (!arm.prediction) { continue; }
      const auto& model = *arm.prediction;
      const auto family = printed(resized(comparison.key, {}));
      const auto name = comparison.arm.empty() ? arm.arm : comparison.arm + ", " + arm.arm;
      if (!said.insert(fmt::format("{}\n{}", family, name)).second) { continue; }
      lines.push_back(fmt::format(
          "Prediction of {} in {}{}, fitted on {}, {}:", family, name,
          model.transport.empty() ? "" : " over " + model.transport, words_of_fit(model.fitted_on),
          model.worst_held_out_error
              ? fmt::format("off by at most {:.1f} % on held-out sizes", *model.worst_held_out_error * 100)
              : "no size could be held out to test it"));
      for (const auto& point : model.points) { lines.push_back(prediction_line(point, arm.unit)); }
      for (const auto& note : model.notes) { lines.push_back("  " + note + "."); }
    }
  }
}

/// Why a trial has no result, or must not be compared.
std::string remark(const Trial& trial) {
  if (!trial.valid) { return "invalid: " + trial.invalid_reason; }
  if (trial.failure_reason.empty()) { return ""; }
  return trial.failed_stage.empty() ? trial.failure_reason : trial.failed_stage + ": " + trial.failure_reason;
}

std::vector<TenantMean> tenant_values(const Store& store, std::int64_t trial) {
  std::vector<TenantMean> values;
  for (const auto& tenant : store.tenants(trial)) {
    values.push_back({.tenant_index = tenant.tenant_index,
                      .name = tenant.name,
                      .images_per_second = tenant.images_per_second});
  }
  return values;
}

}  // namespace

std::vector<std::pair<const char*, std::string>> experiment_facts(const Experiment& experiment) {
  std::vector<std::pair<const char*, std::string>> facts = {{"scenario", experiment.scenario},
                                                            {"label", experiment.label},
                                                            {"status", to_string(experiment.status)},
                                                            {"started", experiment.started_at},
                                                            {"ended", experiment.ended_at},
                                                            {"host", experiment.host_name},
                                                            {"boot", experiment.boot_id},
                                                            {"virtrain", experiment.virtrain_version}};
  std::erase_if(facts, [](const auto& one) { return one.second.empty(); });
  return facts;
}

Table comparison_table(const std::vector<CaseComparison>& comparisons) {
  Table table;
  table.columns = {{"case", "case"},
                   {"arm", "arm"},
                   {"nodes", "nodes", true},
                   {"runs", "runs", true},
                   {"images_per_second", "images/s", true},
                   {"tenants", "of each tenant", true},
                   {"speedup", "speedup", true},
                   {"ideal", "ideal", true, true},
                   {"published_speedup", "published", true, true},
                   {"efficiency", "efficiency", true},
                   {"ratio", "ratio", true},
                   {"ratio_to", "to", false, true},
                   {"verdict", "verdict"},
                   {"sweep", "of the sweep", false, true},
                   {"sweep_ci_low", "95 % from", true, true},
                   {"sweep_ci_high", "to", true, true},
                   {"images_per_joule", "images/J", true, true},
                   {"cpu_images_per_joule", "images/J of CPUs", true, true},
                   {"throughput", "throughput", true, true},
                   {"unit", "unit", false, true},
                   {"images_per_currency_unit", "images/" + currency_of(comparisons), true, true}};
  for (const char* key : {"ratio_ci_low", "ratio_ci_high", "speedup_ci_low", "speedup_ci_high",
                          "efficiency_ci_low", "efficiency_ci_high", "currency"}) {
    table.columns.push_back({key, key, true, true});
  }
  const auto is_other = [&](const CaseComparison& one) {
    return one.candidate != comparisons.front().candidate || one.baseline != comparisons.front().baseline;
  };
  const bool several = std::ranges::any_of(comparisons, is_other);
  if (!comparisons.empty() && !several) {
    // The column of ratios says what is divided by what.
    table.columns[ratio_column].head =
        fmt::format("{}/{}", comparisons.front().candidate, comparisons.front().baseline);
  }
  SentencesOfCases verdicts;
  SentencesOfCases notes;
  SentencesOfCases explanations;
  for (const auto& comparison : comparisons) {
    for (const auto& arm : comparison.first_of_case ? comparison.arms : std::vector<ArmSummary>()) {
      table.rows.push_back(arm_row(comparison, arm, judged(comparisons, comparison, arm.arm), several));
    }
    verdicts.add(verdict_sentence(comparison), comparison.case_name);
    for (const auto& note : comparison.notes) { notes.add(note, comparison.case_name); }
    if (comparison.first_of_case) { add_arm_notes(comparison, notes); }
    if (!comparison.explanation) { continue; }
    for (const auto& line : sentences(*comparison.explanation)) {
      explanations.add(line, comparison.case_name);
    }
  }
  table.notes.push_back("Virtualization: " + virtualization_sentence(comparisons) + ".");
  verdicts.append_to(table.notes);
  if (const auto family = family_sentence(comparisons); !family.empty()) {
    table.notes.push_back(family + ".");
  }
  for (auto& sentence : sweep_sentences(comparisons)) { table.notes.push_back(std::move(sentence)); }
  notes.append_to(table.notes);
  if (std::ranges::any_of(comparisons, [](const auto& one) { return one.explanation.has_value(); })) {
    table.notes.emplace_back("What may explain the gaps, largest first:");
  }
  explanations.append_to(table.notes);
  append_predictions(comparisons, table.notes);
  return table;
}

Table costs_table(const std::vector<CaseComparison>& comparisons) {
  Table table;
  table.columns = {{"case", "case"},
                   {"arm", "arm"},
                   {"images_per_second", "images/s", true},
                   {"images_per_joule", "images/J of GPUs", true, true},
                   {"cpu_images_per_joule", "images/J of CPUs", true, true},
                   {"images_per_currency_unit", "images/" + currency_of(comparisons), true, true}};
  for (const auto& comparison : comparisons) {
    for (const auto& arm : comparison.first_of_case ? comparison.arms : std::vector<ArmSummary>()) {
      if (!arm.images_per_joule && !arm.cpu_images_per_joule && !arm.work_per_currency_unit) { continue; }
      table.rows.push_back(
          {cell(comparison.case_name), cell(arm.arm), throughput_cell(in_images(arm.throughput, arm.unit)),
           cell(arm.images_per_joule, 3), cell(arm.cpu_images_per_joule, 3), price_cell(arm)});
    }
  }
  return table;
}

Table summary_table(const std::vector<CaseComparison>& comparisons) {
  const auto all = comparison_table(comparisons);
  const auto is_shown = [](const Column& column) {
    static const std::set<std::string> shown{
        "case",    "arm",   "images_per_second",        "speedup",   "ratio", "ratio_to",
        "verdict", "sweep", "images_per_currency_unit", "throughput"};
    return shown.contains(column.key);
  };
  Table table;
  for (const auto& column : all.columns) {
    if (is_shown(column)) {
      table.columns.push_back(
          {column.key, column.key == "ratio" ? "ratio" : column.head, column.right, true});
    }
  }
  for (const auto& row : all.rows) {
    auto& cells = table.rows.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (is_shown(all.columns[i])) { cells.push_back(row[i]); }
    }
  }
  SentencesOfCases verdicts;
  for (const auto& comparison : comparisons) {
    if (comparison.test && comparison.verdict != Verdict::not_comparable) {
      verdicts.add(verdict_sentence(comparison), comparison.case_name);
    }
  }
  verdicts.append_to(table.notes);
  for (auto& sentence : sweep_sentences(comparisons)) { table.notes.push_back(std::move(sentence)); }
  table.notes.push_back("Virtualization: " + virtualization_sentence(comparisons) + ".");
  return table;
}

Table experiments_table(const Store& store) {
  Table table;
  table.columns = {
      {"experiment", "experiment"},    {"scenario", "scenario"},   {"label", "label"},
      {"started_at", "started"},       {"status", "status"},       {"trials", "trials", true},
      {"finished", "finished", true},  {"failed", "failed", true}, {"interrupted", "interrupted", true},
      {"probes", "probes", true, true}};
  for (const auto& [experiment, trials, finished, failed, interrupted, probes] : store.list_experiments()) {
    table.rows.push_back({cell(experiment.id), cell(experiment.scenario), cell(experiment.label),
                          cell(experiment.started_at), cell(to_string(experiment.status)), cell(trials),
                          cell(finished), cell(failed), cell(interrupted),
                          cell(probes > 0 ? std::optional(probes) : std::nullopt)});
  }
  if (table.rows.empty()) { table.notes.push_back("no experiments in " + store.file().string()); }
  return table;
}

/// Remarks on its trials: events that are more than the beginning of a stage.
void append_remarks(const Store& store, const std::string& id, std::vector<std::string>& notes) {
  std::map<std::int64_t, std::int64_t> order_of;
  for (const auto& trial : store.trials(id)) { order_of[trial.id] = trial.order.value_or(0); }
  for (const auto& event : store.events(id)) {
    if (event.stage == "pairs" && event.detail.is_object()) {
      notes.push_back(printable(text_in(event.detail, "case") + ": " + text_in(event.detail, "reason")));
      continue;
    }
    const bool is_remark = event.stage == "agent" || event.stage == "collect" || event.stage == "tear_down";
    if (!is_remark || event.message.starts_with("stage ")) { continue; }
    const auto trial = event.trial ? fmt::format("trial {}: ", order_of[*event.trial]) : std::string();
    notes.push_back("noticed: " + trial + event.message);
    const auto xml = text_in(event.detail, "xml_that_mends_it");
    if (!xml.empty()) { notes.push_back("in the domain's XML this would mend it:\n" + xml); }
  }
}

Table show_experiment(const Store& store, const std::string& id) {
  const auto experiment = store.experiment(id);
  if (!experiment) {
    throw Error("show experiment " + id, ErrorCode::not_found,
                "there is none of this id in " + store.file().string() + " (virtrain list shows them)");
  }
  std::vector<std::string> facts;
  for (const auto& [name, fact] : experiment_facts(*experiment)) {
    facts.push_back(fmt::format("{} {}", name, fact));
  }
  Table table;
  table.title = "experiment " + id + ": " + join(facts, ", ");
  table.columns = {{"trial_order", "#", true},
                   {"case", "case"},
                   {"arm", "arm"},
                   {"pair", "pair", true},
                   {"nodes", "nodes", true},
                   {"status", "status"},
                   {"images_per_second", "images/s", true},
                   {"throughput", "throughput", true, true},
                   {"unit", "unit", false, true},
                   {"tenants", "of each tenant", true},
                   {"virtualization", "virtual"},
                   {"started_at", "started"},
                   {"remark", "remark"}};
  for (const auto& trial : store.trials(id)) {
    table.rows.push_back(
        {cell(trial.order), cell(trial.case_name), cell(trial.arm), cell(trial.pair), cell(trial.nodes),
         cell(to_string(trial.status)), throughput_cell(trial.images_per_second),
         other_unit_cell(trial.throughput, trial.unit), trial.throughput ? silent_cell(trial.unit) : Cell{},
         tenants_cell(tenant_values(store, trial.id)), cell(trial.virtualization), cell(trial.started_at),
         cell(remark(trial))});
  }
  for (auto& sentence : variant_sentences(experiment->plan)) { table.notes.push_back(std::move(sentence)); }
  if (const auto probes = store.probes(id).size(); probes > 0) {
    table.notes.push_back(fmt::format("{}{}: virtrain show {} --probes",
                                      table.rows.empty() ? "no trials, " : "", counted(probes, "probe"), id));
  }
  append_remarks(store, id, table.notes);
  for (const auto& [key, value] : experiment->fingerprint) {
    table.notes.push_back(fmt::format("{}: {}", key, value));
  }
  return table;
}

std::string render(const std::vector<CaseComparison>& comparisons, Format format, const Screen& screen) {
  if (format == Format::json) { return canonical_json(to_json(comparisons)) + '\n'; }
  auto text = render(comparison_table(comparisons), format, screen);
  if (format != Format::markdown || comparisons.empty()) { return text; }
  // In a pull request or a CI summary it stands among others' words.
  const auto& first = comparisons.front();
  return fmt::format("### {} against {}\n\n{}", markdown_text(first.candidate), markdown_text(first.baseline),
                     text);
}

}  // namespace virtrain::results
