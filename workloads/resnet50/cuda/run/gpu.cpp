#include "workloads/resnet50/cuda/run/gpu.h"

#include <cuda_runtime_api.h>

#include "workloads/common/cuda/gpu_choice.h"
#include "workloads/common/cuda/gpu_errors.h"

namespace virtrain::resnet50::cuda {

Gpu take_gpu(Peers& peers) {
  Gpu gpu;
  gpu.index = use_own_gpu(peers, 0);
  cudaDeviceProp properties{};
  check_gpu("read the GPU's properties", cudaGetDeviceProperties(&properties, gpu.index));
  gpu.name = properties.name;
  gpu.compute_capability = properties.major * 10 + properties.minor;
  gpu.pci_address = gpu_pci_address(gpu.index);
  check_gpu("read the driver's version", cudaDriverGetVersion(&gpu.driver_version));
  check_gpu("read the runtime's version", cudaRuntimeGetVersion(&gpu.runtime_version));
  std::size_t free_bytes = 0, total_bytes = 0;
  check_gpu("read the GPU's free memory", cudaMemGetInfo(&free_bytes, &total_bytes));
  gpu.free_bytes = static_cast<std::int64_t>(free_bytes);
  gpu.total_bytes = static_cast<std::int64_t>(total_bytes);
  return gpu;
}

}  // namespace virtrain::resnet50::cuda
