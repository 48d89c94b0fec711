#pragma once

#include <cstdint>

#include "common/enum_text.h"
#include "common/model/precision.h"

// What a training job is told and what is known of it: the words of scenarios, of the trainers' flags and of
// the database.
namespace virtrain {

VIRTRAIN_ENUM_CLASS(Backend, cpu, cuda)

/// Trainable parameters of ResNet-50 with 1000 classes.
inline constexpr std::int64_t resnet50_parameters = 25'557'032;

}  // namespace virtrain
