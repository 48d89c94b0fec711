#pragma once

#include <type_traits>

#include "workloads/resnet50/cpu/operations/winograd_kernels.h"
#include "workloads/resnet50/cpu/operations/winograd_transforms.h"

/// The kernels as templates over the vector width. Each file that includes this is compiled for another
/// instruction set, so everything is in an unnamed namespace and nothing of the standard library is called:
/// the linker keeps one copy of a function that several files share, and it must not be the one that only
/// some processors can run.
namespace virtrain::resnet50::cpu {
namespace {  // NOLINT(cert-dcl59-cpp,google-build-namespaces): see above

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

/// Loops over a tile or a block of weights; `Family` is one of winograd_transforms.h.
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
