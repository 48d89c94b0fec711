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

struct ConvolutionSetting {
  int batch_size = 16;
  int image_size = 224;
  int repetitions = 10;
};

/// ResNet-50's 53 convolutions as oneDNN does them alone, in the layouts it likes best: for each type this
/// processor trains in (float, bfloat16) three figures, `convolutions_forward`, `convolutions_backward_data`
/// and `convolutions_backward_weights`. `seconds` is the sum over the model of each convolution's best time,
/// `value` the rate in FLOP/s (two for a multiply-add). It is what a step on that library cannot undercut,
/// before any other pass over the activations. The three directions are checked against each other: <conv(x,
/// w), g> = <x, data(g, w)> = <w, weights(x, g)>. Throws Error(host_unable) where the build has no library
/// for it.
std::vector<Figure> measure_convolutions(const ConvolutionSetting& setting);

}  // namespace virtrain::probe
