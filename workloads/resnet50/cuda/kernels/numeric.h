#pragma once

#include "common/model/precision.h"

namespace virtrain::resnet50::cuda {

using Numeric = Precision;

/// Bytes of one element of an activation.
int element_bytes(Numeric numeric);

/// Whether the GPU has arithmetic for it: bf16 and tf32 came with compute capability 8.0 (given as 80).
bool is_possible(Numeric numeric, int compute_capability);

/// The images' three channels are padded to four zero-filled ones: without it cuDNN pads in a 49 MB
/// workspace.
inline constexpr int padded_image_channels = 4;

}  // namespace virtrain::resnet50::cuda
