#include "workloads/common/cuda/gpu_choice.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/gpu/gpu_of_rank.h"
#include "workloads/common/program.h"

namespace virtrain {
namespace {

/// Checks a call with which CUDA starts: there its "unknown error" is no fault of the GPU's.
void check_start(const std::string& operation, cudaError_t status) {
  if (status != cudaErrorUnknown) { return check_gpu(operation, status); }
  ignore_gpu(status);
  throw Error(
      operation, ErrorCode::host_unable,
      "the driver does not start, and CUDA does not say why (nvidia-smi and dmesg may; in a container, "
      "is /dev/nvidia-uvm there?)");
}

int count_gpus() {
  int count = 0;
  check_start("look for GPUs", cudaGetDeviceCount(&count));
  return count;
}

}  // namespace

void use_gpu(int gpu) {
  const int count = count_gpus();
  if (gpu >= count) {
    throw Error("use GPU " + std::to_string(gpu), ErrorCode::host_unable,
                "there are " + std::to_string(count) + ", counted from 0 (--gpu)");
  }
  check_start("use GPU " + std::to_string(gpu), cudaSetDevice(gpu));
}

int use_gpu_of_rank(int first) {
  const int gpu = gpu_of_rank(environment_local_rank(), first, count_gpus());
  use_gpu(gpu);
  return gpu;
}

int use_own_gpu(Peers& peers, int first) {
  const int gpu = use_gpu_of_rank(first);
  // Hosts may have one name, and virtual GPUs one UUID.
  refuse_shared_gpu(
      peers.gather(fmt::format("{} at {} of {}", gpu_uuid(gpu), gpu_pci_address(gpu), host_name())));
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

std::string gpu_uuid(int gpu) {
  cudaDeviceProp properties{};
  check_gpu("read the GPU's properties", cudaGetDeviceProperties(&properties, gpu));
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
    const bool begins_a_group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", begins_a_group ? "-" : "",
                        static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  return text;
}

}  // namespace virtrain
