#include "workloads/resnet50/cpu/operations/winograd.h"

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cpu/operations/tensor_helpers.h"
#include "tests/workloads/resnet50/cpu/operations/winograd_16_lanes.h"

using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cpu;
using namespace virtrain::resnet50::plain;

namespace {

using tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

struct Width {
  const WinogradKernelSet* kernels;
  tag activation, weights;
};

std::vector<Width> widths() {
  std::vector<Width> possible;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    possible.push_back({&winograd_avx2, tag::nChw8c, tag::OIhw8i8o});
    possible.push_back({&winograd_16_lanes, tag::nChw16c, tag::OIhw16i16o});
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
    possible.push_back({&winograd_avx512, tag::nChw16c, tag::OIhw16i16o});
  }
  return possible;
}

Values random(const Layout& layout, unsigned seed) {
  std::size_t count = 1;
  for (const auto extent : virtrain::onednn::dims_of(layout)) { count *= static_cast<std::size_t>(extent); }
  return random_values(count, Precision::fp32, seed);
}

void check(const Width& width, const ConvolutionShape& shape) {
  CAPTURE(width.kernels->front().lanes, shape.batch, shape.in_channels, shape.out_channels, shape.in_size);
  Device device(Precision::fp32);
  const auto convolution = WinogradConvolution::make(device, shape, *width.kernels);
  REQUIRE(convolution.has_value());
  const Layout source_layout({shape.batch, shape.in_channels, shape.in_size, shape.in_size}, f32,
                             width.activation);
  const Layout out_layout({shape.batch, shape.out_channels, shape.in_size, shape.in_size}, f32,
                          width.activation);
  const Layout master_layout({shape.out_channels, shape.in_channels, 3, 3}, f32, width.weights);
  const Values source = random(source_layout, 1);
  const Values weights = random(master_layout, 2);
  const Values gradient = random(out_layout, 3);
  const ConvolutionResult expected = plain::convolution(shape, source, weights, gradient);

  const Tensor in = make_tensor(device, source_layout, source);
  const Tensor master = make_tensor(device, master_layout, weights);
  const Tensor out_gradient = make_tensor(device, out_layout, gradient);
  const Tensor out = device.allocate(out_layout);
  convolution->forward(in, master, out);
  CHECK(plain::distance(values_of(device, out), expected.out) <= tolerance(Precision::fp32));
  const Tensor master_gradient = device.allocate(master_layout);
  convolution->backward_weights(in, out_gradient, master_gradient);
  CHECK(plain::distance(values_of(device, master_gradient), expected.weights_gradient) <=
        tolerance(Precision::fp32));
  const Tensor in_gradient = device.allocate(source_layout);
  convolution->backward_data(out_gradient, master, in_gradient);
  CHECK(plain::distance(values_of(device, in_gradient), expected.source_gradient) <=
        tolerance(Precision::fp32));
}

}  // namespace

TEST_CASE("Winograd's convolutions equal plain loops over doubles, forward and backward") {
  for (const Width& width : widths()) {
    check(width, {3, 64, 32, 14, 3, 1, 1});
    check(width, {8, 32, 64, 7, 3, 1, 1});    // tiles stick out of the image by one
    check(width, {1, 32, 64, 33, 3, 1, 1});   // by three
    check(width, {4, 64, 32, 37, 3, 1, 1});   // so many that they are worked on in rounds
    check(width, {33, 160, 96, 2, 3, 1, 1});  // tiles of two outputs a side
    check(width, {17, 64, 32, 6, 3, 1, 1});
  }
}

TEST_CASE("Winograd's way is taken for whole vectors and many tiles of 3x3, stride 1") {
  Device device(Precision::fp32);
  const auto serves = [&](const ConvolutionShape& shape) {
    return WinogradConvolution::make(device, shape, winograd_avx2).has_value();
  };
  CHECK(serves({8, 32, 64, 7, 3, 1, 1}));
  CHECK_FALSE(serves({7, 32, 64, 7, 3, 1, 1}));    // 28 tiles
  CHECK_FALSE(serves({64, 32, 64, 1, 3, 1, 1}));   // mostly outside the image
  CHECK_FALSE(serves({8, 32, 64, 14, 3, 2, 1}));   // another stride
  CHECK_FALSE(serves({8, 32, 64, 14, 1, 1, 0}));   // another kernel
  CHECK_FALSE(serves({16, 24, 40, 14, 3, 1, 1}));  // not whole panels of channels
  const Layout plain({8, 32, 7, 7}, f32, tag::nchw), master({32, 32, 3, 3}, f32, tag::oihw);
  CHECK_FALSE(WinogradConvolution::make(device, {8, 32, 32, 7, 3, 1, 1}, plain, plain, master).has_value());
}
