#include "workloads/resnet50/cpu/operations/operations.h"

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cpu/operations/tensor_helpers.h"

using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cpu;
using namespace virtrain::resnet50::plain;

namespace {

Values random(const Layout& layout, Precision precision, unsigned seed) {
  std::size_t count = 1;
  for (const auto extent : virtrain::onednn::dims_of(layout)) { count *= static_cast<std::size_t>(extent); }
  return random_values(count, precision, seed);
}

void check_convolution(Precision precision, const ConvolutionShape& shape) {
  CAPTURE(to_string(precision), shape.in_channels, shape.out_channels, shape.in_size, shape.kernel,
          shape.stride);
  Device device(precision);
  ConvolutionOperation operation(device, shape, true);
  const Values source = random(operation.source_layout(), precision, 1);
  const Values weights = random(operation.master_layout(), precision, 2);
  const Values gradient = random(operation.destination_layout(), precision, 3);
  const ConvolutionResult expected = plain::convolution(shape, source, weights, gradient);

  const Tensor in = make_tensor(device, operation.source_layout(), source);
  const Tensor master = make_tensor(device, operation.master_layout(), weights);
  const Tensor out_gradient = make_tensor(device, operation.destination_layout(), gradient);
  const Tensor out = device.allocate(operation.destination_layout());
  operation.forward(in, master, out);
  CHECK(plain::distance(values_of(device, out), expected.out) <= tolerance(precision));

  const Tensor master_gradient = device.allocate(operation.master_layout());
  operation.backward_weights(in, out_gradient, master_gradient);
  CHECK(plain::distance(values_of(device, master_gradient), expected.weights_gradient) <=
        tolerance(precision));

  const Tensor in_gradient = device.allocate(operation.source_layout());
  operation.backward_data(out_gradient, master, in_gradient);
  CHECK(plain::distance(values_of(device, in_gradient), expected.source_gradient) <= tolerance(precision));
}

void check_batch_norm(Precision precision, int channels, int size, dnnl::memory::format_tag tag, bool relu) {
  CAPTURE(to_string(precision), channels, size, relu);
  Device device(precision);
  const Extents extents{3, channels, size};
  const Layout layout({3, channels, size, size}, device.activation_type(), tag);
  BatchNormOperation operation(device, layout, relu);
  const Values source = random(layout, precision, 4);
  const Values gradient = random(layout, precision, 5);
  const Values scale = random(vector_layout(channels), Precision::fp32, 6);
  const Values shift = random(vector_layout(channels), Precision::fp32, 7);
  const BatchNormResult expected = plain::batch_norm(extents, relu, source, scale, shift, gradient);

  const Tensor in = make_tensor(device, layout, source);
  const Tensor gamma = make_tensor(device, vector_layout(channels), scale);
  const Tensor beta = make_tensor(device, vector_layout(channels), shift);
  const Tensor out = device.allocate(layout);
  operation.forward(in, gamma, beta, out);
  CHECK(plain::distance(values_of(device, out), expected.out) <= tolerance(precision));

  const Tensor moving = make_tensor(device, layout, gradient);  // in place, as the network does it
  const Tensor gamma_gradient = device.allocate(vector_layout(channels));
  const Tensor beta_gradient = device.allocate(vector_layout(channels));
  operation.backward(in, gamma, beta, moving, moving, gamma_gradient, beta_gradient);
  CHECK(plain::distance(values_of(device, moving), expected.source_gradient) <= tolerance(precision));
  CHECK(plain::distance(values_of(device, gamma_gradient), expected.scale_gradient) <= tolerance(precision));
  CHECK(plain::distance(values_of(device, beta_gradient), expected.shift_gradient) <= tolerance(precision));

  std::vector<float> mean(static_cast<std::size_t>(channels), 1.0F);
  std::vector<float> variance(static_cast<std::size_t>(channels), 2.0F);
  operation.update_running(mean.data(), variance.data(), 0.1);
  for (std::size_t c = 0; c < mean.size(); ++c) {
    CHECK(mean[c] == Approx(0.9 + 0.1 * expected.mean[c]).epsilon(1e-5).margin(1e-6));
    CHECK(variance[c] == Approx(1.8 + 0.1 * expected.unbiased_variance[c]).epsilon(1e-5));
  }
}

void check_pool(Precision precision, PoolOperation::Kind kind, int channels, int size, int out_size,
                int kernel, int stride, int padding) {
  CAPTURE(to_string(precision), channels, size, kernel);
  Device device(precision);
  const Layout layout({2, channels, size, size}, device.activation_type(), dnnl::memory::format_tag::nChw16c);
  PoolOperation operation(device, kind, layout, out_size, kernel, stride, padding);
  const Values source = random(layout, precision, 8);
  const Values gradient = random(operation.destination_layout(), precision, 9);
  const PoolResult expected =
      plain::pool(kind, {2, channels, size}, out_size, kernel, stride, padding, source, gradient);
  const Tensor in = make_tensor(device, layout, source);
  const Tensor out = device.allocate(operation.destination_layout());
  operation.forward(in, out);
  CHECK(plain::distance(values_of(device, out), expected.out) <= tolerance(precision));
  const Tensor in_gradient = device.allocate(layout);
  operation.backward(make_tensor(device, operation.destination_layout(), gradient), in_gradient);
  CHECK(plain::distance(values_of(device, in_gradient), expected.source_gradient) <= tolerance(precision));
}

void check_linear(Precision precision, int batch, int inputs, int outputs) {
  CAPTURE(to_string(precision), batch, inputs, outputs);
  Device device(precision);
  LinearOperation operation(device, batch, inputs, outputs);
  const Values source = random(operation.source_layout(), precision, 10);
  const Values weights = random(operation.master_layout(), precision, 11);
  const Values bias = random(vector_layout(outputs), Precision::fp32, 12);
  const Values gradient = random(operation.destination_layout(), precision, 13);
  const LinearResult expected = plain::linear(batch, inputs, outputs, source, weights, bias, gradient);

  const Tensor in = make_tensor(device, operation.source_layout(), source);
  const Tensor master = make_tensor(device, operation.master_layout(), weights);
  const Tensor shift = make_tensor(device, vector_layout(outputs), bias);
  const Tensor out = device.allocate(operation.destination_layout());
  operation.forward(in, master, shift, out);
  CHECK(plain::distance(values_of(device, out), expected.out) <= tolerance(precision));

  const Tensor in_gradient = device.allocate(operation.source_layout());
  const Tensor master_gradient = device.allocate(operation.master_layout());
  const Tensor bias_gradient = device.allocate(vector_layout(outputs));
  operation.backward(in, master, make_tensor(device, operation.destination_layout(), gradient), in_gradient,
                     master_gradient, bias_gradient);
  CHECK(plain::distance(values_of(device, in_gradient), expected.source_gradient) <= tolerance(precision));
  CHECK(plain::distance(values_of(device, master_gradient), expected.weights_gradient) <=
        tolerance(precision));
  CHECK(plain::distance(values_of(device, bias_gradient), expected.bias_gradient) <= tolerance(precision));
}

}  // namespace

TEST_CASE("convolutions equal plain loops over doubles, forward and backward") {
  for (const Precision precision : possible_precisions()) {
    check_convolution(precision, {2, 64, 64, 8, 1, 1, 0});
    check_convolution(precision, {2, 32, 64, 9, 3, 2, 1});
    check_convolution(precision, {1, 64, 32, 7, 3, 1, 1});
    check_convolution(precision, {3, 48, 80, 7, 1, 2, 0});
    check_convolution(precision, {1, 3, 64, 33, 7, 2, 3});
    check_convolution(precision, {3, 5, 7, 9, 3, 2, 1});
    check_convolution(precision, {1, 17, 33, 5, 1, 1, 0});
    check_convolution(precision, {2, 512, 512, 1, 3, 1, 1});
    check_convolution(precision, {3, 64, 32, 14, 3, 1, 1});  // in fp32 by Winograd: winograd_test
  }
}

TEST_CASE("a 3x3 convolution of many tiles is Winograd's where the layouts are AVX2's") {
  Device device(Precision::fp32);
  const ConvolutionOperation many(device, {3, 64, 32, 14, 3, 1, 1}, true);
  if (virtrain::onednn::instruction_set() == "avx2") { CHECK(many.is_winograd()); }
  CHECK_FALSE(ConvolutionOperation(device, {3, 64, 32, 14, 1, 1, 0}, true).is_winograd());
}

TEST_CASE("batch normalization equals plain loops over doubles, forward, backward and running statistics") {
  for (const Precision precision : possible_precisions()) {
    for (const bool relu : {false, true}) {
      check_batch_norm(precision, 64, 7, dnnl::memory::format_tag::nChw16c, relu);
      check_batch_norm(precision, 37, 5, dnnl::memory::format_tag::nchw, relu);
      check_batch_norm(precision, 32, 1, dnnl::memory::format_tag::nChw16c, relu);
      check_batch_norm(precision, 19, 9, dnnl::memory::format_tag::nhwc, relu);
    }
  }
}

TEST_CASE("pooling equals plain loops over doubles, forward and backward") {
  for (const Precision precision : possible_precisions()) {
    check_pool(precision, PoolOperation::Kind::maximum, 64, 16, 8, 3, 2, 1);
    check_pool(precision, PoolOperation::Kind::maximum, 32, 17, 9, 3, 2, 1);
    check_pool(precision, PoolOperation::Kind::average, 64, 7, 1, 7, 1, 0);
    check_pool(precision, PoolOperation::Kind::average, 48, 1, 1, 1, 1, 0);
  }
}

TEST_CASE("the last layer equals plain loops over doubles, forward and backward") {
  for (const Precision precision : possible_precisions()) {
    check_linear(precision, 8, 2048, 1000);
    check_linear(precision, 3, 37, 11);
  }
}

TEST_CASE("an operand in a foreign layout gives the same result") {
  Device device(Precision::fp32);
  const ConvolutionShape shape{2, 32, 48, 6, 3, 1, 1};
  ConvolutionOperation operation(device, shape, true);
  const Values source = random(operation.source_layout(), Precision::fp32, 1);
  const Values weights = random(operation.master_layout(), Precision::fp32, 2);
  const Values gradient(static_cast<std::size_t>(2 * 48 * 6 * 6), 1.0);
  const Layout in_layout = plain_layout({2, 32, 6, 6});
  const Layout out_layout = plain_layout({2, 48, 6, 6});
  const Tensor in = make_tensor(device, in_layout, source);
  const Tensor master = make_tensor(device, operation.master_layout(), weights);
  const Tensor out = device.allocate(out_layout);
  const Tensor in_gradient = device.allocate(in_layout);
  operation.forward(in, master, out);
  operation.backward_data(make_tensor(device, out_layout, gradient), master, in_gradient);
  const ConvolutionResult expected = plain::convolution(shape, source, weights, gradient);
  CHECK(plain::distance(values_of(device, out), expected.out) <= 1e-5);
  CHECK(plain::distance(values_of(device, in_gradient), expected.source_gradient) <= 1e-5);
  CHECK(device.activation_reorders() > 0);
}
