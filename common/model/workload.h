#pragma once

#include <cstdint>

#include "common/enum_text.h"

// What a training job is told and what is known of it: the words of scenarios, of the trainers' flags and of
// the database.
namespace virtrain {

BOOST_DEFINE_ENUM_CLASS(Backend, cpu, cuda)

/// tf32 is fp32 whose convolutions and matrix products round their factors to 10 bits of mantissa, on tensor
/// cores; the CPU has no such arithmetic.
BOOST_DEFINE_ENUM_CLASS(Precision, fp32, tf32, bf16, fp16)

/// Trainable parameters of ResNet-50 with 1000 classes.
inline constexpr std::int64_t resnet50_parameters = 25'557'032;

}  // namespace virtrain
