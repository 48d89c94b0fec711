#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/enum_text.h"
#include "results/statistics/statistics.h"

namespace virtrain::results {

// Looking at data while they come, without more false verdicts: alpha is spent by Lan and DeMets' rule (1983)
// that resembles O'Brien and Fleming's boundaries, for each one-sided test on its own.

/// When a sequence of pairs is looked at: from the `first` on, each `every` pairs, and at `at_most`.
struct Looks {
  std::int64_t at_most = 30;
  std::int64_t every = 1;
  std::int64_t first = 3;
};

constexpr std::int64_t most_looks = 200;  ///< pairs of such a design

/// alpha spent when a share of the planned pairs is there: 2 - 2 phi(z(alpha / 2) / sqrt(share)).
double spent_alpha(double share, double alpha);

/// One-sided nominal levels of normal statistics at increasing shares of the planned information, 0 < share
/// <= 1, by Armitage, McPherson and Rowe's recursion (1969): crossing any of them happens with probability
/// alpha at most.
std::vector<double> nominal_levels(std::span<const double> shares, double alpha);

VIRTRAIN_ENUM_CLASS(Stop, go_on, verdict, futility, at_most)

/// The tests of one comparison at its looks. The levels hold for t tests by their p values (Jennison and
/// Turnbull 2000, section 11.3.2).
class SequentialTest {
 public:
  SequentialTest(const Looks& looks, const Settings& settings);

  /// Level of each one-sided test after so many pairs: between two looks as if the experiment had ended there
  /// (a pair was lost, or the budget spent). Before the first look 1e-9, and never less (or a thousandth of
  /// an alpha below 1e-6): the alpha that is spent before is too little to count.
  double level(std::int64_t pairs) const;

  /// Looks at so many complete pairs: a verdict (equivalent, better or worse) at the level of this look; none
  /// to come (given these pairs and their trend, each verdict has a probability below 5 %; asked from half of
  /// `at_most` on, and never a verdict itself); or neither yet. `family`: of so many comparisons any may be
  /// called worse (Holm's correction asks that of the smallest p).
  Stop look(const RatioTest& test, std::int64_t pairs, std::size_t family = 1) const;

 private:
  bool looks_at(std::int64_t pairs) const;

  Looks looks_;
  std::vector<double> levels_;  ///< by number of pairs
};

}  // namespace virtrain::results
