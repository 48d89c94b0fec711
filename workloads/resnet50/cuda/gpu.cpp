#include "workloads/resnet50/cuda/gpu.h"

#include <cuda_runtime_api.h>

#include <utility>

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

StreamCapture::StreamCapture(CUstream_st* stream) : stream_(stream) {
  // Of this thread alone: the watchdog and NCCL's threads go on calling CUDA.
  check_gpu("begin to capture", cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}
StreamCapture::~StreamCapture() {
  if (stream_ == nullptr) { return; }
  cudaGraph_t graph = nullptr;
  ignore_gpu(cudaStreamEndCapture(stream_, &graph));
  if (graph != nullptr) { ignore_gpu(cudaGraphDestroy(graph)); }
}
CUgraphExec_st* StreamCapture::end() {
  cudaGraph_t graph = nullptr;
  check_gpu("end the capture", cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph));
  cudaGraphExec_t runnable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&runnable, graph, 0);
  ignore_gpu(cudaGraphDestroy(graph));
  check_gpu("make a graph of what was captured", status);
  return runnable;
}

}  // namespace virtrain::resnet50::cuda
