#include "workloads/resnet50/cpu/operations/winograd_loops.h"

namespace virtrain::resnet50::cpu {

// 32 registers: 24 sums; the columns divide any number of channels.
constinit const WinogradKernelSet winograd_avx512 = kernel_set<16, 12, 8>();

}  // namespace virtrain::resnet50::cpu
