#include "workloads/common/cuda/nccl_library.h"

#include <dlfcn.h>

#include "common/error.h"
#include "workloads/common/shared_library.h"

namespace virtrain {
namespace {

template <typename Function>
void find(void* library, const char* name, Function& function) {
  void* const address = dlsym(library, name);
  if (address == nullptr) {
    throw Error("use NCCL", ErrorCode::host_unable, std::string("it is too old: it has no ") + name);
  }
  function = reinterpret_cast<Function>(address);
}

}  // namespace

std::string NcclLibrary::version() const {
  int number = 0;
  if (get_version(&number) != ncclSuccess) { return "unknown"; }
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

NcclLibrary load_nccl() {
  void* const library = load_library("libnccl.so.2", {VIRTRAIN_NCCL_LIBRARY_DIR}, "install NCCL");
  NcclLibrary nccl;
  find(library, "ncclGetVersion", nccl.get_version);
  find(library, "ncclGetUniqueId", nccl.get_unique_id);
  find(library, "ncclCommInitRankConfig", nccl.init_rank);
  find(library, "ncclCommAbort", nccl.abort);
  find(library, "ncclCommGetAsyncError", nccl.async_error);
  find(library, "ncclGetErrorString", nccl.error_string);
  find(library, "ncclGetLastError", nccl.last_error);
  find(library, "ncclAllReduce", nccl.all_reduce);
  find(library, "ncclAllGather", nccl.all_gather);
  find(library, "ncclBroadcast", nccl.broadcast);
  return nccl;
}

}  // namespace virtrain
