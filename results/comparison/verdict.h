#pragma once

#include <functional>
#include <string>
#include <vector>

#include "results/comparison/compare.h"

// The answer in words.
namespace virtrain::results {

/// Whether it compares the arms vm and bare_metal.
bool is_of_virtualization(const CaseComparison& comparison);
/// Those that a verdict on all of them is about: of virtualization where there are any, else all.
std::vector<const CaseComparison*> judged(const std::vector<CaseComparison>& comparisons);
/// Whether the case is worse for sure among all cases of its comparison.
bool worse_after_holm(const CaseComparison& comparison);
/// The answer of those judged to "is any of them worse?" after Holm's correction; empty for fewer than two.
/// `arm_words`: what an arm is called; else by its name.
std::string family_sentence(const std::vector<CaseComparison>& comparisons,
                            const std::function<std::string(const std::string&)>& arm_words = {});
/// How far the ratio is from 1 beyond what noise does; without an interval, beyond the margin. It has a
/// ratio.
bool is_beyond_noise(const CaseComparison& comparison);
/// One sentence: the verdict with its numbers, or why there is none.
std::string verdict_sentence(const CaseComparison& comparison);
/// Remarks beyond the numbers: why there is no data, no verdict or no interval, that it was forced, how many
/// pairs more should settle it; empty where there is no more to say.
std::string verdict_remark(const CaseComparison& comparison);
/// "14 further pairs should settle it"; empty where nobody knows.
std::string outlook(const CaseComparison& comparison);
/// Level of the interval by which tests of that level decide: "90 %", and never "100 %".
std::string level_words(double alpha);
/// "90 % interval"; where the comparisons have levels of their own, so in words.
std::string deciding_interval(const std::vector<const CaseComparison*>& comparisons);
std::string deciding_interval(const std::vector<CaseComparison>& comparisons);
/// "0.9868", "3.15e-05".
std::string ratio_words(double ratio);
/// How much was compared: "6 pairs", "5 and 6 runs", "3 and 4 boot sessions".
std::string size_words(const CaseComparison& comparison);
/// Virtualization of each arm of these cases: "bare_metal none; vm on KVM".
std::string virtualization_sentence(const std::vector<CaseComparison>& comparisons);

}  // namespace virtrain::results
