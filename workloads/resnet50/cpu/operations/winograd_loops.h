#pragma once

#include <cstddef>
#include <type_traits>

#include "workloads/resnet50/cpu/operations/winograd_kernels.h"

/// The kernels as templates over the vector width. Each file that includes this is compiled for another
/// instruction set, so everything is in an unnamed namespace and nothing of the standard library is called:
/// the linker keeps one copy of a function that several files share, and it must not be the one that only
/// some processors can run.

namespace virtrain::resnet50::cpu {

namespace {  // NOLINT(cert-dcl59-cpp,google-build-namespaces): see above

// Winograd's transformations of a 3 x 3 convolution in one dimension, for values that lie `step` apart.

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

template <std::ptrdiff_t lanes>
using Vector [[gnu::vector_size(lanes * 4), gnu::may_alias]] = float;

template <std::ptrdiff_t lanes>
inline Vector<lanes>& at(float* place) {
  return *reinterpret_cast<Vector<lanes>*>(place);
}
template <std::ptrdiff_t lanes>
inline const Vector<lanes>& at(const float* place) {
  return *reinterpret_cast<const Vector<lanes>*>(place);
}

/// `in` has from x from values, `out` gets to x to.
template <typename Transformation, typename V>
inline void transform(const V* in, V* out) {
  constexpr std::ptrdiff_t from = Transformation::from, to = Transformation::to;
  V columns[to * from];
  for (std::ptrdiff_t c = 0; c < from; ++c) {
    Transformation::template apply<V>(in + c, from, columns + c, from);
  }
  for (std::ptrdiff_t r = 0; r < to; ++r) {
    Transformation::template apply<V>(columns + r * from, 1, out + r * to, 1);
  }
}

/// Side x side values from (row, column) on, zeros outside the image.
template <std::ptrdiff_t lanes, std::ptrdiff_t side>
inline void load_square(const float* plane, int row, int column, int size, Vector<lanes>* values) {
  const std::ptrdiff_t first_row = row < 0 ? -row : 0, end_row = size - row < side ? size - row : side;
  const std::ptrdiff_t first_column = column < 0 ? -column : 0,
                       end_column = size - column < side ? size - column : side;
  if (first_row > 0 || first_column > 0 || end_row < side || end_column < side) {
    for (std::ptrdiff_t i = 0; i < side * side; ++i) { values[i] = Vector<lanes>{}; }
  }
  for (std::ptrdiff_t r = first_row; r < end_row; ++r) {
    const float* const line = plane + ((row + r) * size + column) * lanes;
    for (std::ptrdiff_t c = first_column; c < end_column; ++c) {
      values[r * side + c] = at<lanes>(line + c * lanes);
    }
  }
}

/// Loops over a tile or a block of weights; `Family` is one of the above.
template <typename Family, std::ptrdiff_t lanes>
struct TileLoops {
  static constexpr std::ptrdiff_t tile = Family::tile;
  static constexpr std::ptrdiff_t side = Family::products;  ///< inputs along the side of a tile, and products
  static constexpr std::ptrdiff_t kernel = 9, square = lanes * lanes;
  using V = Vector<lanes>;

  static void store_products(const V* values, float* out, std::size_t stride) {
    for (std::ptrdiff_t i = 0; i < side * side; ++i) { at<lanes>(out + i * stride) = values[i]; }
  }
  static void load_products(const float* in, std::size_t stride, V* values) {
    for (std::ptrdiff_t i = 0; i < side * side; ++i) { values[i] = at<lanes>(in + i * stride); }
  }

  static void spread_input(const float* plane, TilePlace place, float* out, std::size_t stride) {
    V values[side * side], products[side * side];
    load_square<lanes, side>(plane, place.row - 1, place.column - 1, place.size, values);
    transform<typename Family::SpreadInput, V>(values, products);
    store_products(products, out, stride);
  }

  static void spread_gradient(const float* plane, TilePlace place, float* out, std::size_t stride) {
    V values[tile * tile], products[side * side];
    load_square<lanes, tile>(plane, place.row, place.column, place.size, values);
    transform<typename Family::SpreadGradient, V>(values, products);
    store_products(products, out, stride);
  }

  static void gather_output(const float* in, std::size_t stride, TilePlace place, float* plane) {
    V products[side * side], outputs[tile * tile];
    load_products(in, stride, products);
    transform<typename Family::GatherOutput, V>(products, outputs);
    const std::ptrdiff_t rows = place.size - place.row < tile ? place.size - place.row : tile;
    const std::ptrdiff_t columns = place.size - place.column < tile ? place.size - place.column : tile;
    for (std::ptrdiff_t r = 0; r < rows; ++r) {
      float* const line = plane + ((place.row + r) * place.size + place.column) * lanes;
      for (std::ptrdiff_t c = 0; c < columns; ++c) { at<lanes>(line + c * lanes) = outputs[r * tile + c]; }
    }
  }

  static void spread_weights(const float* block, bool backward, float* out, std::size_t stride) {
    alignas(64) float turned[kernel * square];
    if (backward) {
      for (std::ptrdiff_t k = 0; k < kernel; ++k) {
        for (std::ptrdiff_t i = 0; i < lanes; ++i) {
          for (std::ptrdiff_t o = 0; o < lanes; ++o) {
            turned[(kernel - 1 - k) * square + o * lanes + i] = block[k * square + i * lanes + o];
          }
        }
      }
      block = turned;
    }
    for (std::ptrdiff_t row = 0; row < lanes; ++row) {
      V values[kernel], products[side * side];
      for (std::ptrdiff_t k = 0; k < kernel; ++k) { values[k] = at<lanes>(block + k * square + row * lanes); }
      transform<typename Family::SpreadWeights, V>(values, products);
      store_products(products, out + row * 2 * lanes, stride);
    }
  }

  static void gather_weights(Rows<const float> in, std::size_t stride, float* block) {
    for (std::ptrdiff_t row = 0; row < lanes; ++row) {
      V products[side * side], values[kernel];
      load_products(in.data + row * in.stride, stride, products);
      transform<typename Family::GatherWeights, V>(products, values);
      for (std::ptrdiff_t k = 0; k < kernel; ++k) { at<lanes>(block + k * square + row * lanes) = values[k]; }
    }
  }
};

/// height x 2 vectors of sums in registers; `a_step` apart are the rows of a, `a_next` its values along the
/// depth.
template <std::ptrdiff_t lanes, int height>
inline void multiply_square(const float* a, std::size_t a_step, std::size_t a_next, int depth, const float* b,
                            std::size_t b_next, bool accumulate, Rows<float> out) {
  Vector<lanes> sums[height][2];
  for (int r = 0; r < height; ++r) {
    for (std::ptrdiff_t half = 0; half < 2; ++half) {
      sums[r][half] = accumulate ? at<lanes>(out.data + r * out.stride + half * lanes) : Vector<lanes>{};
    }
  }
  for (int k = 0; k < depth; ++k) {
    const Vector<lanes> first = at<lanes>(b), second = at<lanes>(b + lanes);
    for (int r = 0; r < height; ++r) {
      const float factor = a[r * a_step];
      sums[r][0] += factor * first;
      sums[r][1] += factor * second;
    }
    a += a_next;
    b += b_next;
  }
  for (int r = 0; r < height; ++r) {
    for (std::ptrdiff_t half = 0; half < 2; ++half) {
      at<lanes>(out.data + r * out.stride + half * lanes) = sums[r][half];
    }
  }
}

template <std::ptrdiff_t lanes, int height>
inline void multiply(Rows<const float> a, int rows, int depth, const float* b, Rows<float> out) {
  for (int r = 0; r < rows; r += height) {
    multiply_square<lanes, height>(a.data + r * a.stride, a.stride, 1, depth, b, 2 * lanes, false,
                                   {out.data + r * out.stride, out.stride});
  }
}

/// Channels are a multiple of 8: what six at a time leave are two or four.
template <std::ptrdiff_t lanes, int height>
inline void multiply_transposed(Rows<const float> a, int columns, int depth, Rows<const float> b,
                                bool accumulate, Rows<float> out) {
  const auto part = [&]<int some>(std::integral_constant<int, some>, int from) {
    multiply_square<lanes, some>(a.data + from, 1, a.stride, depth, b.data, b.stride, accumulate,
                                 {out.data + from * out.stride, out.stride});
  };
  int column = 0;
  for (; column + height <= columns; column += height) {
    part(std::integral_constant<int, height>{}, column);
  }
  for (; column < columns; column += 2) { part(std::integral_constant<int, 2>{}, column); }
}

/// `height`: rows that multiply takes at once; `columns`: those of multiply_transposed. Registers decide.
template <typename Family, std::ptrdiff_t lanes, int height, int columns>
constexpr WinogradKernels kernels_of() {
  using Loops = TileLoops<Family, lanes>;
  return {Family::tile,
          Family::products * Family::products,
          lanes,
          2 * lanes,
          height,
          Loops::spread_input,
          Loops::spread_gradient,
          Loops::spread_weights,
          Loops::gather_output,
          Loops::gather_weights,
          multiply<lanes, height>,
          multiply_transposed<lanes, columns>};
}

/// By the number of outputs, as in WinogradKernelSet.
template <std::ptrdiff_t lanes, int height, int columns>
constexpr WinogradKernelSet kernel_set() {
  return {kernels_of<FourOutputs, lanes, height, columns>(),
          kernels_of<TwoOutputs, lanes, height, columns>()};
}

}  // namespace

}  // namespace virtrain::resnet50::cpu
