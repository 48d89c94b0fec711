#include "workloads/resnet50/cpu/operations/winograd_loops.h"

namespace virtrain::resnet50::cpu {

// 16 registers: 12 sums, two vectors, one factor.
constinit const WinogradKernelSet winograd_avx2 = kernel_set<8, 6, 6>();

}  // namespace virtrain::resnet50::cpu
