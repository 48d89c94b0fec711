#include "workloads/probe/gemm.h"

#include <cmath>

namespace virtrain::probe {

std::int64_t wrong_products(std::span<const float> a, std::span<const float> b, std::span<const float> c,
                            int n, double tolerance) {
  const auto size = static_cast<std::size_t>(n);
  // A prime stride: over the rows, every column has its turn.
  constexpr std::size_t stride = 127;
  const std::size_t step = size <= stride ? 1 : stride;
  std::int64_t wrong = 0;
  for (std::size_t row = 0; row < size; ++row) {
    for (std::size_t column = step == 1 ? 0 : row % step; column < size; column += step) {
      double sum = 0;
      double magnitude = 0;
      for (std::size_t k = 0; k < size; ++k) {
        const double product =
            static_cast<double>(a[row * size + k]) * static_cast<double>(b[k * size + column]);
        sum += product;
        magnitude += std::abs(product);
      }
      const double error = std::abs(static_cast<double>(c[row * size + column]) - sum);
      wrong += !(error <= tolerance * magnitude) ? 1 : 0;
    }
  }
  return wrong;
}

}  // namespace virtrain::probe
