#include "workloads/common/cuda/gpu_choice.h"

#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/gpu_of_rank.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace virtrain {
namespace {

int count_gpus() {
  int count = 0;
  check_gpu("look for GPUs", cudaGetDeviceCount(&count));
  return count;
}

}  // namespace

void use_gpu(int gpu) {
  const int count = count_gpus();
  if (gpu >= count) {
    throw Error("use GPU " + std::to_string(gpu), ErrorCode::host_unable,
                "there are " + std::to_string(count) + ", counted from 0 (--gpu)");
  }
  check_gpu("use GPU " + std::to_string(gpu), cudaSetDevice(gpu));
}

int use_gpu_of_rank(int first) {
  const int gpu = gpu_of_rank(environment_local_rank(), first, count_gpus());
  use_gpu(gpu);
  return gpu;
}

std::string gpu_pci_address(int gpu) {
  std::array<char, 32> text{};
  check_gpu("ask the GPU for its address", cudaDeviceGetPCIBusId(text.data(), text.size(), gpu));
  std::string address = text.data();
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return address;
}

}  // namespace virtrain
