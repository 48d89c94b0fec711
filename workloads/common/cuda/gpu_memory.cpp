#include "workloads/common/cuda/gpu_memory.h"

#include "common/error.h"
#include "workloads/common/gpu_of_rank.h"

namespace virtrain {

void check_cuda(cudaError_t status, const std::string& operation) {
  if (status == cudaSuccess) return;
  throw Error(operation, ErrorCode::host_unable,
              std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")");
}

void use_gpu(int gpu) {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "look for a GPU");
  if (gpu >= count) {
    throw Error("use GPU " + std::to_string(gpu), ErrorCode::host_unable,
                "there are " + std::to_string(count) + ", counted from 0 (--gpu)");
  }
  check_cuda(cudaSetDevice(gpu), "use GPU " + std::to_string(gpu));
}

int use_gpu_of_rank(int first) {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "look for a GPU");
  const int gpu = gpu_of_rank(environment_local_rank(), first, count);
  use_gpu(gpu);
  return gpu;
}

DeviceMemory allocate_device(std::size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, bytes), "allocate " + std::to_string(bytes) + " bytes on the GPU");
  return DeviceMemory(static_cast<std::byte*>(memory));
}

PinnedMemory allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMallocHost(&memory, bytes), "pin " + std::to_string(bytes) + " bytes of the host");
  return PinnedMemory(static_cast<std::byte*>(memory));
}

}  // namespace virtrain
