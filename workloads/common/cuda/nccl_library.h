#pragma once

#include <nccl.h>

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

}  // namespace virtrain
