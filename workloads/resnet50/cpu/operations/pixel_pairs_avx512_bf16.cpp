#include <immintrin.h>

#include "workloads/resnet50/cpu/operations/pixel_pairs.h"

// Everything but the table is in an unnamed namespace and nothing of the standard library is called, as in
// winograd_loops.h and for the same reason.
namespace virtrain::resnet50::cpu {
namespace {

/// Value i of one pixel and value i of the next, next to each other.
inline __m512i interleave(__m512i two_pixels) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,  //
                                         23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, two_pixels);
}

inline __m256i pixel(const std::uint16_t* plane, const PixelWindow& window, int row, int column) {
  const int y = row * window.stride + window.first_row, x = column * window.stride + window.first_column;
  const bool inside = y >= 0 && y < window.in_size && x >= 0 && x < window.in_size;
  if (!inside) { return _mm256_setzero_si256(); }
  return _mm256_loadu_si256(
      reinterpret_cast<const __m256i*>(plane + (std::ptrdiff_t{y} * window.in_size + x) * pair_lanes));
}

void pair_any(const std::uint16_t* plane, const PixelWindow& window, int first, int count,
              std::uint32_t* out) {
  int row = 2 * first / window.out_size, column = 2 * first % window.out_size;
  const auto next = [&] {
    const __m256i value = pixel(plane, window, row, column);
    if (++column == window.out_size) {
      column = 0;
      ++row;
    }
    return value;
  };
  for (int i = 0; i < count; ++i) {
    const __m256i even = next(), odd = next();
    _mm512_store_si512(out + i * pair_lanes,
                       interleave(_mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1)));
  }
}

void pair(const std::uint16_t* plane, const PixelWindow& window, int first, int count, std::uint32_t* out) {
  const int whole = window.is_every_pixel() ? window.out_size * window.out_size / 2 - first : 0;
  const int contiguous = whole < count ? whole : count;
  for (int i = 0; i < contiguous; ++i) {
    const __m512i both = _mm512_loadu_si512(plane + std::ptrdiff_t{first + i} * 2 * pair_lanes);
    _mm512_store_si512(out + i * pair_lanes, interleave(both));
  }
  if (contiguous < count) {
    pair_any(plane, window, first + contiguous, count - contiguous, out + contiguous * pair_lanes);
  }
}

/// 8 rows x 2 vectors of sums in registers.
inline void multiply_eight(const std::uint32_t* inputs, const std::uint32_t* gradients,
                           std::size_t gradient_step, int pairs, float* out, std::size_t out_step) {
  constexpr int height = 8;
  __m512 sums[height][2];
  for (int r = 0; r < height; ++r) {
    sums[r][0] = _mm512_load_ps(out + r * pair_lanes);
    sums[r][1] = _mm512_load_ps(out + out_step + r * pair_lanes);
  }
  for (int k = 0; k < pairs; ++k) {
    const auto first = reinterpret_cast<__m512bh>(_mm512_load_si512(gradients));
    const auto second = reinterpret_cast<__m512bh>(_mm512_load_si512(gradients + gradient_step));
    for (int r = 0; r < height; ++r) {
      const auto input = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(inputs[r])));
      sums[r][0] = _mm512_dpbf16_ps(sums[r][0], input, first);
      sums[r][1] = _mm512_dpbf16_ps(sums[r][1], input, second);
    }
    inputs += pair_lanes;
    gradients += pair_lanes;
  }
  for (int r = 0; r < height; ++r) {
    _mm512_store_ps(out + r * pair_lanes, sums[r][0]);
    _mm512_store_ps(out + out_step + r * pair_lanes, sums[r][1]);
  }
}

void multiply(const std::uint32_t* inputs, const std::uint32_t* gradients, std::size_t gradient_step,
              int pairs, bool accumulate, float* out, std::size_t out_step) {
  // Not inside multiply_eight: a choice there costs the compiler its registers, and 8 % of the speed.
  for (int row = 0; row < pair_lanes && !accumulate; ++row) {
    _mm512_store_ps(out + row * pair_lanes, _mm512_setzero_ps());
    _mm512_store_ps(out + out_step + row * pair_lanes, _mm512_setzero_ps());
  }
  for (int row = 0; row < pair_lanes; row += 8) {
    multiply_eight(inputs + row, gradients, gradient_step, pairs, out + row * pair_lanes, out_step);
  }
}

}  // namespace

constinit const PixelPairKernels pixel_pairs_avx512_bf16{pair, multiply};

}  // namespace virtrain::resnet50::cpu
