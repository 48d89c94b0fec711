#pragma once

#include <cstdint>
#include <memory>

#include "workloads/common/peers/peers.h"
#include "workloads/stress/load.h"

namespace virtrain::stress {

/// A sum over all ranks of so many bytes (floats) on each, again and again.
class AllReduce {
 public:
  virtual ~AllReduce() = default;
  /// One sum; all ranks together. Returns when it is done. Throws Error.
  virtual void run() = 0;
};

/// Sums in GPUs' memory, by NCCL: the first rank of a host on `first_gpu`, each further rank on the next.
/// Throws Error(host_unable) without a GPU or NCCL, or in a build without them.
Device gpu_all_reduce_device(int first_gpu);  ///< this rank's; throws likewise
std::unique_ptr<AllReduce> make_gpu_all_reduce(Peers& peers, int first_gpu, std::uint64_t bytes);

}  // namespace virtrain::stress
