#pragma once

#include <cstddef>

/// Winograd's transformations of a 3 x 3 convolution in one dimension, for values that lie `step` apart. The
/// unnamed namespace: see winograd_loops.h.
namespace virtrain::resnet50::cpu {
namespace {

/// Points 0, 1, -1 and infinity: two outputs of three weights, or three of two.
struct TwoOutputs {
  static constexpr int tile = 2, products = 4;

  struct SpreadInput {
    static constexpr int from = products, to = products;
    template <typename V>
    static inline void apply(const V* d, std::ptrdiff_t step, V* out, std::ptrdiff_t out_step) {
      out[0] = d[0] - d[2 * step];
      out[out_step] = d[step] + d[2 * step];
      out[2 * out_step] = d[2 * step] - d[step];
      out[3 * out_step] = d[step] - d[3 * step];
    }
  };
  struct SpreadWeights {
    static constexpr int from = 3, to = products;
    template <typename V>
    static inline void apply(const V* g, std::ptrdiff_t step, V* out, std::ptrdiff_t out_step) {
      const V outer = (g[0] + g[2 * step]) * 0.5F, middle = g[step] * 0.5F;
      out[0] = g[0];
      out[out_step] = outer + middle;
      out[2 * out_step] = outer - middle;
      out[3 * out_step] = g[2 * step];
    }
  };
  struct SpreadGradient {
    static constexpr int from = tile, to = products;
    template <typename V>
    static inline void apply(const V* g, std::ptrdiff_t step, V* out, std::ptrdiff_t out_step) {
      out[0] = g[0];
      out[out_step] = (g[0] + g[step]) * 0.5F;
      out[2 * out_step] = (g[0] - g[step]) * 0.5F;
      out[3 * out_step] = g[step];
    }
  };
  struct GatherOutput {
    static constexpr int from = products, to = tile;
    template <typename V>
    static inline void apply(const V* m, std::ptrdiff_t step, V* out, std::ptrdiff_t out_step) {
      out[0] = m[0] + m[step] + m[2 * step];
      out[out_step] = m[step] - m[2 * step] - m[3 * step];
    }
  };
  struct GatherWeights {
    static constexpr int from = products, to = 3;
    template <typename V>
    static inline void apply(const V* m, std::ptrdiff_t step, V* out, std::ptrdiff_t out_step) {
      out[0] = m[0] + m[step] + m[2 * step];
      out[out_step] = m[step] - m[2 * step];
      out[2 * out_step] = m[step] + m[2 * step] - m[3 * step];
    }
  };
};

/// Points 0, 1, -1, 2, -2 and infinity: four outputs of three weights, or three of four.
struct FourOutputs {
  static constexpr int tile = 4, products = 6;

  struct SpreadInput {
    static constexpr int from = products, to = products;
    template <typename V>
    static inline void apply(const V* d, std::ptrdiff_t step, V* out, std::ptrdiff_t out_step) {
      const V even = d[4 * step] - 4 * d[2 * step], odd = d[3 * step] - 4 * d[step];
      const V near_even = d[4 * step] - d[2 * step], near_odd = 2 * (d[3 * step] - d[step]);
      out[0] = 4 * d[0] - 5 * d[2 * step] + d[4 * step];
      out[out_step] = even + odd;
      out[2 * out_step] = even - odd;
      out[3 * out_step] = near_even + near_odd;
      out[4 * out_step] = near_even - near_odd;
      out[5 * out_step] = 4 * d[step] - 5 * d[3 * step] + d[5 * step];
    }
  };
  struct SpreadWeights {
    static constexpr int from = 3, to = products;
    template <typename V>
    static inline void apply(const V* g, std::ptrdiff_t step, V* out, std::ptrdiff_t out_step) {
      const V outer = g[0] + g[2 * step], wide = g[0] + 4 * g[2 * step];
      out[0] = g[0] * 0.25F;
      out[out_step] = (outer + g[step]) * (-1.0F / 6);
      out[2 * out_step] = (outer - g[step]) * (-1.0F / 6);
      out[3 * out_step] = (wide + 2 * g[step]) * (1.0F / 24);
      out[4 * out_step] = (wide - 2 * g[step]) * (1.0F / 24);
      out[5 * out_step] = g[2 * step];
    }
  };
  struct SpreadGradient {
    static constexpr int from = tile, to = products;
    template <typename V>
    static inline void apply(const V* g, std::ptrdiff_t step, V* out, std::ptrdiff_t out_step) {
      const V even = g[0] + g[2 * step], odd = g[step] + g[3 * step];
      const V wide_even = g[0] + 4 * g[2 * step], wide_odd = 2 * g[step] + 8 * g[3 * step];
      out[0] = g[0] * 0.25F;
      out[out_step] = (even + odd) * (-1.0F / 6);
      out[2 * out_step] = (even - odd) * (-1.0F / 6);
      out[3 * out_step] = (wide_even + wide_odd) * (1.0F / 24);
      out[4 * out_step] = (wide_even - wide_odd) * (1.0F / 24);
      out[5 * out_step] = g[3 * step];
    }
  };
  struct GatherOutput {
    static constexpr int from = products, to = tile;
    template <typename V>
    static inline void apply(const V* m, std::ptrdiff_t step, V* out, std::ptrdiff_t out_step) {
      const V near_sum = m[step] + m[2 * step], near_difference = m[step] - m[2 * step];
      const V far_sum = m[3 * step] + m[4 * step], far_difference = m[3 * step] - m[4 * step];
      out[0] = m[0] + near_sum + far_sum;
      out[out_step] = near_difference + 2 * far_difference;
      out[2 * out_step] = near_sum + 4 * far_sum;
      out[3 * out_step] = near_difference + 8 * far_difference + m[5 * step];
    }
  };
  struct GatherWeights {
    static constexpr int from = products, to = 3;
    template <typename V>
    static inline void apply(const V* m, std::ptrdiff_t step, V* out, std::ptrdiff_t out_step) {
      const V near_sum = m[step] + m[2 * step], far_sum = m[3 * step] + m[4 * step];
      out[0] = m[0] + near_sum + far_sum;
      out[out_step] = m[step] - m[2 * step] + 2 * (m[3 * step] - m[4 * step]);
      out[2 * out_step] = near_sum + 4 * far_sum + m[5 * step];
    }
  };
};

}  // namespace
}  // namespace virtrain::resnet50::cpu
