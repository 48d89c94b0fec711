#pragma once

#include "workloads/resnet50/cuda/kernels/kernels.h"

namespace virtrain::resnet50::cuda::plain {

/// kernels.h on the CPU, as plainly as can be: in the host's memory, sums in fp64, each value rounded to its
/// stored type.
const Kernels& plain_kernels();

}  // namespace virtrain::resnet50::cuda::plain
