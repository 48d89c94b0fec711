#include "results/comparison/flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/guard/comparability.h"

namespace virtrain::results {

void add_flags(CaseComparison& result, bool predicts) {
  const auto add = [&](bool holds, const std::string& word, const std::string& sentence) {
    if (!holds) { return; }
    result.flags.push_back(word);
    result.notes.push_back(sentence);
  };
  add(result.looks.has_value(), "looked_early",
      result.looks
          ? fmt::format("sequential test of at most {} pairs: after {} pairs each test has level {:.2g}, and "
                        "the intervals match that level",
                        result.looks->at_most, result.n.value_or(0), result.settings.alpha)
          : "");
  add(result.test && result.test->zero_variance, "zero_variance",
      "all runs show the same ratio: the interval is a point");
  add(result.pairs_follow_each_other, "pairs_follow_each_other",
      fmt::format(
          "neighbouring pairs resemble each other (autocorrelation {:.2f}), so the interval may be too "
          "narrow: let more time pass between pairs, or reboot",
          result.lag1.value_or(0)));
  add(result.unpaired_left_out > 0, "unpaired_left_out",
      fmt::format("{} left out, because this case has pairs",
                  counted(result.unpaired_left_out, "unpaired trial")));
  add(result.invalid_left_out > 0, "invalid_left_out",
      counted(result.invalid_left_out, "invalid trial") + " left out");
  add(result.reason == "emulated", "emulated", emulated_note);
  const auto any_arm = [&](auto&& holds) { return std::ranges::any_of(result.arms, holds); };
  add(any_arm([](const auto& arm) { return arm.virtualization.contains("kvm_nested"); }), "nested",
      "KVM ran inside another virtual machine");
  add(any_arm([](const auto& arm) { return arm.oversubscribed; }), "oversubscribed", "more ranks than cores");
  add(result.unit == Unit::boot_session, "boot_sessions",
      fmt::format("the unit is the boot session, because trials of one boot are correlated: {} and {} "
                  "sessions of {} and {} trials",
                  result.sessions_baseline.value_or(0), result.sessions_candidate.value_or(0),
                  result.n_baseline.value_or(0), result.n_candidate.value_or(0)));
  add(!result.hosts_differ.empty(), "hosts_differ",
      fmt::format(
          "the hosts of its runs are not alike: {}; both arms had the same hosts, but what the slowest "
          "of them does all wait for",
          join(std::vector<std::string>(result.hosts_differ.begin(), result.hosts_differ.end()), ", ")));
  add(result.between_machines, "between_machines",
      "the arms ran on different machines: the ratio is of these machines, and virtualization is only one of "
      "the things in which they may differ");
  add(result.told_from_inside, "told_from_inside",
      "attached machines said themselves what is virtual there; it was not seen from their hosts");
  add(result.forced, "forced",
      "the verdict was forced (--force) although properties differ that must be equal");
  std::vector<std::string> changed;
  for (const auto& difference : result.differences) {
    if (difference.rule == FactRule::part_of_the_change) {
      result.flags.push_back("changed:" + difference.field);
      changed.push_back(fmt::format("{} ({} → {})", difference.field, words_of_values(difference.baseline),
                                    words_of_values(difference.candidate)));
      continue;
    }
    if (forbids(difference)) { result.flags.push_back("differs:" + difference.field); }
    result.notes.push_back(to_sentence(difference, result.baseline, result.candidate));
  }
  if (!changed.empty()) {
    result.notes.push_back(fmt::format("also changed, and part of the figure: {}", join(changed, ", ")));
  }
  const auto unpredicted = [](const ArmSummary& arm) { return arm.runs > 0 && !arm.prediction; };
  if (predicts && any_arm(unpredicted)) {
    result.notes.emplace_back(
        "no prediction: it needs a weak scaling, cases named FAMILY/NODES, with runs of FAMILY/1 in the same "
        "arm");
  }
  if (result.published) {
    result.notes.emplace_back("compared as published data: the source does not state the virtualization");
  }
}

}  // namespace virtrain::results
