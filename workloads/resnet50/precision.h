#pragma once

namespace virtrain::resnet50 {

/// How numbers are stored and multiplied; sums are always fp32. tf32 is fp32 whose convolutions and matrix
/// products round their factors to 10 bits of mantissa, on tensor cores; the CPU has no such arithmetic.
enum class Precision { fp32, tf32, bf16, fp16 };

const char* to_string(Precision precision);

}  // namespace virtrain::resnet50
