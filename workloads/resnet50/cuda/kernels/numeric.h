#pragma once

#include "common/model/precision.h"

namespace virtrain::resnet50::cuda {

using Numeric = Precision;

/// Bytes of one element of an activation.
inline int element_bytes(Numeric numeric) {
  return numeric == Numeric::fp32 || numeric == Numeric::tf32 ? 4 : 2;
}

/// Whether the GPU has arithmetic for it: bf16 and tf32 came with compute capability 8.0 (given as 80).
inline bool is_possible(Numeric numeric, int compute_capability) {
  const bool old_format = numeric == Numeric::fp32 || numeric == Numeric::fp16;
  return old_format || compute_capability >= 80;
}

/// The images' three channels are padded to four zero-filled ones: without it cuDNN pads in a 49 MB
/// workspace.
inline constexpr int padded_image_channels = 4;

}  // namespace virtrain::resnet50::cuda
