#pragma once

#include "workloads/common/program.h"

#include <cstddef>
#include <cstdint>
#include <string>

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

/// CUDA's objects as RAII handles, and the choice of the GPU.
namespace virtrain::resnet50::cuda {

struct Gpu {
  int index = 0;
  std::string name;
  std::string pci_address;     ///< "0000:19:00.0"
  int compute_capability = 0;  ///< 90
  int driver_version = 0;      ///< what CUDA the driver serves: 13000
  int runtime_version = 0;
  std::int64_t free_bytes = 0, total_bytes = 0;
};

/// Takes the GPU of this rank: the local.rank-th that is visible. Throws Error in words that say what is
/// missing.
Gpu take_gpu(const LocalRank& local);

class DeviceMemory {
 public:
  explicit DeviceMemory(std::int64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

/// Of the host, at a fixed place: copies to and from it need no wait.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

class StreamHandle {
 public:
  StreamHandle();
  ~StreamHandle();
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;
  CUstream_st* get() const { return stream_; }
  void wait() const;

 private:
  CUstream_st* stream_ = nullptr;
};

/// What this thread queues on a stream while this lives is noted instead of run. Left before end(), by an
/// exception, it is dropped: a thread that goes on capturing may not even free memory.
class StreamCapture {
 public:
  explicit StreamCapture(CUstream_st* stream);
  ~StreamCapture();
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;
  /// What was noted, to be launched as often as wanted. The caller destroys it.
  CUgraphExec_st* end();

 private:
  CUstream_st* stream_;  ///< null once it has ended
};

class EventHandle {
 public:
  enum class Timing { off, on };
  explicit EventHandle(Timing timing);
  ~EventHandle();
  EventHandle(const EventHandle&) = delete;
  EventHandle& operator=(const EventHandle&) = delete;
  void record(CUstream_st* stream) const;
  /// What comes next on the stream waits for the latest record.
  void hold(CUstream_st* stream) const;
  bool is_done() const;
  void wait() const;
  CUevent_st* get() const { return event_; }

 private:
  CUevent_st* event_ = nullptr;
};
/// Between two records that are done.
double seconds_between(const EventHandle& first, const EventHandle& second);

}  // namespace virtrain::resnet50::cuda
