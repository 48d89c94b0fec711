#include "workloads/common/cuda/gpu_stream.h"

namespace virtrain {

GpuStream::GpuStream() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream");
}
GpuStream::~GpuStream() {
  cudaStreamDestroy(stream_);
}

GpuEvent::GpuEvent() {
  check_cuda(cudaEventCreate(&event_), "create an event");
}
GpuEvent::~GpuEvent() {
  cudaEventDestroy(event_);
}
void GpuEvent::record(const GpuStream& stream) const {
  check_cuda(cudaEventRecord(event_, stream.get()), "record an event");
}
bool GpuEvent::is_done() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  check_cuda(status, "wait for the GPU");
  return true;
}

double seconds_between(const GpuEvent& first, const GpuEvent& second) {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, first.get(), second.get()),
             "read the time between two events");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace virtrain
