#pragma once

#include "results/comparison/compare.h"

namespace virtrain::results {

/// What a reader must know of a comparison: a word each in `flags`, a sentence each in `notes`. `predicts`:
/// predictions were asked for.
void add_flags(CaseComparison& result, bool predicts);

}  // namespace virtrain::results
