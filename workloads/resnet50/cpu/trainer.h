#pragma once

#include "workloads/resnet50/cpu/communicator.h"
#include "workloads/resnet50/flags.h"

namespace virtrain::resnet50::cpu {

/// Everything of a run but the flags: sets up, waits for "go", trains, reports. Throws Error.
void train(const Flags& flags, Communicator& communicator);

}  // namespace virtrain::resnet50::cpu
