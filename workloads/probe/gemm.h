#pragma once

#include "workloads/probe/figure.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace virtrain::probe {

/// Rates of C = A B with n x n matrices, 2 n^3 operations, one figure for each type of A and B that this
/// processor multiplies well: float, bfloat16 (C is float). The best of all repetitions but the first, and
/// the product of the last one checked. Throws Error(host_unable) where the build has no library for it.
std::vector<Figure> measure_gemm(int n, int repetitions);

/// A, B and C row by row, A and B as they were after rounding. Of the elements of C all, or for large n some
/// in every row: how many differ from the sum in double by more than `tolerance` times the sum of the
/// magnitudes.
std::int64_t wrong_products(std::span<const float> a, std::span<const float> b, std::span<const float> c,
                            int n, double tolerance);

}  // namespace virtrain::probe
