#include "workloads/common/cuda/gpu.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "common/files/reading.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/gpu/gpu_choice.h"
#include "workloads/common/program.h"

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
  const auto boot = read_value("/proc/sys/kernel/random/boot_id").value_or("");
  refuse_shared_gpu(peers.gather(gpu_identity(gpu_uuid(gpu), gpu_pci_address(gpu), host_name(), boot)));
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
