#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <vector>

#include "common/enum_text.h"

// Which suspects bring a loss back: pure, from what was compared so far to what is compared next.
namespace virtrain::harness {

/// Suspects by their index.
using Suspects = std::set<std::size_t>;

/// Loss of trials with some suspects at their new values against trials with all of them at the old ones.
enum class StepOutcome {
  none,     ///< nothing that matters
  part,     ///< clearly less than all of them bring
  loss,     ///< the loss
  unclear,  ///< the pairs do not tell
};
VIRTRAIN_DESCRIBE_ENUM(StepOutcome, none, part, loss, unclear)

/// One comparison that was made.
struct Told {
  Suspects tried = {};  ///< those at their new values
  StepOutcome outcome = StepOutcome::unclear;
};

enum class SearchEnd {
  goes_on,  ///< `next` is to be compared
  found,    ///< `causes` bring the loss
  nothing,  ///< all suspects together do not bring it
  unclear,  ///< it is one or some of `candidates`
};
VIRTRAIN_DESCRIBE_ENUM(SearchEnd, goes_on, found, nothing, unclear)

struct Search {
  SearchEnd end = SearchEnd::goes_on;
  Suspects next = {};
  /// Each of one suspect, or of several that bring the loss together and not alone; several causes where each
  /// brings a part.
  std::vector<Suspects> causes = {};
  Suspects candidates = {};  ///< what the cause is among, as far as is known
};

/// Replays the comparisons: first all suspects together, then halves, then the one that is left alone. One
/// cause among n is found in ceil(log2 n) + 2 comparisons at most; several that act together only take about
/// that many for each. It is taken for granted that more new values never undo a loss.
Search search(std::size_t suspects, std::span<const Told> told);

/// How many comparisons one cause among so many takes at most.
std::size_t most_comparisons(std::size_t suspects);

}  // namespace virtrain::harness
