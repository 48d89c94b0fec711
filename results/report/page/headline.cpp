#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "common/text/text.h"
#include "common/text/units.h"
#include "results/changes/change_groups.h"
#include "results/comparison/verdict.h"
#include "results/report/page/page.h"
#include "results/tables/security_table.h"

namespace virtrain::results {
namespace {

using Cases = std::vector<const CaseComparison*>;

bool is_emulated(const CaseComparison& comparison) {
  return comparison.reason == "emulated";
}

/// Answer for one case: its verdict, and whether "slower" holds beside all other cases.
struct Answer {
  std::optional<Verdict> verdict = {};  ///< nothing: there is no data
  bool uncorrected = false;

  bool operator==(const Answer&) const = default;
};

Answer answer_to(const CaseComparison& comparison) {
  if (!comparison.test) { return {}; }
  const bool uncorrected = comparison.verdict == Verdict::worse && !worse_after_holm(comparison);
  return {comparison.verdict, uncorrected};
}

/// Sentence about `candidate` in a group of cases with the same answer.
std::string answer_phrase(const Answer& answer, const std::string& margin) {
  if (!answer.verdict) { return "without data"; }
  switch (*answer.verdict) {
    case Verdict::worse:
      return fmt::format("slower by more than {}{}", margin,
                         answer.uncorrected ? " before Holm's correction only" : "");
    case Verdict::better:
      return fmt::format("faster by more than {}", margin);
    case Verdict::equivalent:
      return fmt::format("equivalent within {}", margin);
    case Verdict::non_inferior:
      return fmt::format("not slower by {}, though equivalence is not shown", margin);
    case Verdict::inconclusive:
      return "undecided";
    case Verdict::not_comparable:
      break;
  }
  return "not comparable";
}

/// "1.1 to 1.8 % slower", "0.3 % slower to 0.2 % faster": how far the cases of one answer are off.
std::string distance_phrase(const Cases& cases, const Answer& answer) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const auto* one : cases) {
    if (answer_to(*one) != answer) { continue; }
    low = std::min(low, one->test->ratio);
    high = std::max(high, one->test->ratio);
  }
  const auto tenths = [](double ratio) { return std::round((ratio - 1) * 1000) / 10; };
  const auto word = [](double off) { return off < 0 ? "slower" : "faster"; };
  const double slow = tenths(low);
  const double fast = tenths(high);
  if (slow == 0 && fast == 0) { return "level"; }
  if (slow == fast) { return fmt::format("{:.1f} % {}", std::abs(slow), word(slow)); }
  if (slow < 0 && fast > 0) { return fmt::format("{:.1f} % slower to {:.1f} % faster", -slow, fast); }
  return fmt::format("{:.1f} to {:.1f} % {}", std::min(std::abs(slow), std::abs(fast)),
                     std::max(std::abs(slow), std::abs(fast)), word(slow + fast));
}

/// "; 3 of 24 trials failed"; nothing where none did.
std::string failures_phrase(const ReportData& data) {
  std::string words;
  for (const auto& [status, verb] :
       {std::pair{Status::failed, "failed"}, {Status::interrupted, "were interrupted"}}) {
    const auto ended = [wanted = status](const auto& one) { return one.trial.status == wanted; };
    const auto count = std::ranges::count_if(data.trials, ended);
    if (count == 0) { continue; }
    const auto* was = count == 1 && status == Status::interrupted ? "was interrupted" : verb;
    words += fmt::format("; {} of {} {}", count, counted(data.trials.size(), "trial"), was);
  }
  return words;
}

std::string many_cases(const Cases& cases, const ReportData& data) {
  const auto& compare = data.request.compare;
  const std::string margin = fmt::format("{:.4g} %", compare.settings.margin * 100);
  const std::string subject =
      fmt::format("{} against {}", arm_words(compare.candidate), arm_words(compare.baseline));
  if (std::ranges::all_of(cases, [](const auto* one) { return is_emulated(*one) || !one->test; })) {
    return fmt::format("No verdict on {}: the virtual machines were emulated", subject);
  }
  std::vector<std::string> parts;
  // Answers that a reader must not miss come first.
  for (const auto& answer : std::initializer_list<Answer>{{Verdict::worse},
                                                          {},
                                                          {Verdict::worse, true},
                                                          {Verdict::inconclusive},
                                                          {Verdict::non_inferior},
                                                          {Verdict::equivalent},
                                                          {Verdict::better},
                                                          {Verdict::not_comparable}}) {
    const auto count =
        std::ranges::count_if(cases, [&](const auto* one) { return answer_to(*one) == answer; });
    if (count == 0) { continue; }
    const bool all = count == std::ssize(cases);
    const std::string all_words = count == 2 ? "in both cases" : fmt::format("in all {} cases", count);
    const std::string where = all             ? all_words
                              : parts.empty() ? fmt::format("in {} of {} cases", count, cases.size())
                                              : fmt::format("in {}", count);
    const bool measured = answer.verdict && answer.verdict != Verdict::not_comparable;
    parts.push_back(answer_phrase(answer, margin) + " " + where +
                    (measured ? fmt::format(" ({})", distance_phrase(cases, answer)) : ""));
  }
  return fmt::format("{}: {}", subject, fmt::join(parts, ", "));
}

/// "trainer next to neighbours: disturbed by 2 of 6; most is lost next to cpu@100%: 48 % (46 to 50)". Of
/// several arms each is said by itself: "trainer next to neighbours: bare metal loses up to 48 % (46 to 50),
/// VM up to …".
std::string isolation_headline(const ReportData& data) {
  const auto arms = arms_beside_neighbours(data);
  if (arms.empty()) { return ""; }
  const auto loss = [](const IsolationMatrix& matrix) {
    return to_text(*worst_cell(matrix)->against_alone, false);
  };
  if (arms.size() == 1) {
    const auto& only = *arms.front();
    return fmt::format("{} next to neighbours: {}; most is lost next to {}: {}", only.case_name,
                       neighbours_phrase(only), worst_cell(only)->neighbour, loss(only));
  }
  std::string words;
  const IsolationMatrix* before = nullptr;
  for (const auto* matrix : arms) {
    const bool same_victim = before != nullptr && before->case_name == matrix->case_name;
    words += same_victim         ? ", "
             : before == nullptr ? matrix->case_name + " next to neighbours: "
                                 : "; " + matrix->case_name + ": ";
    words += fmt::format("{} {}up to {}", arm_words(matrix->arm), same_victim ? "" : "loses ", loss(*matrix));
    before = matrix;
  }
  return words;
}

std::string verdict_headline(const ReportData& data) {
  if (auto words = isolation_headline(data); !words.empty()) { return words; }
  std::set<std::pair<std::string, std::string>> ran;  // case and arm, however their trials ended
  for (const auto& one : data.trials) { ran.emplace(one.trial.case_name, one.trial.arm); }
  Cases cases;
  for (const auto& one : data.comparisons) {
    const auto& first = data.comparisons.front();
    if (one.baseline != first.baseline || one.candidate != first.candidate) { continue; }
    // A case that ran in one of the arms alone was never to be compared.
    const bool asked =
        ran.contains({one.case_name, one.baseline}) && ran.contains({one.case_name, one.candidate});
    if (one.test || asked) { cases.push_back(&one); }
  }
  const auto& compare = data.request.compare;
  if (std::ranges::none_of(cases, [](const auto* one) { return one->test.has_value(); })) {
    return fmt::format("Nothing to compare: no case has runs of both {} and {}", arm_words(compare.baseline),
                       arm_words(compare.candidate));
  }
  if (cases.size() > 1) { return many_cases(cases, data); }
  return capitalised(verdict_sentence(in_words(*cases.front())));
}

/// The losses of all scenarios that are open; empty without one.
std::string changes_headline(const ReportData& data) {
  std::vector<ChangeGroup> groups;
  for (const auto& log : data.changes) {
    std::ranges::move(change_groups(log->changes), std::back_inserter(groups));
  }
  return losses_headline(groups);
}

}  // namespace

std::vector<const IsolationMatrix*> arms_beside_neighbours(const ReportData& data) {
  std::vector<const IsolationMatrix*> arms;
  for (const auto& matrix : data.isolation.matrices) {
    const bool is_mitigation = std::ranges::any_of(data.isolation.mitigations, [&](const Mitigation& one) {
      return one.case_name == matrix.case_name && one.unit == matrix.unit && one.arm == matrix.arm;
    });
    if (worst_cell(matrix) != nullptr && !is_mitigation) { arms.push_back(&matrix); }
  }
  return arms;
}

std::string neighbours_phrase(const IsolationMatrix& matrix) {
  std::map<Isolated, int> counts;
  int all = 0;
  for (const auto& cell : matrix.cells) {
    if (!cell.against_alone) { continue; }
    ++all;
    ++counts[cell.against_alone->verdict];
  }
  std::vector<std::string> parts;
  for (const auto& [verdict, words] : {std::pair{Isolated::disturbed, "disturbed by {}"},
                                       {Isolated::inconclusive, "undecided next to {}"},
                                       {Isolated::isolated, "isolated from {}"},
                                       {Isolated::faster, "faster next to {}"},
                                       {Isolated::not_comparable, "not comparable next to {}"}}) {
    if (counts[verdict] == 0) { continue; }
    const auto number =
        parts.empty() ? fmt::format("{} of {}", counts[verdict], all) : std::to_string(counts[verdict]);
    parts.push_back(fmt::format(fmt::runtime(words), number));
  }
  return join(parts, ", ");
}

std::string headline(const ReportData& data) {
  if (data.comparisons.empty() && !data.security.empty()) {
    return "leak searches: " + security_summary(data.security);
  }
  if (!data.probe_study.figures.empty()) {
    const auto words = probe_summary(data.probe_study);
    return words.empty() ? fmt::format("Micro-benchmarks: none of {} is more than {:.3g} % slower",
                                       counted(data.probe_study.figures.size(), "figure"),
                                       data.probe_study.settings.margin * 100)
                         : "Micro-benchmarks: " + words;
  }
  // Verdicts over nights before and after a loss say little: both arms may have lost.
  const auto changes = changes_headline(data);
  return (changes.empty() ? verdict_headline(data) : changes) + failures_phrase(data);
}

}  // namespace virtrain::results
