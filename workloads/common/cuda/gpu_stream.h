#pragma once

#include "workloads/common/cuda/gpu_memory.h"

namespace virtrain {

/// A stream of the current GPU that waits for no other.
class GpuStream {
 public:
  GpuStream();
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A moment in a stream, by the GPU's clock.
class GpuEvent {
 public:
  GpuEvent();
  ~GpuEvent();
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  void record(const GpuStream& stream) const;
  /// Whether the stream has come there since the last record.
  bool is_done() const;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Between two events that are done.
double seconds_between(const GpuEvent& first, const GpuEvent& second);

}  // namespace virtrain
