#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "workloads/resnet50/cuda/program/graph_spec.h"

/// Numbers as the GPU stores them, rounded to the nearest, ties to even.
namespace virtrain::resnet50::cuda::plain {

inline float to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}

inline std::uint16_t to_fp16(double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000U : 0U);
  const double size = std::abs(value);
  std::uint32_t bits = 0x7e00;  // not a number
  if (size >= 65520) {
    bits = 0x7c00;
  } else if (size < 0x1p-14) {
    bits = static_cast<std::uint32_t>(std::nearbyint(size * 0x1p24));
  } else if (!std::isnan(size)) {
    int exponent = 0;
    const double share = std::frexp(size, &exponent);  // a carry goes into the exponent, as it should
    bits = (static_cast<std::uint32_t>(exponent + 13) << 10) +
           static_cast<std::uint32_t>(std::nearbyint(share * 2048));
  }
  return static_cast<std::uint16_t>(sign | bits);
}
inline double from_fp16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 0) { size = fraction * 0x1p-24; }
  if (exponent == 31) { size = fraction == 0 ? HUGE_VAL : std::nan(""); }
  return (bits & 0x8000) != 0 ? -size : size;
}

template <typename Stored>
Stored load(const std::byte* from, std::size_t index) {
  Stored value;
  std::memcpy(&value, from + index * sizeof(Stored), sizeof(Stored));
  return value;
}
template <typename Stored>
void store(std::byte* to, std::size_t index, Stored value) {
  std::memcpy(to + index * sizeof(Stored), &value, sizeof(Stored));
}

inline double load_activation(Numeric numeric, const std::byte* from, std::size_t i) {
  if (numeric == Numeric::fp16) { return from_fp16(load<std::uint16_t>(from, i)); }
  if (numeric == Numeric::bf16) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(from, i)) << 16);
  }
  return load<float>(from, i);
}
inline void store_activation(Numeric numeric, std::byte* to, std::size_t i, double value) {
  const auto narrow = static_cast<float>(value);
  if (numeric == Numeric::fp16) {
    store(to, i, to_fp16(value));
  } else if (numeric == Numeric::bf16) {
    store(to, i, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(to_bf16(narrow)) >> 16));
  } else {
    store(to, i, narrow);
  }
}

}  // namespace virtrain::resnet50::cuda::plain
