#pragma once

#include "results/comparison/compare.h"

namespace virtrain::results {

/// The note on a case of which an arm was emulated.
inline constexpr const char* emulated_note = "a virtual machine was emulated, not run by the processor";

/// Adds what a reader must know about a comparison: a word each in `flags`, a sentence each in `notes`.
/// `predicts`: predictions were asked for.
void add_flags(CaseComparison& result, bool predicts);

}  // namespace virtrain::results
