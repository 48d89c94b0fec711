#pragma once

#include "common/enum_text.h"

namespace virtrain {

/// How numbers are stored and multiplied; sums are always fp32. tf32 is fp32 whose convolutions and matrix
/// products round their factors to 10 bits of mantissa, on tensor cores; the CPU has no such arithmetic.
VIRTRAIN_ENUM_CLASS(Precision, fp32, tf32, bf16, fp16)

}  // namespace virtrain
