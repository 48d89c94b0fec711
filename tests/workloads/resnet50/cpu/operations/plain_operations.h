#pragma once

#include <cstdint>
#include <vector>

#include "workloads/resnet50/cpu/operations/operations.h"

/// The operations once more, as plain loops over doubles in row-major order: what the fast ones are held
/// against.
namespace virtrain::resnet50::plain {

using Values = std::vector<double>;

struct Extents {
  int batch, channels, size;
  std::size_t count() const {
    return static_cast<std::size_t>(batch) * static_cast<std::size_t>(channels) *
           static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  }
  std::size_t at(int n, int c, int y, int x) const {
    return ((static_cast<std::size_t>(n) * static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)) *
                static_cast<std::size_t>(size) +
            static_cast<std::size_t>(y)) *
               static_cast<std::size_t>(size) +
           static_cast<std::size_t>(x);
  }
};

struct ConvolutionResult {
  Values out;
  Values source_gradient;
  Values weights_gradient;
};
/// Forward, and backward for this gradient of the outputs.
ConvolutionResult convolution(const cpu::ConvolutionShape& shape, const Values& source, const Values& weights,
                              const Values& out_gradient);

struct BatchNormResult {
  Values out;
  Values source_gradient;
  Values scale_gradient;
  Values shift_gradient;
  Values mean;
  Values unbiased_variance;
};
BatchNormResult batch_norm(const Extents& extents, bool relu, const Values& source, const Values& scale,
                           const Values& shift, const Values& out_gradient);

struct PoolResult {
  Values out;
  Values source_gradient;
};
PoolResult pool(cpu::PoolOperation::Kind kind, const Extents& extents, int out_size, int kernel, int stride,
                int padding, const Values& source, const Values& out_gradient);

struct LinearResult {
  Values out;
  Values source_gradient;
  Values weights_gradient;
  Values bias_gradient;
};
LinearResult linear(int batch, int inputs, int outputs, const Values& source, const Values& weights,
                    const Values& bias, const Values& out_gradient);

/// |a - b| / |b|
double distance(const Values& a, const Values& b);

}  // namespace virtrain::resnet50::plain
