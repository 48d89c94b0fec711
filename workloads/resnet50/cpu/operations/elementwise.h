#pragma once

#include <cstdint>
#include <span>

#include "workloads/resnet50/cpu/operations/device.h"

/// Kernels that no library has in the shape we need: one pass over memory each, by all threads.
namespace virtrain::resnet50::cpu {

/// inout = max(inout + other, 0): the end of a residual block. Equal layouts.
void add_relu(const Tensor& inout, const Tensor& other);

/// gradient = (first + second) where output > 0, else 0: back through the end of a residual block. Equal
/// layouts. `second` may be empty (no second path); `gradient` may be `first`.
void add_relu_backward(const Tensor& first, const Tensor& second, const Tensor& output,
                       const Tensor& gradient);

/// sum += values.
void accumulate(std::span<float> sum, std::span<const float> values);

struct SgdStep {
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  float gradient_scale = 1;
};
/// velocity = momentum velocity + (scale gradient + decay parameter); parameter -= rate velocity. As
/// torch.optim.SGD.
void sgd(std::span<float> parameters, std::span<float> velocity, std::span<const float> gradient,
         const SgdStep& step);

/// Mean cross-entropy of softmax(logits) over the rows, and its gradient by the logits (both plain fp32
/// rows).
double softmax_cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels, int classes,
                             std::span<float> gradient);

}  // namespace virtrain::resnet50::cpu
