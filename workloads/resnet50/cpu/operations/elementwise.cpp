#include "workloads/resnet50/cpu/operations/elementwise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

// One binary runs on every processor: the loader picks the version. Not under sanitizers, which the loader's
// choice would run before they are ready.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VIRTRAIN_SIMD_VERSIONS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VIRTRAIN_SIMD_VERSIONS
#endif

namespace virtrain::resnet50::cpu {
namespace {

inline float widen(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Round to nearest, ties to even. A NaN stays one: a sum of two widened values has a quiet NaN without low
/// bits.
inline std::uint16_t narrow(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// All bits where a ReLU's output is positive, none elsewhere: a float's sign is the sign of its bits as an
/// integer. With a mask instead of a choice the compiler needs no branch and no masked loads.
inline std::int32_t pass_mask(std::int32_t output_bits) {
  return -static_cast<std::int32_t>(output_bits > 0);
}

VIRTRAIN_SIMD_VERSIONS void add_relu_fp32(float* inout, const float* other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = inout[i] + other[i];
    inout[i] = sum < 0 ? 0 : sum;  // written so that a NaN passes
  }
}

VIRTRAIN_SIMD_VERSIONS void add_relu_bf16(std::uint16_t* inout, const std::uint16_t* other,
                                          std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = widen(inout[i]) + widen(other[i]);
    inout[i] = narrow(sum < 0 ? 0 : sum);
  }
}

// The result may be an operand itself (`ivdep`: equal or disjoint, never shifted); without saying so the
// compiler's overlap check would send that case down a scalar loop, ten times slower.
VIRTRAIN_SIMD_VERSIONS void add_mask_fp32(const float* first, const float* second, const float* output,
                                          float* gradient, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const auto sum = std::bit_cast<std::int32_t>(first[i] + second[i]);
    gradient[i] = std::bit_cast<float>(sum & pass_mask(std::bit_cast<std::int32_t>(output[i])));
  }
}

VIRTRAIN_SIMD_VERSIONS void add_mask_bf16(const std::uint16_t* first, const std::uint16_t* second,
                                          const std::uint16_t* output, std::uint16_t* gradient,
                                          std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t sum = narrow(widen(first[i]) + widen(second[i]));
    gradient[i] = static_cast<std::uint16_t>(sum & pass_mask(static_cast<std::int16_t>(output[i])));
  }
}

template <typename T>
void mask(const T* first, const T* output, T* gradient, std::size_t count) {
  using Signed = std::conditional_t<sizeof(T) == 2, std::int16_t, std::int32_t>;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<Signed>(first[i]);
    gradient[i] = std::bit_cast<T>(static_cast<Signed>(bits & pass_mask(std::bit_cast<Signed>(output[i]))));
  }
}

VIRTRAIN_SIMD_VERSIONS void accumulate_range(float* sum, const float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) { sum[i] += values[i]; }
}

VIRTRAIN_SIMD_VERSIONS void sgd_range(float* parameters, float* velocity, const float* gradient,
                                      std::size_t count, SgdStep step) {
  for (std::size_t i = 0; i < count; ++i) {
    const float full = step.gradient_scale * gradient[i] + step.weight_decay * parameters[i];
    velocity[i] = step.momentum * velocity[i] + full;
    parameters[i] -= step.learning_rate * velocity[i];
  }
}

/// Calls work(begin, end) for cache-sized pieces of [0, count) on all threads.
template <typename Work>
void for_pieces(std::size_t count, const Work& work) {
  constexpr std::size_t piece = 16384;
  const std::size_t pieces = (count + piece - 1) / piece;
#pragma omp parallel for schedule(static)
  for (std::size_t p = 0; p < pieces; ++p) { work(p * piece, std::min(count, (p + 1) * piece)); }
}

template <typename T>
T* data(const Tensor& tensor) {
  return static_cast<T*>(tensor.get_data_handle());
}

bool is_bf16(const Tensor& tensor) {
  return onednn::type_of(tensor.get_desc()) == dnnl::memory::data_type::bf16;
}

}  // namespace

void add_relu(const Tensor& inout, const Tensor& other) {
  const bool bf16 = is_bf16(inout);
  for_pieces(stored_elements(inout.get_desc()), [&](std::size_t begin, std::size_t end) {
    if (bf16) {
      add_relu_bf16(data<std::uint16_t>(inout) + begin, data<std::uint16_t>(other) + begin, end - begin);
    } else {
      add_relu_fp32(data<float>(inout) + begin, data<float>(other) + begin, end - begin);
    }
  });
}

void add_relu_backward(const Tensor& first, const Tensor& second, const Tensor& output,
                       const Tensor& gradient) {
  const bool bf16 = is_bf16(first);
  const auto piece = [&]<typename T>(T, auto add_mask, std::size_t begin, std::size_t end) {
    const T* const a = data<T>(first) + begin;
    const T* const y = data<T>(output) + begin;
    T* const result = data<T>(gradient) + begin;
    if (second) {
      add_mask(a, data<T>(second) + begin, y, result, end - begin);
    } else {
      mask(a, y, result, end - begin);
    }
  };
  for_pieces(stored_elements(first.get_desc()), [&](std::size_t begin, std::size_t end) {
    if (bf16) {
      piece(std::uint16_t{}, add_mask_bf16, begin, end);
    } else {
      piece(float{}, add_mask_fp32, begin, end);
    }
  });
}

void accumulate(std::span<float> sum, std::span<const float> values) {
  for_pieces(sum.size(), [&](std::size_t begin, std::size_t end) {
    accumulate_range(sum.data() + begin, values.data() + begin, end - begin);
  });
}

void sgd(std::span<float> parameters, std::span<float> velocity, std::span<const float> gradient,
         const SgdStep& step) {
  for_pieces(parameters.size(), [&](std::size_t begin, std::size_t end) {
    sgd_range(parameters.data() + begin, velocity.data() + begin, gradient.data() + begin, end - begin, step);
  });
}

double softmax_cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels, int classes,
                             std::span<float> gradient) {
  const auto width = static_cast<std::size_t>(classes);
  const double rows = static_cast<double>(labels.size());
  double loss = 0;
#pragma omp parallel for schedule(static) reduction(+ : loss)
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::span<const float> x = logits.subspan(row * width, width);
    const std::span<float> g = gradient.subspan(row * width, width);
    const float largest = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) {
      g[i] = std::exp(x[i] - largest);
      sum += g[i];
    }
    const auto label = static_cast<std::size_t>(labels[row]);
    loss += std::log(sum) - (static_cast<double>(x[label]) - largest);
    const auto scale = static_cast<float>(1 / (sum * rows));
    for (std::size_t i = 0; i < width; ++i) { g[i] *= scale; }
    g[label] -= static_cast<float>(1 / rows);
  }
  return loss / rows;
}

}  // namespace virtrain::resnet50::cpu
