// The kernels for 16 lanes, compiled for processors that have half as wide vectors: what they compute is
// tested everywhere, only the instructions of the widest processors are not.
#include "tests/workloads/resnet50/cpu/operations/winograd_16_lanes.h"

#include "workloads/resnet50/cpu/operations/winograd_loops.h"

namespace virtrain::resnet50::cpu {

constinit const WinogradKernelSet winograd_16_lanes = kernel_set<16, 12, 8>();

}  // namespace virtrain::resnet50::cpu
