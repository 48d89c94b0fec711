#include "workloads/probe/compute.h"

#include <cmath>

namespace virtrain::probe {

Figure gemm_figure(const std::string& data_type, int n, double seconds, std::int64_t wrong) {
  Figure figure;
  figure.name = "gemm";
  figure.data_type = data_type;
  figure.seconds = seconds;
  figure.value = 2.0 * std::pow(n, 3) / seconds;
  figure.unit = "FLOP/s";
  figure.wrong = wrong;
  figure.detail = {{"m", n}, {"n", n}, {"k", n}};
  return figure;
}

std::vector<float> random_matrix(std::size_t elements, std::uint32_t seed) {
  std::vector<float> values(elements);
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = (static_cast<float>(seed >> 25U) - 64.0F) / 64.0F;
  }
  return values;
}

std::int64_t wrong_products(std::span<const float> a, std::span<const float> b, std::span<const float> c,
                            int n, double tolerance) {
  const auto size = static_cast<std::size_t>(n);
  // A prime stride: over the rows, every column has its turn. Wider for sizes whose check would take minutes.
  constexpr std::size_t large = 4096;
  const std::size_t stride = size <= large ? 127 : 8191;
  const std::size_t step = size <= 127 ? 1 : stride;
  std::vector<float> columns(size * size);  // of b, each in one piece: 0.9 s for 4096², with a stride 5 s
  for (std::size_t k = 0; k < size; ++k) {
    for (std::size_t column = 0; column < size; ++column) {
      columns[column * size + k] = b[k * size + column];
    }
  }
  std::int64_t wrong = 0;
  for (std::size_t row = 0; row < size; ++row) {
    for (std::size_t column = step == 1 ? 0 : row % step; column < size; column += step) {
      double sum = 0;
      double magnitude = 0;
      for (std::size_t k = 0; k < size; ++k) {
        const double product =
            static_cast<double>(a[row * size + k]) * static_cast<double>(columns[column * size + k]);
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
