#pragma once

#include <cstdint>
#include <string>

#include "workloads/common/cuda/gpu_handles.h"
#include "workloads/common/peers.h"

struct CUstream_st;
struct CUgraphExec_st;

/// The GPU of this rank, and what is captured on it.
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

/// Takes the GPU of this rank (workloads/common/gpu_of_rank.h), by all ranks. Throws Error in words that say
/// what is missing.
Gpu take_gpu(Peers& peers);

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

}  // namespace virtrain::resnet50::cuda
