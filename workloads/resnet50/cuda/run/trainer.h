#pragma once

#include <memory>

#include "workloads/resnet50/training/training.h"

namespace virtrain::resnet50::cuda {

/// Takes this rank's GPU. Throws Error in words that say what is missing.
std::unique_ptr<TrainingBackend> make_backend(const Flags& flags, Peers& peers);

}  // namespace virtrain::resnet50::cuda
