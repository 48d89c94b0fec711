#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "workloads/common/peers/peers.h"

struct CUstream_st;
struct CUevent_st;

/// The GPU that a process computes on, and CUDA's objects, owned. All throw the errors of gpu_errors.h.

namespace virtrain {

/// Makes it the current GPU; Error(host_unable) where there is none of that number.
void use_gpu(int gpu);
/// Makes the GPU of this rank (gpu_choice.h) the current one, and returns its number.
int use_gpu_of_rank(int first);
/// The same, by all ranks: Error(host_unable) where two of them have one GPU.
int use_own_gpu(Peers& peers, int first);

/// "0000:19:00.0", in small letters, as Linux writes it.
std::string gpu_pci_address(int gpu);
/// "GPU-6ba7b810-9dad-11d1-80b4-00c04fd430c8", as nvidia-smi -L writes it; of a MIG device, its own.
std::string gpu_uuid(int gpu);

struct FreeDevice {
  void operator()(std::byte* pointer) const;
};
struct FreePinned {
  void operator()(std::byte* pointer) const;
};
/// Memory of the current GPU.
using DeviceMemory = std::unique_ptr<std::byte, FreeDevice>;
/// Memory of the host, page-locked: copies to and from it need no wait.
using PinnedMemory = std::unique_ptr<std::byte, FreePinned>;
DeviceMemory allocate_device(std::size_t bytes);
PinnedMemory allocate_pinned(std::size_t bytes);

/// A stream of the current GPU that waits for no other.
class GpuStream {
 public:
  enum class Priority { normal, high };
  explicit GpuStream(Priority priority = Priority::normal);
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  CUstream_st* get() const { return stream_; }
  void wait() const;

 private:
  CUstream_st* stream_ = nullptr;
};

/// A moment in a stream, with timing by the GPU's clock.
class GpuEvent {
 public:
  enum class Timing { off, on };
  explicit GpuEvent(Timing timing);
  ~GpuEvent();
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  /// Null is the default stream.
  void record(CUstream_st* stream) const;
  /// Later work on the stream waits for the latest record.
  void hold(CUstream_st* stream) const;
  /// Whether the stream has come there since the latest record.
  bool is_done() const;
  void wait() const;
  CUevent_st* get() const { return event_; }

 private:
  CUevent_st* event_ = nullptr;
};

/// Between two records with timing that are done.
double seconds_between(const GpuEvent& first, const GpuEvent& second);

}  // namespace virtrain
