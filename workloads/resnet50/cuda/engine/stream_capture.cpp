#include "workloads/resnet50/cuda/engine/stream_capture.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "workloads/common/cuda/gpu_errors.h"

namespace virtrain::resnet50::cuda {

StreamCapture::StreamCapture(CUstream_st* stream) : stream_(stream) {
  // The mode captures this thread alone: the watchdog and NCCL's threads go on calling CUDA.
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
  // The flag keeps the priority of work that a stream of high priority has queued.
  const cudaError_t status = cudaGraphInstantiate(&runnable, graph, cudaGraphInstantiateFlagUseNodePriority);
  ignore_gpu(cudaGraphDestroy(graph));
  check_gpu("make a graph of what was captured", status);
  return runnable;
}

}  // namespace virtrain::resnet50::cuda
