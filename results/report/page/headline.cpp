#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "results/comparison/verdict.h"
#include "results/report/page/page.h"

namespace virtrain::results {
namespace {

using Cases = std::vector<const CaseComparison*>;

bool is_emulated(const CaseComparison& comparison) {
  return comparison.reason == "emulated";
}

/// What one verdict says of `candidate` in a group of cases.
std::string verdict_phrase(Verdict verdict, const std::string& margin) {
  switch (verdict) {
    case Verdict::worse:
      return fmt::format("slower by more than {}", margin);
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

std::string many_cases(const Cases& cases, const ReportData& data) {
  const auto& compare = data.request.compare;
  const std::string margin = fmt::format("{:.4g} %", compare.settings.margin * 100);
  const std::string subject =
      fmt::format("{} against {}", arm_words(compare.candidate), arm_words(compare.baseline));
  if (std::all_of(cases.begin(), cases.end(), [](const auto* one) { return is_emulated(*one); })) {
    return fmt::format("No verdict on {}: the virtual machines were emulated", subject);
  }
  std::vector<std::string> parts;
  // What a reader must not miss comes first.
  for (const auto verdict : {Verdict::worse, Verdict::inconclusive, Verdict::non_inferior,
                             Verdict::equivalent, Verdict::better, Verdict::not_comparable}) {
    const auto count =
        std::count_if(cases.begin(), cases.end(), [&](const auto* one) { return one->verdict == verdict; });
    if (count == 0) { continue; }
    const bool all = count == std::ssize(cases);
    const std::string all_words = count == 2 ? "in both cases" : fmt::format("in all {} cases", count);
    const std::string where = all             ? all_words
                              : parts.empty() ? fmt::format("in {} of {} cases", count, cases.size())
                                              : fmt::format("in {}", count);
    parts.push_back(verdict_phrase(verdict, margin) + " " + where);
  }
  return fmt::format("{}: {}", subject, fmt::join(parts, ", "));
}

/// "trainer beside neighbours: disturbed by 2 of 6, most by cpu@100%: 48 % (46 to 50)"
std::string isolation_headline(const ReportData& data) {
  std::map<Isolated, int> counts;
  int all = 0;
  const NeighbourCell* worst = nullptr;
  std::set<std::string> victims;
  for (const auto& matrix : data.isolation) {
    for (const auto& cell : matrix.cells) {
      if (!cell.against_alone) { continue; }
      ++all;
      ++counts[cell.against_alone->verdict];
      victims.insert(matrix.case_name);
      if (worst == nullptr || cell.against_alone->loss > worst->against_alone->loss) { worst = &cell; }
    }
  }
  if (worst == nullptr) { return ""; }
  std::vector<std::string> parts;
  for (const auto& [verdict, words] : {std::pair{Isolated::disturbed, "disturbed by {}"},
                                       {Isolated::inconclusive, "undecided beside {}"},
                                       {Isolated::isolated, "isolated from {}"},
                                       {Isolated::faster, "faster beside {}"},
                                       {Isolated::not_comparable, "not comparable beside {}"}}) {
    if (counts[verdict] == 0) { continue; }
    const auto number =
        parts.empty() ? fmt::format("{} of {}", counts[verdict], all) : std::to_string(counts[verdict]);
    parts.push_back(fmt::format(fmt::runtime(words), number));
  }
  return fmt::format("{} beside neighbours: {}; most is lost beside {}: {}", fmt::join(victims, ", "),
                     fmt::join(parts, ", "), worst->neighbour, to_text(*worst->against_alone, false));
}

}  // namespace

std::string headline(const ReportData& data) {
  if (auto words = isolation_headline(data); !words.empty()) { return words; }
  Cases cases;
  for (const auto& one : data.comparisons) {
    const auto& first = data.comparisons.front();
    if (one.test && one.baseline == first.baseline && one.candidate == first.candidate) {
      cases.push_back(&one);
    }
  }
  const auto& compare = data.request.compare;
  if (cases.empty()) {
    return fmt::format("Nothing to compare: no case has runs of both {} and {}", arm_words(compare.baseline),
                       arm_words(compare.candidate));
  }
  if (cases.size() > 1) { return many_cases(cases, data); }
  auto sentence = verdict_sentence(in_words(*cases.front()));
  if (!sentence.empty() && sentence[0] >= 'a' && sentence[0] <= 'z') { sentence[0] -= 'a' - 'A'; }
  return sentence;
}

}  // namespace virtrain::results
