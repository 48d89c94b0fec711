#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "results/comparison/isolation_matrix.h"

// Mitigations are arms: a variant (`vm-capped`) beside the arm that it is like (`vm`), under the same
// conditions.
namespace virtrain::results {

VIRTRAIN_ENUM_CLASS(Help, helps, no_effect, hurts, inconclusive, not_comparable)

/// A share with its interval (level 1 - 2 alpha), by rounds in which both sides have a value.
struct ShareLost {
  double loss = 0;
  std::optional<Interval> ci = {};
  std::int64_t rounds = 0;
};
/// "50 % (45 to 55)"
std::string to_text(const ShareLost& lost);

/// Effect of one mitigation on one neighbour.
struct Mitigation {
  std::string case_name;           ///< the victim
  std::string unit = images_unit;  ///< of its throughput
  std::string arm;                 ///< with the mitigation
  std::string like;                ///< without it
  std::string changes = {};        ///< "neighbour.limits.cpu 25%"
  std::string neighbour;           ///< "cpu@25%"
  std::optional<Disturbance> without = {},
                             with = {};  ///< the victim beside it against alone, each in its own arm
  Help verdict = Help::inconclusive;
  std::string reason = {};  ///< why there is no verdict: what differs beside what the arms change on purpose
  /// Share that the victim keeps of its throughput alone, with / without: 2 means that it runs twice as fast
  /// beside the neighbour, relative to its speed alone.
  std::optional<double> relief = {};
  std::optional<Interval> relief_ci = {};
  std::int64_t rounds = 0;                   ///< behind `relief`
  std::optional<ShareLost> cost_alone = {};  ///< of the victim without any neighbour, with against without
  std::optional<ShareLost> cost_aggressor = {};  ///< of the aggressor's work a second, with against without
};

/// One for each mitigation and loaded neighbour, in the order of the matrices; an arm is held against the
/// nearest one that it is like and that was measured. Pure; `data` has neighbour_rates.
std::vector<Mitigation> mitigations(const ComparisonData& data, const std::vector<IsolationMatrix>& matrices);

/// All that is known of victims beside neighbours.
struct IsolationStudy {
  std::vector<IsolationMatrix> matrices = {};
  std::vector<Mitigation> mitigations = {};
};
/// Pure; `margin` and `alpha` as in isolation_matrices(), and `data` has neighbours and their rates.
IsolationStudy isolation_study(const ComparisonData& data, std::optional<double> margin = {},
                               double alpha = 0.05);

}  // namespace virtrain::results
