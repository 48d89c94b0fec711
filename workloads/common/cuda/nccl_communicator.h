#pragma once

#include "workloads/common/cuda/nccl_library.h"

#include <functional>
#include <span>
#include <string>

namespace virtrain {

/// Gives rank 0's bytes to all ranks.
using ShareBytes = std::function<void(std::span<std::byte> bytes)>;

/// One NCCL communicator over all ranks, each on its current GPU. Its calls return at once (blocking = 0), so
/// a lost peer cannot hold a thread in NCCL: whoever waits asks check() meanwhile, and a watchdog ends what
/// lasts.
class NcclCommunicator {
 public:
  /// All ranks together; `share` carries NCCL's id from rank 0 to them. Throws Error.
  NcclCommunicator(const NcclLibrary& nccl, int rank, int size, const ShareBytes& share);
  /// Not ncclCommDestroy, which waits for peers that may be gone. No captured graph may be left: NCCL waits
  /// until all that hold its operations are destroyed (init.cc, commDestroySync).
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const NcclLibrary& nccl() const { return nccl_; }
  ncclComm_t get() const { return communicator_; }

  /// Until the call that gave `result` is through: on the stream, not done by the GPU. Throws Error(io) in
  /// NCCL's words.
  void settle(const std::string& operation, ncclResult_t result) const;
  /// Throws Error(io) if a peer or the network failed since the last call.
  void check(const std::string& operation) const;

 private:
  NcclLibrary nccl_;
  ncclComm_t communicator_ = nullptr;
};

}  // namespace virtrain
