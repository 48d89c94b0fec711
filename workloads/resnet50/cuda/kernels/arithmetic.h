#pragma once

#include <cmath>
#include <cstdint>

/// The arithmetic and the index arithmetic of our kernels, as functions that run on the CPU as well: tests
/// call them without a GPU.
#ifdef __CUDACC__
#define VIRTRAIN_HOST_DEVICE __host__ __device__
#else
#define VIRTRAIN_HOST_DEVICE
#endif

namespace virtrain::resnet50::cuda {

/// Elements that one thread handles at once: 16 bytes of 16-bit types, and a whole byte of a bitmask.
inline constexpr int pack_size = 8;

/// The model's one max-pool, of windows over a padded square image: their size is known when it is compiled.
struct PoolShape {
  static constexpr int kernel = 3;
  static constexpr int stride = 2;
  static constexpr int padding = 1;

  int batch = 1;
  int channels = pack_size;
  int in_size = 1;

  VIRTRAIN_HOST_DEVICE int out_size() const { return (in_size + 2 * padding - kernel) / stride + 1; }
};

/// In one direction, where input 2 i + `in` lies in the window of output i + `out` (both 0 or 1): 0 to 2, or
/// outside. Each input lies in one or two windows, all of its own pair's or of the next.
VIRTRAIN_HOST_DEVICE constexpr int place_in_window(int in, int out) {
  return in + PoolShape::padding - out * PoolShape::stride;
}
VIRTRAIN_HOST_DEVICE constexpr bool is_in_window(int in, int out) {
  return place_in_window(in, out) >= 0 && place_in_window(in, out) < PoolShape::kernel;
}

/// Where element (image, row, column, channel pack) of an NHWC image begins, in packs: fewer than 2^31, as no
/// tensor has more elements.
VIRTRAIN_HOST_DEVICE inline int pack_index(int image, int row, int column, int pack, int size, int packs) {
  return ((image * size + row) * size + column) * packs + pack;
}

/// Mean and 1 / sqrt(biased variance + epsilon) of n values from sums of (x - origin) and its square.
struct Moments {
  float mean;
  float inverse_std;
  float unbiased_variance;  ///< what torch keeps as running variance; of one value the biased one
};
VIRTRAIN_HOST_DEVICE inline Moments moments(double sum, double square_sum, double origin, double n,
                                            double epsilon) {
  const double offset = sum / n;
  const double spread = square_sum / n - offset * offset;
  const double variance = spread > 0 ? spread : 0;  // rounding must not make it negative
  return {static_cast<float>(origin + offset), static_cast<float>(1 / sqrt(variance + epsilon)),
          static_cast<float>(n > 1 ? variance * n / (n - 1) : variance)};
}

/// norm(x) = scale x + shift.
struct ForwardFactors {
  float scale;
  float shift;
};
VIRTRAIN_HOST_DEVICE inline ForwardFactors forward_factors(float gamma, float beta, float mean,
                                                           float inverse_std) {
  const float scale = gamma * inverse_std;
  return {scale, beta - mean * scale};
}

/// The same in a type of fewer digits. `rounded` is the scale in that type. The shift goes with it and not
/// with the scale of full precision: else a mean of many deviations, times the scale's rounding, would be
/// left in every element of the channel.
VIRTRAIN_HOST_DEVICE inline ForwardFactors narrow_factors(float rounded, float beta, float mean) {
  return {rounded, beta - mean * rounded};
}

/// The gradient of the norm's input: gradient of its output * dy + x * x + constant (cuDNN's A, B and C).
struct BackwardFactors {
  float dy;
  float x;
  float constant;
};
VIRTRAIN_HOST_DEVICE inline BackwardFactors backward_factors(float gamma, float mean, float inverse_std,
                                                             double gamma_grad, double beta_grad, double n) {
  const double dy = static_cast<double>(gamma) * inverse_std;
  const double x = -dy * inverse_std * gamma_grad / n;
  return {static_cast<float>(dy), static_cast<float>(x), static_cast<float>(-dy * beta_grad / n - x * mean)};
}

/// The same in fp32, for passes in which each thread makes those of its channels. `share` is 1 / n. A
/// rounding of `x` is in the constant as well, so that it cancels near the mean.
VIRTRAIN_HOST_DEVICE inline BackwardFactors quick_backward_factors(float gamma, float mean, float inverse_std,
                                                                   float gamma_grad, float beta_grad,
                                                                   float share) {
  const float dy = gamma * inverse_std;
  const float x = -dy * inverse_std * (gamma_grad * share);
  return {dy, x, -dy * (beta_grad * share) - x * mean};
}

struct SgdRule {
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  float gradient_scale = 1;  ///< without the loss scale, which the kernel takes off itself
};

/// torch.optim.SGD: velocity = momentum velocity + (gradient + decay parameter); parameter -= rate velocity.
VIRTRAIN_HOST_DEVICE inline void sgd_element(float& parameter, float& velocity, float gradient,
                                             const SgdRule& rule) {
  const float full = gradient + rule.weight_decay * parameter;
  velocity = rule.momentum * velocity + full;
  parameter -= rule.learning_rate * velocity;
}

/// Lives on the GPU, so that a captured step can change it: the loss is multiplied by `scale`, and a step
/// whose gradients overflow is left out.
struct LossScale {
  float scale = 1;
  int overflow = 0;  ///< of this step: 1 after an infinity or a NaN
  int good_steps = 0;
  int skipped_steps = 0;
};
/// Between two steps, as torch.amp's GradScaler: half after an overflow, double after 2000 steps without one.
VIRTRAIN_HOST_DEVICE inline void update_loss_scale(LossScale& state) {
  constexpr int growth_interval = 2000;
  constexpr float largest = 65536.0F;
  if (state.overflow != 0) {
    state.scale = state.scale > 1 ? state.scale / 2 : 1;
    state.good_steps = 0;
    ++state.skipped_steps;
  } else if (++state.good_steps == growth_interval) {
    state.scale = state.scale < largest ? state.scale * 2 : state.scale;
    state.good_steps = 0;
  }
  state.overflow = 0;
}

}  // namespace virtrain::resnet50::cuda
