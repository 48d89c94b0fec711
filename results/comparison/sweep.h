#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "common/model/trial_key.h"
#include "results/statistics/statistics.h"

namespace virtrain::results {

struct CaseComparison;

/// Where a point of a sweep stands among those of its arm: the largest mean, as good as that within the
/// margin, worse by more than the margin, or not known.
VIRTRAIN_ENUM_CLASS(Standing, best, as_good, worse, undecided)

/// One arm at one point of a sweep.
struct SweepStanding {
  Standing standing = Standing::undecided;
  /// 95 %, of the arm's mean throughput; of the best point wide enough for having been chosen among all.
  std::optional<Interval> ci = {};
  std::string best = {};   ///< the point with the largest mean, "batch_size=32"
  Settings settings = {};  ///< of the tests between points
};

/// "weak/4" of the point weak@batch_size=32/4: what all points of the sweep have in common.
std::string swept_name(CaseKey key);

/// Whether a point of its values is a limit of GPUs' power.
bool sweeps_power(const CaseKey& key);

/// Gives each arm of each swept case its standing, by two one-sided tests of its runs against those of the
/// arm's best point, "worse" after Holm's correction over its points; the runs are not paired, for points run
/// one after the other. `settings` as asked for: when a case had pairs enough for its own verdict says
/// nothing about its points.
void judge_sweeps(std::vector<CaseComparison>& comparisons, const Settings& settings);

/// "Sweep of weak/4 in vm: largest mean at batch_size=32, …" for each family and arm; and of power limits
/// whether 10 to 20 % less power cost less than 5 % of the throughput.
std::vector<std::string> sweep_sentences(const std::vector<CaseComparison>& comparisons);

}  // namespace virtrain::results
