#include "workloads/common/cuda/nccl_communicator.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include "common/error.h"
#include "common/system/time.h"
#include "workloads/common/shared_library.h"

namespace virtrain {
namespace {

Error nccl_error(const NcclLibrary& nccl, const std::string& operation, ncclResult_t result,
                 ncclComm_t communicator) {
  return Error(operation, ErrorCode::io,
               std::string("NCCL: ") + nccl.error_string(result) + " (" + nccl.last_error(communicator) +
                   "; NCCL_DEBUG=INFO says more)");
}

/// A call is mostly through within microseconds, and a rank that slept would measure its sleep; joining the
/// others takes seconds.
void wait_a_little(std::int64_t since_ns) {
  constexpr std::int64_t spinning_ns = 1'000'000;
  constexpr useconds_t nap_us = 100;
  if (monotonic_ns() - since_ns < spinning_ns) {
    sched_yield();
  } else {
    usleep(nap_us);
  }
}

}  // namespace

NcclCommunicator::NcclCommunicator(const NcclLibrary& nccl, int rank, int size, const ShareBytes& share,
                                   NcclCalls calls)
    : nccl_(nccl) {
  ncclUniqueId id{};
  if (rank == 0) {
    const ncclResult_t made = nccl_.get_unique_id(&id);
    if (made != ncclSuccess) { throw nccl_error(nccl_, "start NCCL", made, nullptr); }
  }
  share(std::as_writable_bytes(std::span(&id, 1)));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = calls == NcclCalls::blocking ? 1 : 0;
  const ncclResult_t joined = nccl_.init_rank(&communicator_, size, id, rank, &config);
  try {
    settle("join the other GPUs", joined);
  } catch (const Error&) {
    if (communicator_ != nullptr) { nccl_.abort(communicator_); }
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (communicator_ != nullptr) { nccl_.abort(communicator_); }
}

void NcclCommunicator::settle(const std::string& operation, ncclResult_t result) const {
  const std::int64_t start_ns = monotonic_ns();
  while (result == ncclInProgress) {
    wait_a_little(start_ns);
    const ncclResult_t asked = nccl_.async_error(communicator_, &result);
    if (asked != ncclSuccess) { result = asked; }
  }
  if (result != ncclSuccess) { throw nccl_error(nccl_, operation, result, communicator_); }
}

void NcclCommunicator::check(const std::string& operation) const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl_.async_error(communicator_, &state);
  if (asked != ncclSuccess) { throw nccl_error(nccl_, operation, asked, communicator_); }
  if (state != ncclSuccess && state != ncclInProgress) {
    throw nccl_error(nccl_, operation, state, communicator_);
  }
}

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
