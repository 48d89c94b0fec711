#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/verdict.h"
#include "results/tables/tables.h"

namespace virtrain::results {
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
