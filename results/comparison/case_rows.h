#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "results/comparison/selector.h"
#include "results/store/comparison_data.h"

namespace virtrain::results {

using Rows = std::vector<const ComparisonRow*>;

/// The rows of one case, in plan order.
struct CaseRows {
  std::string name;
  Rows rows;
  CaseKey key = {};
  std::string unit = images_unit;  ///< of all throughputs of these rows
};

/// One side of one comparison: the trials that its selector means.
struct Side {
  std::string name;     ///< as people asked for it
  Selector selector;    ///< with an arm
  bool pooled = false;  ///< runs of several experiments in which a pair number says nothing
  Rows rows = {};
};

/// Whether a row's virtualization says that a processor was emulated below the guest.
bool is_emulation(const std::string& virtualization);
/// A trial counts if it finished, is valid and has a throughput.
bool usable(const ComparisonRow& row);
/// Where a trial ran; empty facts where nobody said.
const ComparisonExperiment& experiment_of(const ComparisonData& data, const ComparisonRow& row);
/// Cases in plan order, the rows of each in plan order. A case that was measured in two units is there twice;
/// rows without a throughput are with the first.
std::vector<CaseRows> by_case(const ComparisonData& data);
/// Those rows that the side means.
Rows rows_of(const ComparisonData& data, const Rows& rows, const Selector& selector);
/// The usable ones; the unpaired only where there are no pairs (or pairs say nothing).
Rows runs_of(const Rows& rows, bool pooled);
/// Those runs whose experiments have some of the others, too: a host that ran one size only says nothing
/// about the other. All of them where no experiment has both.
Rows of_shared_experiments(const Rows& runs, const Rows& others);
/// Experiment and pair: a pair number of another experiment is another pair.
using PairKey = std::pair<std::int64_t, std::int64_t>;
/// The usable trials of one pair; null where one is missing.
struct RowPair {
  const ComparisonRow* baseline = nullptr;
  const ComparisonRow* candidate = nullptr;

  bool is_complete() const { return baseline != nullptr && candidate != nullptr; }
};
using RowPairs = std::map<PairKey, RowPair>;
RowPairs pairs_of(const Rows& baseline, const Rows& candidate);
/// Their throughputs, which have one unit.
std::vector<double> throughputs(const Rows& rows);
/// The arm in which the trial's victim ran, whatever neighbour was beside it.
const std::string& victim_arm(const ComparisonRow& row);

/// Units of an unpaired comparison: trials, or boot sessions where the trials come from several boots.
struct Units {
  std::vector<double> baseline;
  std::vector<double> candidate;
  bool sessions = false;
};
/// The boot of each row; "" where nobody said.
std::vector<std::string> boots_of(const ComparisonData& data, const Rows& rows);
/// Trials of one boot are correlated. Where the two sides do not come from one and the same boot, the unit is
/// the boot session, its value the geometric mean of its trials (the statistics work on logarithms); trials
/// without a boot id count alone. Without any boot id, and within one boot, the unit is the trial.
Units units_of(const ComparisonData& data, const Rows& baseline, const Rows& candidate);
/// The same of throughputs and the boot of each.
struct Booted {
  std::vector<double> throughputs;
  std::vector<std::string> boots;
};
Units units_of(const Booted& baseline, const Booted& candidate);

}  // namespace virtrain::results
