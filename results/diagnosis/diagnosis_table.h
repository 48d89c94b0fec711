#pragma once

#include <string>

#include "results/diagnosis/diagnosis.h"
#include "results/tables/render.h"

namespace virtrain::results {

/// A line for each finding; losses and what cannot be told are notes.
Table diagnosis_table(const Diagnosis& diagnosis);

/// A paragraph for each finding, on a screen of so many columns; 0: of any width.
std::string to_text(const Diagnosis& diagnosis, std::size_t columns);

}  // namespace virtrain::results
