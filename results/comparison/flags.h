#pragma once

#include "results/comparison/compare.h"

namespace virtrain::results {

/// Adds what a reader must know about a comparison: a word each in `flags`, a sentence each in `notes`.
/// `predicts`: predictions were asked for.
void add_flags(CaseComparison& result, bool predicts);

}  // namespace virtrain::results
