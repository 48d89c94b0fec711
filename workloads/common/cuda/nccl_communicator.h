#pragma once

#include <nccl.h>

#include <functional>
#include <span>
#include <string>

namespace virtrain {

/// NCCL's functions, as far as we call them: linked, loaded when they are wanted, or a test's own.
struct NcclLibrary {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;

  /// "2.28.3"; "unknown" where it does not tell.
  std::string version() const;
};

/// NCCL for a program that is linked with it.
inline NcclLibrary linked_nccl() {
  return {ncclGetVersion,     ncclGetUniqueId,  ncclCommInitRankConfig, ncclCommAbort, ncclCommGetAsyncError,
          ncclGetErrorString, ncclGetLastError, ncclAllReduce,          ncclAllGather, ncclBroadcast};
}

/// NCCL, loaded for the rest of the process: it has hundreds of megabytes, which whoever measures no GPU can
/// do without. Throws Error(host_unable) where it is missing or too old.
NcclLibrary load_nccl();

/// Gives rank 0's bytes to all ranks.
using ShareBytes = std::function<void(std::span<std::byte> bytes)>;

/// NCCL's `blocking` of a communicator. Calls that do not block return at once, so a lost peer cannot hold
/// the caller in NCCL; but each starts a thread and is awaited by settle(), which costs the host some ten
/// microseconds and measures its scheduler (group.cc, ncclGroupEndInternal). Calls that block are as fast as
/// NCCL is, and hold the caller as long as a peer does: only a watchdog that ends the process helps then.
enum class NcclCalls { nonblocking, blocking };

/// One NCCL communicator over all ranks, each on its current GPU. Either way an operation is done by the GPU
/// later: whoever waits for it asks check() meanwhile, and a watchdog ends what lasts.
class NcclCommunicator {
 public:
  /// All ranks together; `share` carries NCCL's id from rank 0 to them. Throws Error.
  NcclCommunicator(const NcclLibrary& nccl, int rank, int size, const ShareBytes& share,
                   NcclCalls calls = NcclCalls::nonblocking);
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
