#include "results/comparison/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "common/model/trial_key.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/compare.h"

namespace virtrain::results {
namespace {

/// 0.02 as "2 %", 0.015 as "1.5 %".
std::string percent(double share) {
  return fmt::format("{:.4g} %", share * 100);
}

/// "1.32 % below bare_metal".
std::string distance(const CaseComparison& comparison) {
  const double off = (comparison.test->ratio - 1) * 100;
  if (std::abs(off) < 0.005) { return "level with " + comparison.baseline; }
  return fmt::format("{:.2f} % {} {}", std::abs(off), off < 0 ? "below" : "above", comparison.baseline);
}

std::string evidence(const CaseComparison& comparison) {
  const auto& [low, high] = *comparison.test->ci_tost;
  constexpr double far = 1000;
  return fmt::format("({} interval {} … {}, {})", level_words(comparison.settings.alpha), ratio_words(low),
                     high < far ? ratio_words(high) : fmt::format("{:.3g}", high), size_words(comparison));
}

/// Why there is no interval.
std::string too_few(const CaseComparison& comparison) {
  if (comparison.test->p_lower) {
    return fmt::format("{} bound nothing at a level of {:.2g}", size_words(comparison),
                       comparison.settings.alpha);
  }
  const bool single =
      comparison.paired ? comparison.n == 1 : comparison.n_baseline == 1 && comparison.n_candidate == 1;
  if (single && comparison.published) { return "single published values"; }
  if (comparison.paired) {
    return size_words(comparison) + (comparison.n == 1 ? " is" : " are") +
           " too few (three pairs are needed)";
  }
  return size_words(comparison) + (comparison.unit == Unit::boot_session
                                       ? " are too few (three on each side are needed: trials of one boot "
                                         "are correlated)"
                                       : " are too few (three on each side are needed)");
}

constexpr const char* pooled_looks_words =
    "pairs of experiments that were looked at as they ran have a verdict only one by one (--experiment)";

std::string without_data(const CaseComparison& comparison) {
  if (comparison.reason == "too_few_pairs") { return "nothing to compare: there is no complete pair"; }
  for (const auto& wanted : {comparison.baseline, comparison.candidate}) {
    bool found = false;
    for (const auto& arm : comparison.arms) { found = found || (arm.arm == wanted && arm.runs > 0); }
    if (!found) {
      return comparison.arm.empty()
                 ? fmt::format("nothing to compare: there is no finished, valid trial in the arm {}", wanted)
                 : fmt::format("nothing to compare: there is no finished, valid trial of {} in the arm {}",
                               wanted, comparison.arm);
    }
  }
  return "nothing to compare";
}

std::string why_not_comparable(const CaseComparison& comparison) {
  if (comparison.reason == "emulated") {
    return "a virtual machine was emulated, so this says nothing about the cost of virtualization";
  }
  std::vector<std::string> fields;
  for (const auto& difference : comparison.differences) {
    if (forbids(difference)) { fields.push_back(difference.field); }
  }
  return join(fields, ", ") + (fields.size() == 1 ? " differs" : " differ") + " between the arms";
}

std::string words_for(const std::string& virtualization) {
  if (virtualization == "none") { return "none"; }
  if (virtualization == "kvm") { return "on KVM"; }
  if (virtualization == "kvm_nested") { return "on KVM inside another virtual machine"; }
  if (virtualization == "kvm_on_emulated") { return "on KVM of an emulated processor"; }
  if (virtualization == "tcg") { return "emulated by QEMU (TCG)"; }
  return "published data";
}

}  // namespace

std::string level_words(double alpha) {
  // As few digits as keep it from reading 100 %.
  for (int digits = 4;; ++digits) {
    auto words = fmt::format("{:.{}g}", 100 * (1 - 2 * alpha), digits);
    if (words != "100" || digits == std::numeric_limits<double>::max_digits10) { return words + " %"; }
  }
}

std::string deciding_interval(const std::vector<CaseComparison>& comparisons) {
  std::vector<const CaseComparison*> all;
  all.reserve(comparisons.size());
  for (const auto& one : comparisons) { all.push_back(&one); }
  return deciding_interval(all);
}

std::string deciding_interval(const std::vector<const CaseComparison*>& comparisons) {
  std::set<std::string> levels;
  for (const auto* one : comparisons) {
    if (one->test && one->test->ci_tost) { levels.insert(level_words(one->settings.alpha)); }
  }
  return levels.size() == 1 ? *levels.begin() + " interval" : "interval at each test's level";
}

std::string ratio_words(double ratio) {
  constexpr double small = 0.01;
  return ratio < small ? fmt::format("{:.3g}", ratio) : fmt::format("{:.4f}", ratio);
}

std::string size_words(const CaseComparison& comparison) {
  if (comparison.paired) { return counted(*comparison.n, "pair"); }
  if (comparison.unit == Unit::boot_session) {
    return fmt::format("{} and {} boot sessions", *comparison.sessions_baseline,
                       *comparison.sessions_candidate);
  }
  return fmt::format("{} and {} runs", *comparison.n_baseline, *comparison.n_candidate);
}

std::string outlook(const CaseComparison& comparison) {
  if (!comparison.further_pairs) { return ""; }
  return counted(*comparison.further_pairs, "further pair") + " should settle it";
}

std::string verdict_remark(const CaseComparison& comparison) {
  if (!comparison.test) { return without_data(comparison); }
  if (comparison.forced) { return "forced, although " + why_not_comparable(comparison); }
  if (comparison.verdict == Verdict::not_comparable) { return why_not_comparable(comparison); }
  if (comparison.reason == "pooled_looks") { return pooled_looks_words; }
  if (!comparison.test->ci_tost) { return too_few(comparison); }
  const bool settled =
      comparison.verdict != Verdict::inconclusive && comparison.verdict != Verdict::non_inferior;
  return settled ? "" : outlook(comparison);
}

bool is_of_virtualization(const CaseComparison& comparison) {
  return comparison.baseline == arm_bare_metal && comparison.candidate == arm_vm;
}

std::vector<const CaseComparison*> judged(const std::vector<CaseComparison>& comparisons) {
  const bool asked = std::ranges::any_of(comparisons, is_of_virtualization);
  std::vector<const CaseComparison*> family;
  for (const auto& one : comparisons) {
    if (!asked || is_of_virtualization(one)) { family.push_back(&one); }
  }
  return family;
}

bool worse_after_holm(const CaseComparison& comparison) {
  return comparison.verdict == Verdict::worse &&
         comparison.p_worse_holm.value_or(0) < comparison.settings.alpha;
}

std::string family_sentence(const std::vector<CaseComparison>& comparisons,
                            const std::function<std::string(const std::string&)>& arm_words) {
  auto family = judged(comparisons);
  std::erase_if(family, [](const auto* one) { return !one->p_worse_holm; });
  if (family.size() < 2) { return ""; }
  std::set<std::string> cases;
  double smallest = 1;
  for (const auto* one : family) {
    cases.insert(one->case_name);
    smallest = std::min(smallest, *one->p_worse_holm);
  }
  const bool by_case = cases.size() == family.size();  // else several arms of a case
  std::vector<std::string> worse;
  for (const auto* one : family) {
    if (!worse_after_holm(*one)) { continue; }
    const auto& arm = by_case || !one->arm.empty() ? one->arm : one->candidate;
    const auto words = arm_words && !arm.empty() ? arm_words(arm) : arm;
    worse.push_back(one->case_name + (words.empty() ? "" : " in " + words));
  }
  const std::string end = fmt::format("after Holm's correction for {} (smallest adjusted p = {:.3g})",
                                      counted(family.size(), by_case ? "case" : "comparison"), smallest);
  if (worse.empty()) { return fmt::format("No {} is worse {}", by_case ? "case" : "arm", end); }
  return fmt::format("{} {} worse {}", join(worse, ", "), worse.size() == 1 ? "is" : "are", end);
}

bool is_beyond_noise(const CaseComparison& comparison) {
  const auto& ci = comparison.test->ci_tost;
  if (ci) { return ci->low > 1 || ci->high < 1; }
  return std::abs(comparison.test->ratio - 1) > comparison.settings.margin;
}

std::string verdict_sentence(const CaseComparison& comparison) {
  if (!comparison.test) { return without_data(comparison); }
  if (comparison.forced) {
    auto plain = comparison;
    plain.forced = false;
    return "forced, although " + why_not_comparable(comparison) + ": " + verdict_sentence(plain);
  }
  const std::string margin = percent(comparison.settings.margin);
  const auto& [b, v] = std::tie(comparison.baseline, comparison.candidate);
  if (comparison.verdict == Verdict::not_comparable) {
    return fmt::format("not comparable: {} ran at {:.4g} of {}, but {}", v, comparison.test->ratio, b,
                       why_not_comparable(comparison));
  }
  if (!comparison.test->ci_tost) {
    const bool pooled = comparison.reason == "pooled_looks";
    return fmt::format("{} is {}; no {}: {}", v, distance(comparison), pooled ? "verdict" : "interval",
                       pooled ? pooled_looks_words : too_few(comparison));
  }
  const std::string further = comparison.further_pairs ? "; " + outlook(comparison) : "";
  const std::string numbers = distance(comparison) + " " + evidence(comparison);
  switch (comparison.verdict) {
    case Verdict::equivalent:
      return fmt::format("{} is equivalent to {} within {}: {}", v, b, margin, numbers);
    case Verdict::better:
      return fmt::format("{} is better than {} by more than {}: {}", v, b, margin, numbers);
    case Verdict::worse:
      return fmt::format("{} is worse than {} by more than {}: {}", v, b, margin, numbers);
    case Verdict::non_inferior:
      return fmt::format("{} is not worse than {} by {}, equivalence is not shown: {}{}", v, b, margin,
                         numbers, further);
    case Verdict::inconclusive:
    case Verdict::not_comparable:
      break;
  }
  return fmt::format("no verdict yet: {} is {}{}", v, numbers, further);
}

std::string virtualization_sentence(const std::vector<CaseComparison>& comparisons) {
  std::vector<std::pair<std::string, std::set<std::string>>> arms;
  for (const auto& comparison : comparisons) {
    for (const auto& arm : comparison.arms) {
      auto known = std::ranges::find_if(arms, [&](const auto& one) { return one.first == arm.arm; });
      if (known == arms.end()) { known = arms.insert(arms.end(), {arm.arm, {}}); }
      for (const auto& kind : arm.virtualization) { known->second.insert(words_for(kind)); }
    }
  }
  std::vector<std::string> parts;
  for (const auto& [arm, kinds] : arms) {
    if (!kinds.empty()) { parts.push_back(fmt::format("{} {}", arm, fmt::join(kinds, " and "))); }
  }
  return parts.empty() ? "nothing ran" : join(parts, "; ");
}

}  // namespace virtrain::results
