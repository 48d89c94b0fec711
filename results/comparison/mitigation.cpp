#include "results/comparison/mitigation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "common/text/text.h"
#include "results/comparison/data_index.h"
#include "results/comparison/guard/comparability.h"
#include "results/comparison/selector.h"

namespace virtrain::results {
namespace {

Help help_by(Verdict verdict) {
  switch (verdict) {
    case Verdict::better:
      return Help::helps;
    case Verdict::equivalent:
      return Help::no_effect;
    case Verdict::worse:
      return Help::hurts;
    case Verdict::not_comparable:
      return Help::not_comparable;
    case Verdict::non_inferior:
    case Verdict::inconclusive:
      break;
  }
  return Help::inconclusive;
}

std::optional<ShareLost> share_lost(const Rounds& before, const Rounds& after, const Settings& settings) {
  const auto found = compare_rounds(before, after, settings);
  if (!found) { return std::nullopt; }
  ShareLost lost{1 - found->test.ratio, {}, found->n};
  if (const auto& ci = found->test.ci_tost) { lost.ci = Interval{1 - ci->high, 1 - ci->low}; }
  return lost;
}

/// Share of the throughput alone that is left beside a neighbour, by round.
Rounds kept(const Rounds& alone, const Rounds& beside) {
  Rounds shares;
  for (const auto& [round, value] : beside) {
    const auto found = alone.find(round);
    auto& share = shares[round];
    if (value && found != alone.end() && found->second) { share = *value / *found->second; }
  }
  return shares;
}

/// Holds the rows of one victim and its neighbours' rates, over all experiments.
class Victim {
 public:
  Victim(const DataIndex& index, const CaseRows& victim) : index_(index) {
    for (const auto* row : victim.rows) { rows_[row->arm].push_back(row); }
    for (const auto& [arm, of_arm] : rows_) { throughput_[arm] = rounds_of(of_arm); }
    for (const auto& one : index.data().neighbour_rates) {
      const bool is_its = one.case_name == victim.name && one.unit == victim.unit;
      if (!is_its || one.rate.value_or(0) <= 0) { continue; }
      rates_[one.arm][{one.experiment, one.pair}] = one.rate;
    }
  }

  Rounds throughput(const std::string& arm) const { return at(throughput_, arm); }
  Rounds rates(const std::string& arm) const { return at(rates_, arm); }

  /// A sentence for each fact that must be equal, and that nothing of `changed` explains.
  std::vector<std::string> what_differs(const std::string& baseline, const std::string& candidate,
                                        const std::set<std::string>& changed) const {
    const auto ours = rows_.find(baseline), theirs = rows_.find(candidate);
    if (ours == rows_.end() || theirs == rows_.end()) { return {}; }
    const auto facts = index_.facts_of(pairs_of(ours->second, theirs->second));
    return what_forbids(differences(facts, true, changed), baseline, candidate);
  }

 private:
  static Rounds at(const std::map<std::string, Rounds>& all, const std::string& arm) {
    const auto found = all.find(arm);
    return found == all.end() ? Rounds() : found->second;
  }

  const DataIndex& index_;
  std::map<std::string, Rows> rows_;
  std::map<std::string, Rounds> throughput_, rates_;
};

/// The nearest arm on the way to its base that has a matrix of the same victim; none: it is no mitigation.
const IsolationMatrix* without_it(const IsolationMatrix& matrix, const std::vector<IsolationMatrix>& matrices,
                                  const ArmRecords& records) {
  auto found = matrices.end();
  nearest_like(records, matrix.arm, [&](const std::string& name) {
    found = std::find_if(matrices.begin(), matrices.end(), [&](const IsolationMatrix& one) {
      return one.case_name == matrix.case_name && one.unit == matrix.unit && one.arm == name;
    });
    return found != matrices.end();
  });
  return found == matrices.end() ? nullptr : &*found;
}

std::string lacks_comparison(const std::optional<Disturbance>& one) {
  return one && one->verdict == Isolated::not_comparable ? one->reason : "";
}

/// The keys that the two arms set differently, as the mitigated one has them.
std::string changes_of(const IsolationMatrix& with, const IsolationMatrix& without,
                       const ArmRecords& records) {
  std::vector<std::string> words;
  const auto record = records.find(with.arm);
  for (const auto& key : changed_keys(records, without.arm, with.arm)) {
    const bool is_set = record != records.end() && record->second.changes.contains(key);
    words.push_back(key + " " + (is_set ? record->second.changes.at(key) : "as by default"));
  }
  return join(words, ", ");
}

Mitigation mitigation_of(const NeighbourCell& with, const NeighbourCell& without,
                         const IsolationMatrix& matrix, const IsolationMatrix& like, const Victim& victim,
                         const std::set<std::string>& changed) {
  const bool alone_ran = with.against_alone && without.against_alone;
  const auto baseline_of = [&](const IsolationMatrix& of) {
    return alone_ran ? of.arm : printed(ArmKey{of.arm, idle_neighbour, {}});
  };
  const auto baseline_with = baseline_of(matrix), baseline_without = baseline_of(like);
  const auto arm_with = printed(ArmKey{matrix.arm, with.aggressor, with.level});
  const auto arm_without = printed(ArmKey{like.arm, without.aggressor, without.level});
  Mitigation result;
  result.case_name = matrix.case_name;
  result.unit = matrix.unit;
  result.arm = matrix.arm;
  result.like = like.arm;
  result.neighbour = with.neighbour;
  result.with = alone_ran ? with.against_alone : with.against_idle;
  result.without = alone_ran ? without.against_alone : without.against_idle;
  const auto& settings = matrix.settings;
  if (const auto found =
          compare_rounds(kept(victim.throughput(baseline_without), victim.throughput(arm_without)),
                         kept(victim.throughput(baseline_with), victim.throughput(arm_with)), settings)) {
    result.verdict = help_by(found->test.verdict);
    result.relief = found->test.ratio;
    result.relief_ci = found->test.ci_tost;
    result.rounds = found->n;
  }
  std::vector<std::string> reasons{lacks_comparison(result.without), lacks_comparison(result.with)};
  if (matrix.virtualization != like.virtualization) {
    reasons.push_back(fmt::format("virtualization differs: {} in {}, {} in {}",
                                  fmt::join(like.virtualization, ", "), like.arm,
                                  fmt::join(matrix.virtualization, ", "), matrix.arm));
  }
  for (const auto& [ours, theirs] :
       {std::pair(baseline_without, baseline_with), std::pair(arm_without, arm_with)}) {
    const auto found = victim.what_differs(ours, theirs, changed);
    reasons.insert(reasons.end(), found.begin(), found.end());
  }
  std::erase(reasons, "");
  if (!reasons.empty()) {
    result.verdict = Help::not_comparable;
    result.reason = join(reasons, "; ");
  }
  result.cost_alone = share_lost(victim.throughput(like.arm), victim.throughput(matrix.arm), settings);
  result.cost_aggressor = share_lost(victim.rates(arm_without), victim.rates(arm_with), settings);
  return result;
}

}  // namespace

std::string to_text(const ShareLost& lost) {
  Disturbance same;
  same.loss = lost.loss;
  same.loss_ci = lost.ci;
  return to_text(same, false);
}

std::vector<Mitigation> mitigations(const ComparisonData& data,
                                    const std::vector<IsolationMatrix>& matrices) {
  const auto records = arm_records(data);
  const DataIndex index(data);
  std::vector<Mitigation> all;
  for (const auto& matrix : matrices) {
    const auto* like = without_it(matrix, matrices, records);
    if (like == nullptr) { continue; }
    const auto rows = std::ranges::find_if(index.cases(), [&](const CaseRows& one) {
      return one.name == matrix.case_name && one.unit == matrix.unit;
    });
    if (rows == index.cases().end()) { continue; }  // matrices of other data
    const Victim victim(index, *rows);
    const auto changed = changed_keys(records, like->arm, matrix.arm);
    for (const auto& cell : matrix.cells) {
      const auto same = std::find_if(like->cells.begin(), like->cells.end(), [&](const NeighbourCell& one) {
        return one.neighbour == cell.neighbour;
      });
      if (cell.aggressor.empty() || same == like->cells.end()) { continue; }
      all.push_back(mitigation_of(cell, *same, matrix, *like, victim, changed));
      all.back().changes = changes_of(matrix, *like, records);
    }
  }
  return all;
}

IsolationStudy isolation_study(const ComparisonData& data, std::optional<double> margin, double alpha) {
  IsolationStudy study;
  study.matrices = isolation_matrices(data, margin, alpha);
  study.mitigations = mitigations(data, study.matrices);
  return study;
}

}  // namespace virtrain::results
