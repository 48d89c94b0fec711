#pragma once

#include <cstddef>
#include <memory>

struct CUstream_st;
struct CUevent_st;

/// CUDA's objects, owned. All throw the errors of gpu_errors.h.
namespace virtrain {

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
