#pragma once

#include <memory>

#include "workloads/resnet50/training/training.h"

namespace virtrain::resnet50::cpu {

std::unique_ptr<TrainingBackend> make_backend(const Flags& flags, Peers& peers);

}  // namespace virtrain::resnet50::cpu
