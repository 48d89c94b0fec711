#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "common/text/wrap.h"
#include "results/comparison/compare.h"
#include "results/comparison/compare_json.h"
#include "results/comparison/verdict.h"
#include "results/store/canonical_json.h"
#include "results/tables/tables.h"

namespace virtrain::results {
namespace {

/// A line for an arm of a case.
struct ArmLine {
  const CaseComparison* of;
  const ArmSummary* arm;
  const CaseComparison* verdict = nullptr;  ///< of the arm against another; none: it is the candidate of none
  bool names_baseline = false;              ///< not all verdicts are against the same arm
};

/// Images for a unit of the currency; programs get no value of what else is counted, and people its name.
Cell price_cell(const ArmSummary& arm) {
  auto result = cell(arm.work_per_currency_unit, arm.work_per_currency_unit.value_or(0) < 100 ? 3 : 0);
  if (arm.work_per_currency_unit && arm.unit != images_unit) {
    result = {nullptr, result.text + " " + printable(work_of(arm.unit))};
  }
  return result;
}

Cell ratio_cell(const ArmLine& row) {
  return row.verdict ? Cell{row.verdict->test->ratio, ratio_words(row.verdict->test->ratio)} : Cell{};
}

bool is_judged(const CaseComparison& of) {
  return of.verdict != Verdict::not_comparable;
}

Cell ratio_limit(const ArmLine& row, double Interval::*end) {
  return row.verdict && is_judged(*row.verdict) ? limit_cell(row.verdict->test->ci, end) : Cell{};
}

std::optional<double> scaling_of(const ArmLine& row, double Scaling::*member) {
  return row.arm->scaling ? std::optional(*row.arm->scaling.*member) : std::nullopt;
}

Cell scaling_limit(const ArmLine& row, std::optional<Interval> Scaling::*interval, double Interval::*end) {
  return row.arm->scaling ? limit_cell(*row.arm->scaling.*interval, end) : Cell{};
}

Cell sweep_limit(const ArmLine& row, double Interval::*end) {
  const bool is_known = row.arm->sweep && row.arm->sweep->ci;
  return cell(is_known ? std::optional(*row.arm->sweep->ci.*end) : std::nullopt, 2);
}

/// "vm", or "c, vm" where selectors compare each arm with itself.
std::string name_of(const CaseComparison& of, const ArmSummary& arm) {
  return of.arm.empty() ? arm.arm : of.arm + ", " + arm.arm;
}

using A = ArmLine;
constexpr ColumnOf<A> arm_columns[] = {
    {"case", "case", [](const A& of) { return cell(of.of->case_name); }},
    {"arm", "arm", [](const A& of) { return cell(name_of(*of.of, *of.arm)); }},
    {"nodes", "nodes", [](const A& of) { return cell(of.arm->nodes); }, true},
    {"runs", "runs", [](const A& of) { return cell(of.arm->runs); }, true},
    {"images_per_second", "images/s",
     [](const A& of) { return throughput_cell(in_images(of.arm->throughput, of.arm->unit)); }, true, true},
    {"tenants", "of each tenant", [](const A& of) { return tenants_cell(of.arm->tenants); }, true},
    {"speedup", "speedup", [](const A& of) { return cell(scaling_of(of, &Scaling::speedup), 3); }, true},
    {"ideal", "ideal",
     [](const A& of) { return cell(of.arm->scaling ? std::optional(of.arm->nodes) : std::nullopt); }, true,
     true},
    {"published_speedup", "published",
     [](const A& of) {
       const bool is_known = of.arm->scaling && of.arm->published;
       return cell(is_known ? std::optional(of.arm->published->speedup) : std::nullopt, 3);
     },
     true, true},
    {"efficiency", "efficiency", [](const A& of) { return share_cell(scaling_of(of, &Scaling::efficiency)); },
     true},
    {"ratio", "ratio", ratio_cell, true},
    {"ratio_to", "to",
     [](const A& of) { return cell(of.verdict && of.names_baseline ? of.verdict->baseline : ""); }, false,
     true},
    {"verdict", "verdict",
     [](const A& of) { return cell(of.verdict ? to_string(of.verdict->verdict) : ""); }},
    {"sweep", "of the sweep",
     [](const A& of) { return cell(of.arm->sweep ? std::string(to_string(of.arm->sweep->standing)) : ""); },
     false, true},
    {"sweep_ci_low", "95 % from", [](const A& of) { return sweep_limit(of, &Interval::low); }, true, true},
    {"sweep_ci_high", "to", [](const A& of) { return sweep_limit(of, &Interval::high); }, true, true},
    {"images_per_joule", "images/J of GPUs", [](const A& of) { return cell(of.arm->images_per_joule, 3); },
     true, true},
    {"cpu_images_per_joule", "images/J of CPUs",
     [](const A& of) { return cell(of.arm->cpu_images_per_joule, 3); }, true, true},
    {"throughput", "throughput",
     [](const A& of) { return other_unit_cell(of.arm->throughput, of.arm->unit); }, true, true},
    {"unit", "unit", [](const A& of) { return unit_cell(of.arm->throughput, of.arm->unit); }, false, true},
    {"images_per_currency_unit", "images/currency", [](const A& of) { return price_cell(*of.arm); }, true,
     true},
    {"ratio_ci_low", "", [](const A& of) { return ratio_limit(of, &Interval::low); }, true, true},
    {"ratio_ci_high", "", [](const A& of) { return ratio_limit(of, &Interval::high); }, true, true},
    {"speedup_ci_low", "",
     [](const A& of) { return scaling_limit(of, &Scaling::speedup_ci, &Interval::low); }, true, true},
    {"speedup_ci_high", "",
     [](const A& of) { return scaling_limit(of, &Scaling::speedup_ci, &Interval::high); }, true, true},
    {"efficiency_ci_low", "",
     [](const A& of) { return scaling_limit(of, &Scaling::efficiency_ci, &Interval::low); }, true, true},
    {"efficiency_ci_high", "",
     [](const A& of) { return scaling_limit(of, &Scaling::efficiency_ci, &Interval::high); }, true, true},
    {"currency", "",
     [](const A& of) { return of.arm->work_per_currency_unit ? silent_cell(of.arm->currency) : Cell{}; },
     true, true}};

/// The comparison of this case in which the arm is the candidate; null: in none that has a ratio.
const CaseComparison* judged(const std::vector<CaseComparison>& comparisons, const CaseComparison& first,
                             const std::string& arm) {
  for (const auto* one = &first; one != comparisons.data() + comparisons.size(); ++one) {
    if (one != &first && one->first_of_case) { break; }
    if (one->candidate == arm && one->test) { return one; }
  }
  return nullptr;
}

bool compares_same_arms(const std::vector<CaseComparison>& comparisons) {
  return std::ranges::all_of(comparisons, [&](const CaseComparison& one) {
    return one.candidate == comparisons.front().candidate && one.baseline == comparisons.front().baseline;
  });
}

std::vector<ArmLine> lines_of_arms(const std::vector<CaseComparison>& comparisons) {
  const bool names_baseline = !compares_same_arms(comparisons);
  std::vector<ArmLine> rows;
  for (const auto& one : comparisons) {
    if (!one.first_of_case) { continue; }
    for (const auto& arm : one.arms) {
      rows.push_back({&one, &arm, judged(comparisons, one, arm.arm), names_baseline});
    }
  }
  return rows;
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

/// The named columns; headings say what is divided by what, and in which currency.
Table arms_table(const std::vector<CaseComparison>& comparisons, const std::vector<ArmLine>& rows,
                 const std::vector<std::string>& keys = {}) {
  std::vector<ColumnOf<ArmLine>> columns;
  std::ranges::copy_if(arm_columns, std::back_inserter(columns),
                       [&](const auto& one) { return keys.empty() || contains(keys, std::string(one.key)); });
  auto table = table_of(columns, rows);
  for (auto& column : table.columns) {
    if (column.key == "ratio" && !comparisons.empty() && compares_same_arms(comparisons)) {
      column.head = comparisons.front().candidate + "/" + comparisons.front().baseline;
    }
    if (column.key == "images_per_currency_unit") { column.head = "images/" + currency_of(comparisons); }
  }
  return table;
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
  /// `all`: what to call this many cases, of which nobody needs the names.
  void append_to(std::vector<std::string>& lines, std::size_t all = 0) const {
    for (const auto& [sentence, cases] : sentences_) {
      const bool is_all = all > 1 && cases.size() == all;
      lines.push_back((is_all ? "All cases" : join(cases, ", ")) + ": " + sentence + ".");
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

/// Says where the published speedup of an arm comes from.
void add_source(const CaseComparison& comparison, const ArmSummary& arm, SentencesOfCases& notes) {
  if (!arm.scaling || !arm.published) { return; }
  notes.add("the published speedup is that of experiment " + arm.published->experiment, comparison.case_name);
}

/// Where the published speedups come from, and tenants against their runs alone.
void add_arm_notes(const CaseComparison& comparison, SentencesOfCases& notes) {
  for (const auto& arm : comparison.arms) {
    add_source(comparison, arm, notes);
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
      const auto name = name_of(comparison, arm);
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

}  // namespace

Table comparison_table(const std::vector<CaseComparison>& comparisons) {
  auto table = arms_table(comparisons, lines_of_arms(comparisons));
  SentencesOfCases verdicts;
  SentencesOfCases notes;
  for (const auto& comparison : comparisons) {
    verdicts.add(verdict_sentence(comparison), comparison.case_name);
    for (const auto& note : comparison.notes) { notes.add(note, comparison.case_name); }
    if (comparison.first_of_case) { add_arm_notes(comparison, notes); }
  }
  table.notes.push_back("Virtualization: " + virtualization_sentence(comparisons) + ".");
  verdicts.append_to(table.notes);
  if (const auto family = family_sentence(comparisons); !family.empty()) {
    table.notes.push_back(family + ".");
  }
  for (auto& sentence : sweep_sentences(comparisons)) { table.notes.push_back(std::move(sentence)); }
  notes.append_to(table.notes);
  append_predictions(comparisons, table.notes);
  return table;
}

std::string verdict_word(const CaseComparison& comparison) {
  if (!comparison.test) { return "no data"; }
  if (!comparison.test->ci_tost && comparison.verdict == Verdict::inconclusive) { return "no interval"; }
  return spaced(to_string(comparison.verdict));
}

Table costs_table(const std::vector<CaseComparison>& comparisons) {
  auto rows = lines_of_arms(comparisons);
  std::erase_if(rows, [](const ArmLine& row) {
    return !row.arm->images_per_joule && !row.arm->cpu_images_per_joule && !row.arm->work_per_currency_unit;
  });
  return arms_table(comparisons, rows,
                    {"case", "arm", "images_per_second", "images_per_joule", "cpu_images_per_joule",
                     "images_per_currency_unit"});
}

namespace {

/// A line for a comparison that has a ratio.
struct CaseRow {
  const CaseComparison* of;
  std::string name;  ///< of the case, or of the arms where one table is of one case
  bool has_size;     ///< the title does not say how much was compared
};

const ArmSummary* summary_of_side(const CaseComparison& of, const std::string& arm) {
  const auto found = std::ranges::find(of.arms, arm, &ArmSummary::arm);
  return found == of.arms.end() ? nullptr : &*found;
}

/// "1234.5", or "1234.5 tokens/s" where it is not in images/s.
Cell in_own_unit(const std::optional<double>& throughput, const std::string& unit) {
  return unit == images_unit ? throughput_cell(throughput) : other_unit_cell(throughput, unit);
}

Cell side_cell(const CaseComparison& of, const std::string& arm) {
  const auto* side = summary_of_side(of, arm);
  return side == nullptr ? Cell{} : in_own_unit(side->throughput, side->unit);
}

Cell interval_cell(const CaseComparison& of) {
  const auto& ci = of.test->ci_tost;
  if (!ci || !is_judged(of)) { return {}; }
  return cell(ratio_words(ci->low) + " … " + ratio_words(ci->high));
}

using C = CaseRow;
constexpr ColumnOf<C> case_columns[] = {
    {"case", "case", [](const C& of) { return cell(of.name); }, false, false, true},
    {"baseline", "", [](const C& of) { return side_cell(*of.of, of.of->baseline); }, true, true, true},
    {"candidate", "", [](const C& of) { return side_cell(*of.of, of.of->candidate); }, true, true, true},
    {"ratio", "ratio", [](const C& of) { return cell(ratio_words(of.of->test->ratio)); }, true},
    {"interval", "", [](const C& of) { return interval_cell(*of.of); }, false, true},
    {"verdict", "verdict", [](const C& of) { return cell(verdict_word(*of.of)); }},
    {"compared", "compared", [](const C& of) { return cell(of.has_size ? size_words(*of.of) : ""); }, false,
     true, false, true}};

using CaseList = std::vector<const CaseComparison*>;

bool of_same_arms(const CaseComparison& a, const CaseComparison& b) {
  return a.baseline == b.baseline && a.candidate == b.candidate;
}

/// Those with a ratio, a list for each table: of two arms, or, where more pairs of arms than cases were
/// compared, of one case.
std::vector<CaseList> tables_of_cases(const std::vector<CaseComparison>& comparisons) {
  CaseList pairs;
  std::set<std::string> cases;
  for (const auto& one : comparisons) {
    if (!one.test) { continue; }
    cases.insert(one.case_name);
    if (std::ranges::none_of(pairs, [&](const auto* pair) { return of_same_arms(*pair, one); })) {
      pairs.push_back(&one);
    }
  }
  const bool by_case = pairs.size() > 1 && pairs.size() > cases.size();
  std::vector<CaseList> tables;
  for (const auto& one : comparisons) {
    if (!one.test) { continue; }
    auto same = std::ranges::find_if(tables, [&](const CaseList& table) {
      return by_case ? table[0]->case_name == one.case_name : of_same_arms(*table[0], one);
    });
    if (same == tables.end()) { same = tables.insert(tables.end(), CaseList()); }
    same->push_back(&one);
  }
  return tables;
}

/// The word for all of them; empty where they differ.
template <typename Word>
std::string common_word(const CaseList& compared, Word&& word) {
  const std::string first = word(*compared[0]);
  return std::ranges::all_of(compared, [&](const auto* one) { return word(*one) == first; }) ? first : "";
}

/// A line for each comparison of `compared`, under "vm against bare_metal: images/s, 6 pairs, margin 2 %".
Table case_table(const CaseList& compared) {
  const auto& first = *compared[0];
  const bool of_arms =
      std::ranges::all_of(compared, [&](const auto* one) { return of_same_arms(*one, first); });
  const auto size = common_word(compared, size_words);
  std::vector<CaseRow> rows;
  for (const auto* one : compared) {
    const auto case_name = one->case_name + (one->arm.empty() ? "" : ", " + one->arm);
    rows.push_back({one, of_arms ? case_name : one->candidate + "/" + one->baseline, size.empty()});
  }
  auto table = table_of(case_columns, rows);
  std::vector<std::string> parts{
      common_word(compared, [](const auto& one) { return printable(one.throughput_unit); }), size,
      fmt::format("margin {:.4g} %", first.settings.margin * 100)};
  std::erase(parts, "");
  table.title =
      (of_arms ? first.candidate + " against " + first.baseline : first.case_name) + ": " + join(parts, ", ");
  table.columns[0].head = of_arms ? "case" : "arms";
  table.columns[1].head = of_arms ? first.baseline : "baseline";
  table.columns[2].head = of_arms ? first.candidate : "candidate";
  table.columns[4].head = deciding_interval(compared);
  return table;
}

/// Arms of the comparison's lines for which this holds, with these columns.
template <typename Holds>
Table chosen_arms(const std::vector<CaseComparison>& comparisons, const char* title,
                  const std::vector<std::string>& keys, Holds&& holds) {
  auto rows = lines_of_arms(comparisons);
  std::erase_if(rows, [&](const ArmLine& row) { return !holds(row); });
  auto table = arms_table(comparisons, rows, keys);
  table.title = title;
  for (auto& column : table.columns) {
    column.hide_empty = true;
    column.shrinks = column.key == "case" || column.key == "arm";
  }
  return table;
}

bool has_any_ratio(const std::vector<CaseComparison>& comparisons, const std::string& case_name) {
  return std::ranges::any_of(comparisons,
                             [&](const auto& one) { return one.case_name == case_name && one.test; });
}

/// A tenant of a case with several.
struct TenantRow {
  const CaseComparison* of;
  const ArmSummary* arm;
  const TenantMean* tenant;
  const TenantAlone* alone = nullptr;  ///< none: it has no run alone
};

const TenantAlone* alone_of(const ArmSummary& arm, std::int64_t tenant) {
  if (!arm.alone) { return nullptr; }
  const auto found = std::ranges::find(arm.alone->tenants, tenant, &TenantAlone::tenant_index);
  return found == arm.alone->tenants.end() ? nullptr : &*found;
}

Cell tenant_tail_cell(const TenantRow& of) {
  if (of.alone == nullptr || !of.alone->tail) { return {}; }
  const auto& tail = *of.alone->tail;
  return tail.ci ? Cell{tail.inflation,
                        fmt::format("{:.3f} ({:.3f} … {:.3f})", tail.inflation, tail.ci->low, tail.ci->high)}
                 : cell("too few steps");
}

using W = TenantRow;
constexpr ColumnOf<W> tenant_columns[] = {
    {"case", "case", [](const W& of) { return cell(of.of->case_name); }, false, false, true},
    {"arm", "arm", [](const W& of) { return cell(of.arm->arm); }, false, false, true},
    {"tenant", "tenant",
     [](const W& of) {
       return of.tenant->name.empty() ? cell(of.tenant->tenant_index + 1) : cell(of.tenant->name);
     },
     false, false, true},
    {"images_per_second", "together",
     [](const W& of) { return in_own_unit(of.tenant->throughput, of.tenant->unit); }, true},
    {"alone", "alone",
     [](const W& of) {
       return of.alone != nullptr ? in_own_unit(of.alone->alone_throughput, of.alone->unit) : Cell{};
     },
     true, true},
    {"slowdown", "slowdown",
     [](const W& of) { return of.alone != nullptr ? cell(std::optional(of.alone->slowdown), 3) : Cell{}; },
     true, true},
    {"p99", "p99 of steps ×", tenant_tail_cell, true, true}};

Table tenants_table(const std::vector<CaseComparison>& comparisons) {
  std::vector<TenantRow> rows;
  for (const auto& one : comparisons) {
    for (const auto& arm : one.arms) {
      if (!one.first_of_case || arm.tenants.size() < 2) { continue; }
      for (const auto& tenant : arm.tenants) {
        rows.push_back({&one, &arm, &tenant, alone_of(arm, tenant.tenant_index)});
      }
    }
  }
  auto table = table_of(tenant_columns, rows);
  table.title = "Tenants: throughput together, and of each one's run alone";
  return table;
}

/// Sentences on facts that differ and do not forbid the comparison.
std::set<std::string> explained_differences(const CaseComparison& one) {
  std::set<std::string> sentences;
  for (const auto& difference : one.differences) {
    if (!forbids(difference)) { sentences.insert(to_sentence(difference, one.baseline, one.candidate)); }
  }
  return sentences;
}

/// Names what the view leaves out, with the option that shows it.
std::string more_words(const std::vector<CaseComparison>& comparisons, const ComparisonView& view,
                       bool has_tenants) {
  std::vector<std::string> more;
  if (!view.tenants && has_tenants) { more.emplace_back("--tenants lists the tenants of each case"); }
  const bool differ = std::ranges::any_of(
      comparisons, [](const CaseComparison& one) { return !explained_differences(one).empty(); });
  if (!view.notes && differ) { more.emplace_back("--notes lists properties that differ and may"); }
  const bool asks_why = std::ranges::any_of(comparisons, [](const CaseComparison& one) {
    return one.verdict == Verdict::worse && !one.explanation;
  });
  if (asks_why) { more.emplace_back("--explain ranks what may have caused gaps"); }
  return more.empty() || view.brief ? "" : "More: " + join(more, "; ") + ".";
}

/// Whether the explanation or the notes have the reason why it is not comparable, or the table shows that
/// nothing is.
bool is_said_elsewhere(const CaseComparison& one, const ComparisonView& view) {
  if (view.brief) { return !one.test; }
  return (one.reason == "emulated" && one.explanation) || one.reason == "differs";
}

/// Sentences below the tables: no verdict without its reason, and remarks unless they are to be few.
std::vector<std::string> notes_below(const std::vector<CaseComparison>& comparisons,
                                     const ComparisonView& view) {
  std::vector<std::string> lines;
  std::set<std::string> cases;
  SentencesOfCases remarks, notes;
  std::vector<std::string> further;
  for (const auto& one : comparisons) {
    cases.insert(one.case_name);
    const auto remark = verdict_remark(one);
    if (one.further_pairs && remark == outlook(one)) {
      further.push_back(fmt::format("{} ({})", one.case_name, *one.further_pairs));
    } else if (!remark.empty() && !is_said_elsewhere(one, view)) {
      remarks.add((verdict_word(one) == "no interval" ? "no interval: " : "") + remark, one.case_name);
    }
    if (view.brief) { continue; }
    const auto explained = view.notes ? std::set<std::string>() : explained_differences(one);
    for (const auto& note : one.notes) {
      if (note != emulated_note && !explained.contains(note)) { notes.add(note, one.case_name); }
    }
    if (!one.first_of_case) { continue; }
    for (const auto& arm : one.arms) { add_source(one, arm, notes); }
  }
  if (const auto family = family_sentence(comparisons); !family.empty()) { lines.push_back(family + "."); }
  remarks.append_to(lines, cases.size());
  if (!further.empty()) {
    lines.push_back("Further pairs that should settle it: " + join(further, ", ") + ".");
  }
  for (auto& sentence : sweep_sentences(comparisons)) { lines.push_back(std::move(sentence)); }
  lines.push_back("Virtualization: " + virtualization_sentence(comparisons) + ".");
  notes.append_to(lines, cases.size());
  append_predictions(comparisons, lines);
  return lines;
}

/// The comparison for people at a terminal.
std::string screen_text(const std::vector<CaseComparison>& comparisons, const Screen& screen,
                        const ComparisonView& view) {
  std::string out;
  const auto add = [&](const Table& table) {
    if (!table.rows.empty()) { out += render(table, Format::table, screen) + '\n'; }
  };
  for (const auto& compared : tables_of_cases(comparisons)) { add(case_table(compared)); }
  const bool compares =
      std::ranges::any_of(comparisons, [](const auto& one) { return one.test.has_value(); });
  add(chosen_arms(comparisons, compares ? "Not compared" : "Throughput",
                  {"case", "arm", "nodes", "runs", "images_per_second", "throughput"},
                  [&](const ArmLine& row) {
                    return row.arm->runs > 0 && !has_any_ratio(comparisons, row.of->case_name);
                  }));
  add(chosen_arms(comparisons, "Scaling",
                  {"case", "arm", "images_per_second", "throughput", "speedup", "ideal", "published_speedup",
                   "efficiency"},
                  [](const ArmLine& row) { return row.arm->scaling && row.arm->nodes > 1; }));
  add(chosen_arms(
      comparisons, "Sweep",
      {"case", "arm", "images_per_second", "throughput", "sweep", "sweep_ci_low", "sweep_ci_high"},
      [](const ArmLine& row) { return row.arm->sweep.has_value(); }));
  auto costs = costs_table(comparisons);
  costs.title = "Cost";
  add(costs);
  const auto tenants = tenants_table(comparisons);
  if (view.tenants) { add(tenants); }
  const auto explained = explanations_of(comparisons);
  for (const auto& table : explained.tables) { add(table); }
  auto notes = notes_below(comparisons, view);
  notes.insert(notes.begin(), explained.rest.begin(), explained.rest.end());
  if (auto more = more_words(comparisons, view, !tenants.rows.empty()); !more.empty()) {
    notes.push_back(std::move(more));
  }
  for (const auto& note : notes) { out += hang(printable(note), screen.columns) + '\n'; }
  return out;
}

}  // namespace

std::string render(const std::vector<CaseComparison>& comparisons, Format format, const Screen& screen,
                   const ComparisonView& view) {
  if (format == Format::table) { return screen_text(comparisons, screen, view); }
  if (format == Format::json) { return canonical_json(to_json(comparisons)) + '\n'; }
  auto text = render(comparison_table(comparisons), format, screen);
  if (format != Format::markdown || comparisons.empty()) { return text; }
  // In a pull request or a CI summary it stands among others' words.
  const auto explained = explanations_of(comparisons);
  for (const auto& table : explained.tables) { text += '\n' + render(table, format); }
  for (const auto& sentence : explained.rest) { text += "\n" + markdown_text(sentence) + "\n"; }
  const auto& first = comparisons.front();
  return fmt::format("### {} against {}\n\n{}", markdown_text(first.candidate), markdown_text(first.baseline),
                     text);
}

namespace {

/// A difference of throughput below this is none.
constexpr double nothing = 0.0005;

constexpr const char* more_probes =
    "probes in the scenario (probes: [triad, gemm]), which measure what the nodes can do in each arm";

/// A cause of one case's gap, or what no cause accounts for.
struct CauseLine {
  const Finding* finding;  ///< none: the rest
  std::string effect;
};

std::string points(double share) {
  return fmt::format("{:.1f} %", std::abs(share) * 100);
}

/// Causes that were measured and overlap explain more than there is: each is a bound then.
bool overlaps(const Explanation& of) {
  return of.unexplained && *of.unexplained < -0.005;
}

std::string effect_of(const Finding& finding, const Explanation& of) {
  if (!finding.cost) { return "no estimate"; }
  auto cost = *finding.cost;
  const bool is_bound = finding.at_most || (overlaps(of) && cost * of.gap > 0);
  if (is_bound && std::abs(cost) > std::abs(of.gap)) { cost = of.gap; }
  return fmt::format("{} {} {}", cost < 0 ? "gains" : "costs", is_bound ? "up to" : "about", points(cost));
}

/// "1.3 to 4.8 %": without the bounds, and with all of them.
std::string not_accounted_for(const Explanation& of) {
  if (overlaps(of)) { return "nothing: they overlap"; }
  const double gap = std::log(of.ratio);
  const double most = *of.unexplained * gap;
  double bounds = 0;
  for (const auto& finding : of.findings) {
    if (finding.at_most && finding.cost) { bounds += std::log1p(-*finding.cost); }
  }
  const auto share = [](double log_factor) { return 1 - std::exp(log_factor); };
  if (std::abs(share(most)) < nothing) { return "nothing"; }
  if (std::abs(bounds) < nothing) { return points(share(most)); }
  const double least = (most - bounds) * most > 0 ? share(most - bounds) : 0;
  if (std::abs(least) < nothing) { return "up to " + points(share(most)); }
  return fmt::format("{:.1f} to {}", std::abs(least) * 100, points(share(most)));
}

using L = CauseLine;
constexpr ColumnOf<L> cause_columns[] = {
    {"cause", "cause",
     [](const L& of) { return cell(of.finding != nullptr ? of.finding->name : "not accounted for"); }},
    {"baseline", "", [](const L& of) { return cell(of.finding != nullptr ? of.finding->baseline : ""); },
     true, true, true},
    {"candidate", "", [](const L& of) { return cell(of.finding != nullptr ? of.finding->candidate : ""); },
     true, true, true},
    {"effect", "effect", [](const L& of) { return cell(of.effect); }},
    {"words", "what was seen",
     [](const L& of) { return cell(of.finding != nullptr ? of.finding->meaning : ""); }, false, true, false,
     true}};

std::string title_of_gap(const CaseComparison& one) {
  const double off = 1 - one.test->ratio;
  std::string interval;
  if (const auto& ci = one.test->ci_tost) {
    const auto [near, far] = std::minmax({std::abs(1 - ci->low), std::abs(1 - ci->high)});
    interval =
        fmt::format(" ({} interval {:.1f} to {})", level_words(one.settings.alpha), near * 100, points(far));
  } else {
    interval = " (no interval)";
  }
  return fmt::format("{}: {} is {} {} than {}{}", one.case_name, one.candidate, points(off),
                     off > 0 ? "slower" : "faster", one.baseline, interval);
}

/// Says what differs and must not, and what to try.
std::vector<std::string> advice_on(const CaseComparison& one) {
  std::vector<std::string> lines;
  for (const auto& difference : one.differences) {
    if (!forbids(difference)) { continue; }
    const auto words = [](const std::set<std::string>& values) {
      return excerpt(join({values.begin(), values.end()}, ", "));
    };
    lines.push_back(fmt::format("Differs and must be equal: {} ({} → {}).", printable(difference.field),
                                words(difference.baseline), words(difference.candidate)));
  }
  const auto& findings = one.explanation->findings;
  const auto first = std::ranges::find_if(findings, [&](const auto& finding) {
    return finding.cost && *finding.cost * one.explanation->gap > 0;
  });
  lines.push_back(fmt::format("Try next: {}.", first != findings.end() ? first->next : more_probes));
  return lines;
}

Table explanation_table(const CaseComparison& one) {
  const auto& of = *one.explanation;
  std::vector<CauseLine> lines;
  for (const auto& finding : of.findings) { lines.push_back({&finding, effect_of(finding, of)}); }
  lines.push_back({nullptr, not_accounted_for(of)});
  auto table = table_of(cause_columns, lines);
  table.title = title_of_gap(one);
  table.columns[1].head = one.baseline;
  table.columns[2].head = one.candidate;
  table.notes = advice_on(one);
  return table;
}

/// "a, b and c", "12 cases".
std::string names_of(const std::vector<std::string>& cases) {
  constexpr std::size_t most = 3;
  return cases.size() <= most ? join(cases, ", ") : counted(cases.size(), "case");
}

}  // namespace

Explanations explanations_of(const std::vector<CaseComparison>& comparisons) {
  Explanations result;
  std::vector<const CaseComparison*> gaps;
  std::vector<std::string> emulated, unknown, level;
  double largest = 0;
  for (const auto& one : comparisons) {
    if (!one.explanation) { continue; }
    if (one.reason == "emulated") {
      add_once(emulated, one.case_name);
    } else if (is_beyond_noise(one) && one.explanation->unexplained) {
      gaps.push_back(&one);
    } else {
      add_once(level, one.case_name);
      largest = std::max(largest, std::abs(one.explanation->gap));
    }
  }
  std::ranges::stable_sort(gaps, std::greater(),
                           [](const auto* one) { return std::abs(std::log(one->test->ratio)); });
  for (const auto* one : gaps) {
    if (one->explanation->findings.empty()) {
      unknown.push_back(fmt::format("{} ({})", one->case_name, points(one->explanation->gap)));
    } else {
      result.tables.push_back(explanation_table(*one));
    }
  }
  if (!emulated.empty()) {
    result.rest.push_back(
        names_of(emulated) +
        ": QEMU emulated the processor, which explains the gap. Nothing else is broken down.");
  }
  if (!unknown.empty()) {
    result.rest.push_back(fmt::format("Gaps without a cause that was measured: {}. Try next: {}.",
                                      join(unknown, ", "), more_probes));
  }
  if (!level.empty()) {
    result.rest.push_back(fmt::format("{}: no gap beyond noise (at most {}), nothing to explain.",
                                      names_of(level), points(largest)));
  }
  return result;
}

}  // namespace virtrain::results
