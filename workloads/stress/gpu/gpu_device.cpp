#include "workloads/stress/gpu/gpu_device.h"

#include <cuda_runtime_api.h>

#include "workloads/common/cuda/gpu_choice.h"
#include "workloads/common/cuda/gpu_errors.h"

namespace virtrain::stress {

Device gpu_device(int gpu) {
  cudaDeviceProp properties{};
  check_gpu("ask the GPU for its properties", cudaGetDeviceProperties(&properties, gpu));
  return {static_cast<const char*>(properties.name), gpu_pci_address(gpu)};
}

}  // namespace virtrain::stress
