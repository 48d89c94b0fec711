#include "workloads/stress/gpu_device.h"

#include "workloads/common/cuda/gpu_errors.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace virtrain::stress {

Device gpu_device(int gpu) {
  cudaDeviceProp properties{};
  check_gpu("ask the GPU for its properties", cudaGetDeviceProperties(&properties, gpu));
  std::array<char, 32> text{};
  check_gpu("ask the GPU for its address", cudaDeviceGetPCIBusId(text.data(), text.size(), gpu));
  std::string address = text.data();
  // In small letters, as Linux and the trainer write it.
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return {static_cast<const char*>(properties.name), address};
}

}  // namespace virtrain::stress
