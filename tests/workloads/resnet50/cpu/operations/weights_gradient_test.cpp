#include "workloads/resnet50/cpu/operations/weights_gradient.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cpu/operations/tensor_helpers.h"

using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cpu;
using namespace virtrain::resnet50::plain;

namespace {

using tag = dnnl::memory::format_tag;
using type = dnnl::memory::data_type;

float widen(std::uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}

/// What the kernels promise, in plain loops: for processors without the instructions.
void pair(const std::uint16_t* plane, const PixelWindow& window, int first, int count, std::uint32_t* out) {
  const auto value = [&](int output, int lane) -> std::uint32_t {
    const int row = output / window.out_size * window.stride + window.first_row;
    const int column = output % window.out_size * window.stride + window.first_column;
    const bool inside = row >= 0 && row < window.in_size && column >= 0 && column < window.in_size;
    if (!inside) { return 0; }
    return plane[(row * window.in_size + column) * pair_lanes + lane];
  };
  for (int i = 0; i < count; ++i) {
    for (int lane = 0; lane < pair_lanes; ++lane) {
      out[i * pair_lanes + lane] = value(2 * (first + i), lane) | value(2 * (first + i) + 1, lane) << 16U;
    }
  }
}

void multiply(const std::uint32_t* inputs, const std::uint32_t* gradients, std::size_t gradient_step,
              int pairs, bool accumulate, float* out, std::size_t out_step) {
  for (std::size_t block = 0; block < 2; ++block) {
    for (int row = 0; row < pair_lanes; ++row) {
      for (int column = 0; column < pair_lanes; ++column) {
        float& sum = out[block * out_step + static_cast<std::size_t>(row * pair_lanes + column)];
        double exact = accumulate ? sum : 0;
        for (int k = 0; k < pairs; ++k) {
          const std::uint32_t a = inputs[k * pair_lanes + row];
          const std::uint32_t b =
              gradients[block * gradient_step + static_cast<std::size_t>(k * pair_lanes + column)];
          exact += static_cast<double>(widen(a & 0xffffU)) * widen(b & 0xffffU) +
                   static_cast<double>(widen(a >> 16U)) * widen(b >> 16U);
        }
        sum = static_cast<float>(exact);
      }
    }
  }
}

constexpr PixelPairKernels plain_kernels{pair, multiply};

bool has_instructions() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
}

/// Values in row-major order into blocks of 16 channels. By hand: oneDNN moves no bf16 on processors without
/// it.
Tensor blocked(Device& device, int batch, int channels, int size, const Values& values) {
  Tensor tensor = device.allocate(Layout({batch, channels, size, size}, type::bf16, tag::nChw16c));
  auto* const out = static_cast<std::uint16_t*>(tensor.get_data_handle());
  const std::ptrdiff_t pixels = std::ptrdiff_t{size} * size, blocks = channels / pair_lanes;
  auto next = values.begin();
  for (int image = 0; image < batch; ++image) {
    for (int c = 0; c < channels; ++c) {
      for (std::ptrdiff_t p = 0; p < pixels; ++p) {
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(*next++));
        out[((image * blocks + c / pair_lanes) * pixels + p) * pair_lanes + c % pair_lanes] =
            static_cast<std::uint16_t>(bits >> 16U);
      }
    }
  }
  return tensor;
}

void check(const PixelPairKernels& kernels, const ConvolutionShape& shape) {
  CAPTURE(shape.batch, shape.in_channels, shape.out_channels, shape.in_size, shape.kernel, shape.stride);
  Device device(Precision::bf16);
  const int out_size = shape.out_size();
  const auto random = [&](int channels, int size, unsigned seed) {
    return random_values(std::size_t{1} * shape.batch * channels * size * size, Precision::bf16, seed);
  };
  const Values source = random(shape.in_channels, shape.in_size, 1);
  const Values gradient = random(shape.out_channels, out_size, 2);
  const Layout master({shape.out_channels, shape.in_channels, shape.kernel, shape.kernel}, type::f32,
                      tag::OIhw16i16o);
  const Values weights(stored_elements(master), 0.0);
  const Tensor result = device.allocate(master);
  auto* const floats = static_cast<float*>(result.get_data_handle());
  std::fill_n(floats, stored_elements(master), 7.0F);  // what was there must not count
  WeightsGradient(device, shape, kernels)
      .run(blocked(device, shape.batch, shape.in_channels, shape.in_size, source),
           blocked(device, shape.batch, shape.out_channels, out_size, gradient), result);
  // Products and sums are fp32's: no rounding to bf16 here.
  CHECK(plain::distance(values_of(device, result),
                        plain::convolution(shape, source, weights, gradient).weights_gradient) <= 1e-6);
}

void check_shapes(const PixelPairKernels& kernels) {
  check(kernels, {2, 32, 64, 8, 1, 1, 0});
  check(kernels, {3, 16, 32, 7, 1, 1, 0});  // an odd number of pixels
  check(kernels, {2, 32, 32, 9, 1, 2, 0});
  check(kernels, {3, 32, 64, 14, 3, 2, 1});
  check(kernels, {2, 16, 96, 9, 3, 2, 1});   // zeros on all sides
  check(kernels, {3, 16, 32, 10, 3, 2, 1});  // an odd number of outputs of an even one of inputs
  check(kernels, {1, 48, 32, 6, 3, 1, 1});
  check(kernels, {5, 16, 32, 1, 1, 1, 0});
  check(kernels, {2, 32, 32, 40, 1, 1, 0});  // several panels
  check(kernels, {2, 64, 64, 30, 3, 1, 1});  // more of them than are made at once
}

}  // namespace

TEST_CASE(
    "the gradient of weights over pairs of pixels equals plain loops over doubles, whatever the kernels") {
  check_shapes(plain_kernels);
}

TEST_CASE("the gradient of weights by AVX-512's instructions for bf16 equals plain loops over doubles") {
  if (has_instructions()) { check_shapes(pixel_pairs_avx512_bf16); }
}

TEST_CASE("the gradient of weights is ours for whole blocks where oneDNN is slow, and only in bf16") {
  Device device(Precision::bf16);
  const auto serves = [&](const ConvolutionShape& shape, type of = type::bf16,
                          tag activation = tag::nChw16c) {
    const Layout source({1, shape.in_channels, 14, 14}, of, activation);
    const Layout destination({1, shape.out_channels, 14, 14}, of, activation);
    const Layout master({shape.out_channels, shape.in_channels, shape.kernel, shape.kernel}, type::f32,
                        tag::OIhw16i16o);
    return WeightsGradient::make(device, shape, source, destination, master).has_value();
  };
  CHECK(serves({1, 64, 256, 14, 1, 1, 0}) == has_instructions());
  CHECK(serves({1, 64, 64, 14, 3, 2, 1}) == has_instructions());
  CHECK_FALSE(serves({1, 64, 64, 14, 3, 1, 1}));
  CHECK_FALSE(serves({1, 64, 48, 14, 1, 1, 0}));
  CHECK_FALSE(serves({1, 24, 64, 14, 1, 1, 0}));
  CHECK_FALSE(serves({1, 64, 64, 14, 1, 1, 0}, type::f32));
  CHECK_FALSE(serves({1, 64, 64, 14, 1, 1, 0}, type::bf16, tag::nhwc));
}
