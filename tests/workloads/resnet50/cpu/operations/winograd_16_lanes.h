#pragma once

#include "workloads/resnet50/cpu/operations/winograd_kernels.h"

namespace virtrain::resnet50::cpu {

/// As winograd_avx512, for processors with AVX2.
extern const WinogradKernelSet winograd_16_lanes;

}  // namespace virtrain::resnet50::cpu
