#include "results/comparison/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/case_rows.h"
#include "results/comparison/compare.h"

namespace virtrain::results {
namespace {

/// A point: one arm of one swept case.
struct SweptArm {
  const CaseKey* key;
  const ArmSummary* arm;

  std::string at() const { return to_text(key->point); }
};

using SweepCurve =
    std::pair<std::string, std::vector<SweptArm>>;  ///< "weak/4 in vm", and its points in plan order

std::vector<SweepCurve> sweep_curves(const std::vector<CaseComparison>& comparisons) {
  std::vector<SweepCurve> curves;
  for (const auto& comparison : comparisons) {
    if (!comparison.first_of_case || comparison.key.point.empty()) { continue; }
    const bool in_images = comparison.throughput_unit == images_unit;
    const auto swept = swept_name(comparison.key) + (in_images ? "" : ", " + comparison.throughput_unit);
    for (const auto& arm : comparison.arms) {
      if (arm.throughputs.empty()) { continue; }
      const auto name = comparison.arm.empty()
                            ? fmt::format("{} in {}", swept, arm.arm)
                            : fmt::format("{} in {} of {}", swept, comparison.arm, arm.arm);
      auto known = std::ranges::find_if(curves, [&](const SweepCurve& curve) { return curve.first == name; });
      if (known == curves.end()) { known = curves.insert(curves.end(), {name, {}}); }
      known->second.push_back({&comparison.key, &arm});
    }
  }
  return curves;
}

/// Runs of one boot are correlated, as everywhere.
RatioTest compare_points(const ArmSummary& baseline, const ArmSummary& candidate, const Settings& settings) {
  const auto units =
      units_of({baseline.throughputs, baseline.boots}, {candidate.throughputs, candidate.boots});
  return compare_unpaired(units.baseline, units.candidate, settings).test;
}

/// The mean of the point that looks best is too high by chance: its interval holds for all points at once.
std::optional<Interval> interval_of_point(const SweptArm& point, bool is_best, std::size_t points) {
  constexpr double miss = 0.05;
  const auto& runs = point.arm->throughputs;
  if (runs.size() < 2) { return std::nullopt; }
  return interval_of_mean(runs, 1 - (is_best ? miss / static_cast<double>(points) : miss));
}

Standing standing_of(const RatioTest& test, bool is_worse, bool is_as_good) {
  if (!test.reason.empty()) { return Standing::undecided; }
  switch (test.verdict) {
    case Verdict::equivalent:
    case Verdict::non_inferior:
    case Verdict::better:
      return is_as_good ? Standing::as_good : Standing::undecided;
    case Verdict::worse:
      return is_worse ? Standing::worse : Standing::undecided;
    case Verdict::inconclusive:
    case Verdict::not_comparable:
      break;
  }
  return Standing::undecided;
}

/// Standing of each point; both answers after Holm's correction, for of many equal points some would be worse
/// by chance, and of many at the margin some as good.
std::vector<Standing> standings_of(const std::vector<SweptArm>& points, const SweptArm& best,
                                   const Settings& settings) {
  std::vector<RatioTest> tests;
  std::vector<double> p_values, p_as_good;
  for (const auto& point : points) {
    tests.push_back(compare_points(*best.arm, *point.arm, settings));
    const bool counts = point.arm != best.arm && tests.back().p_worse;
    if (!counts) { continue; }
    p_values.push_back(*tests.back().p_worse);
    p_as_good.push_back(tests.back().p_lower.value_or(1));
  }
  const auto adjusted = holm(p_values), adjusted_as_good = holm(p_as_good);
  std::vector<Standing> standings;
  std::size_t next = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool is_best = points[i].arm == best.arm;
    bool is_worse = false, is_as_good = true;  // without spread the point decides
    if (!is_best && tests[i].p_worse) {
      is_worse = adjusted[next] < settings.alpha;
      is_as_good = adjusted_as_good[next] < settings.alpha;
      ++next;
    }
    standings.push_back(is_best ? Standing::best : standing_of(tests[i], is_worse, is_as_good));
  }
  return standings;
}

constexpr const char* power_key = "power_limit";

/// "250W" as 250.
std::optional<double> watts_of(const CaseKey& swept) {
  for (const auto& [key, value] : swept.point.values) {
    if (key.ends_with(power_key) && value.ends_with('W')) {
      return parse_number(value.substr(0, value.size() - 1));
    }
  }
  return std::nullopt;
}

/// The other values of a point, which must be equal where its power is compared.
SweptPoint beside_power(SweptPoint point) {
  std::erase_if(point.values, [](const auto& one) { return one.first.ends_with(power_key); });
  return point;
}

/// Tests the usual claims about GPUs, with the highest limit as the baseline.
void add_power_claims(const std::string& name, const std::vector<SweptArm>& points,
                      std::vector<std::string>& sentences) {
  constexpr double claimed_cost = 0.05;
  for (const auto& point : points) {
    const auto watts = watts_of(*point.key);
    const SweptArm* full = nullptr;
    for (const auto& other : points) {
      const bool same =
          beside_power(other.key->point) == beside_power(point.key->point) && watts_of(*other.key);
      if (same && (full == nullptr || *watts_of(*other.key) > *watts_of(*full->key))) { full = &other; }
    }
    if (!watts || full == nullptr || !point.arm->sweep) { continue; }
    const double less = 1 - *watts / *watts_of(*full->key);
    if (less < 0.0999 || less > 0.2001) { continue; }
    const auto test =
        compare_points(*full->arm, *point.arm, {claimed_cost, point.arm->sweep->settings.alpha});
    const bool holds = test.verdict == Verdict::equivalent || test.verdict == Verdict::non_inferior ||
                       test.verdict == Verdict::better;
    sentences.push_back(
        fmt::format("{}: {} has {:.3g} % less power than {}, and cost {:.2g} % of the throughput; a cost "
                    "below 5 % {}.",
                    name, point.at(), less * 100, full->at(), (1 - test.ratio) * 100,
                    holds                            ? "is shown"
                    : test.verdict == Verdict::worse ? "is refuted"
                                                     : "is not decided"));
  }
}

}  // namespace

bool sweeps_power(const CaseKey& key) {
  return watts_of(key).has_value();
}

std::string swept_name(CaseKey key) {
  key.point = {};
  return printed(key);
}

void judge_sweeps(std::vector<CaseComparison>& comparisons, const Settings& settings) {
  std::map<const ArmSummary*, SweepStanding> standings;
  for (const auto& [name, points] : sweep_curves(comparisons)) {
    const auto& best = *std::ranges::max_element(
        points, [](const SweptArm& a, const SweptArm& b) { return a.arm->throughput < b.arm->throughput; });
    const auto of_points = standings_of(points, best, settings);
    for (std::size_t i = 0; i < points.size(); ++i) {
      standings[points[i].arm] = {of_points[i],
                                  interval_of_point(points[i], points[i].arm == best.arm, points.size()),
                                  best.at(), settings};
    }
  }
  for (auto& comparison : comparisons) {
    for (auto& arm : comparison.arms) {
      if (const auto found = standings.find(&arm); found != standings.end()) { arm.sweep = found->second; }
    }
  }
}

std::vector<std::string> sweep_sentences(const std::vector<CaseComparison>& comparisons) {
  std::vector<std::string> sentences;
  for (const auto& [name, points] : sweep_curves(comparisons)) {
    if (points.size() < 2) { continue; }
    const auto among = [&points = points](Standing standing) {
      std::vector<std::string> names;
      for (const auto& point : points) {
        if (point.arm->sweep && point.arm->sweep->standing == standing) { names.push_back(point.at()); }
      }
      return join(names, "; ");
    };
    const auto best = std::ranges::find_if(points, [](const SweptArm& point) {
      return point.arm->sweep && point.arm->sweep->standing == Standing::best;
    });
    if (best == points.end()) { continue; }
    auto sentence = fmt::format("Sweep of {}: largest mean at {}, {} {}", name, best->at(),
                                figure_words(best->arm->throughput.value_or(0)), best->arm->unit);
    if (const auto& ci = best->arm->sweep->ci) {
      sentence += fmt::format(" (95 % interval {} … {})", figure_words(ci->low), figure_words(ci->high));
    }
    const auto add = [&](Standing standing, const std::string& words) {
      if (const auto names = among(standing); !names.empty()) {
        sentence += fmt::format(". {}: {}", words, names);
      }
    };
    const double margin = best->arm->sweep->settings.margin * 100;
    add(Standing::as_good, fmt::format("As good within {:.4g} %", margin));
    add(Standing::worse, fmt::format("Worse by more than {:.4g} %", margin));
    add(Standing::undecided, "Not decided");
    if (std::ranges::any_of(best->arm->virtualization, is_emulation)) {
      sentence += ". The virtual machines were emulated: real ones may have another best point";
    }
    sentences.push_back(sentence + ".");
    add_power_claims(name, points, sentences);
  }
  return sentences;
}

}  // namespace virtrain::results
