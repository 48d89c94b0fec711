#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "workloads/probe/figure.h"

namespace virtrain::probe {

/// Rates of C = A B with n x n matrices, 2 n^3 operations, one figure for each type of A and B that this
/// processor multiplies well: float, bfloat16 (C is float). The best of all repetitions but the first, and
/// the product of the last one checked. Throws Error(host_unable) where the build has no library for it.
std::vector<Figure> measure_gemm(int n, int repetitions);

/// Whether this processor has instructions for products of bfloat16 (oneDNN's builds only).
bool multiplies_bfloat16();

/// C = A B took so long; of C so many elements were wrong.
Figure gemm_figure(const std::string& data_type, int n, double seconds, std::int64_t wrong);

/// Numbers in [-1, 1] without a pattern; exact in 16 bits of either kind, so that rounding them changes
/// nothing.
std::vector<float> random_matrix(std::size_t elements, std::uint32_t seed);

/// A, B and C row by row, A and B as they were after rounding. Of the elements of C all, or for large n some
/// in every row: how many differ from the sum in double by more than `tolerance` times the sum of the
/// magnitudes.
std::int64_t wrong_products(std::span<const float> a, std::span<const float> b, std::span<const float> c,
                            int n, double tolerance);

}  // namespace virtrain::probe
