#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "results/comparison/case_rows.h"
#include "results/statistics/isolation.h"
#include "results/statistics/statistics.h"
#include "results/store/comparison_data.h"

// Trials of one arm under several conditions: `vm` (the victim alone), `vm+idle` (beside a neighbour that
// does nothing), `vm+cpu@25%` (beside one that works a quarter of the time).
namespace virtrain::results {

VIRTRAIN_ENUM_CLASS(Isolated, isolated, disturbed, faster, inconclusive, not_comparable)

/// A condition against a baseline: the same paired test as of VMs against bare metal. `loss` is the share of
/// throughput that is lost.
struct Disturbance {
  Isolated verdict = Isolated::inconclusive;
  std::string reason = {};  ///< "too_few_pairs", …, or sentences that say what differs
  double loss = 0;
  std::optional<Interval> loss_ci = {};  ///< level 1 - 2 alpha
  /// p of the test whether the loss is above the margin, corrected for all tests of the matrix: `disturbed`
  /// goes by it, and `faster` by its counterpart.
  std::optional<double> p_worse_holm = {};
  PairedComparison comparison = {};
};
/// "12" of 0.12, and never "-0".
std::string whole_percents(double share);
/// "disturbed 12 % (9 to 15)", "isolated 1 % (0 to 2)"; without the word: "12 % (9 to 15)".
std::string to_text(const Disturbance& disturbance, bool with_verdict);

/// How soon a victim was as fast as alone again, over the rounds in which that was measured.
struct Recovery {
  std::int64_t rounds = 0;
  std::int64_t missed = 0;             ///< rounds of them in which it was not, for as long as anyone looked
  std::optional<double> seconds = {};  ///< median, where most rounds have one
  std::optional<double> longest = {};  ///< where all rounds have one
  double looked_seconds = 0;           ///< the shortest time for which a round went on
};
/// "0.4 s", "not in 3 s"
std::string to_text(const Recovery& recovery);

struct NeighbourCell {
  std::string neighbour;  ///< "idle", "cpu@25%"; "alone" for none
  std::string aggressor;
  std::optional<double> level = {};
  std::int64_t trials = 0;  ///< valid finished ones
  std::int64_t failed = 0;
  std::int64_t invalid = 0;
  std::optional<double> throughput = {};  ///< mean of them
  std::optional<Disturbance> against_alone = {}, against_idle = {};
  std::optional<TailInflation> tail = {};  ///< of step times, against alone
  /// Jain's index of what the victim and the aggressor keep of their speeds alone: 1 is fair.
  std::optional<double> fairness = {};
  std::optional<double> busy = {};  ///< level that the aggressor kept
  std::optional<Recovery> recovery = {};
};

/// How an aggressor's effect grows with its level: loss at full level by a line through the origin (on
/// logarithms), one for each round.
struct DoseResponse {
  std::string aggressor;
  std::int64_t rounds = 0;
  double loss_at_full_level = 0;
  std::optional<Interval> ci = {};  ///< 95 %; none where the levels do not lie on a line
  bool on_a_line = true;            ///< false: what was measured at the highest level is off it for certain
};

struct IsolationMatrix {
  std::string case_name;  ///< the victim
  std::string arm;
  std::string unit = images_unit;  ///< of the victim's throughput
  Settings settings = {};
  std::optional<std::int64_t> seed = {};  ///< of the order of conditions
  std::set<std::string> virtualization = {};
  std::vector<NeighbourCell> cells = {};
  std::vector<DoseResponse> doses = {};
};

/// The neighbour beside which most is lost; null where no loss against alone is known.
const NeighbourCell* worst_cell(const IsolationMatrix& matrix);

using Rounds = std::map<PairKey, std::optional<double>>;
/// Throughput by round; of a round without a usable trial nothing.
Rounds rounds_of(const Rows& rows);
/// Two sides, round by round; nothing where no round has both.
std::optional<PairedComparison> compare_rounds(const Rounds& before, const Rounds& after,
                                               const Settings& settings);

/// One for each victim, unit and arm that ran beside neighbours, in plan order. `margin`: else the
/// scenario's, or 5 %. Pure.
std::vector<IsolationMatrix> isolation_matrices(const ComparisonData& data, std::optional<double> margin = {},
                                                double alpha = 0.05);

}  // namespace virtrain::results
