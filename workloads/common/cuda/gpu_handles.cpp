#include "workloads/common/cuda/gpu_handles.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "workloads/common/cuda/gpu_errors.h"

namespace virtrain {
namespace {

double mebibytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

void FreeDevice::operator()(std::byte* pointer) const {
  ignore_gpu(cudaFree(pointer));
}
void FreePinned::operator()(std::byte* pointer) const {
  ignore_gpu(cudaFreeHost(pointer));
}

DeviceMemory allocate_device(std::size_t bytes) {
  void* memory = nullptr;
  check_gpu(fmt::format("allocate {:.1f} MiB on the GPU", mebibytes(bytes)), cudaMalloc(&memory, bytes));
  return DeviceMemory(static_cast<std::byte*>(memory));
}

PinnedMemory allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  check_gpu(fmt::format("pin {:.1f} MiB of the host", mebibytes(bytes)), cudaMallocHost(&memory, bytes));
  return PinnedMemory(static_cast<std::byte*>(memory));
}

GpuStream::GpuStream(Priority priority) {
  int least = 0, greatest = 0;
  check_gpu("ask for priorities", cudaDeviceGetStreamPriorityRange(&least, &greatest));
  const int wanted = priority == Priority::high ? greatest : least;
  check_gpu("create a stream", cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, wanted));
}
GpuStream::~GpuStream() {
  ignore_gpu(cudaStreamDestroy(stream_));
}
void GpuStream::wait() const {
  check_gpu("wait for the GPU", cudaStreamSynchronize(stream_));
}

GpuEvent::GpuEvent(Timing timing) {
  // Whoever waits on the host sleeps: what comes next is already queued.
  const unsigned flags = timing == Timing::on ? cudaEventBlockingSync : cudaEventDisableTiming;
  check_gpu("create an event", cudaEventCreateWithFlags(&event_, flags));
}
GpuEvent::~GpuEvent() {
  ignore_gpu(cudaEventDestroy(event_));
}
void GpuEvent::record(CUstream_st* stream) const {
  check_gpu("record an event", cudaEventRecord(event_, stream));
}
void GpuEvent::hold(CUstream_st* stream) const {
  check_gpu("wait for an event", cudaStreamWaitEvent(stream, event_, 0));
}
bool GpuEvent::is_done() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    ignore_gpu(status);
    return false;
  }
  check_gpu("wait for the GPU", status);
  return true;
}
void GpuEvent::wait() const {
  check_gpu("wait for the GPU", cudaEventSynchronize(event_));
}

double seconds_between(const GpuEvent& first, const GpuEvent& second) {
  float milliseconds = 0;
  check_gpu("read the time between two events",
            cudaEventElapsedTime(&milliseconds, first.get(), second.get()));
  return milliseconds * 1e-3;
}

}  // namespace virtrain
