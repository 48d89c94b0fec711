#include <span>

#include "workloads/common/cuda/nccl_communicator.h"
#include "workloads/resnet50/cuda/run/gradient_exchange.h"

namespace virtrain::resnet50::cuda {
namespace {

ncclDataType_t data_type(Numeric numeric) {
  switch (numeric) {
    case Numeric::fp16:
      return ncclFloat16;
    case Numeric::bf16:
      return ncclBfloat16;
    case Numeric::fp32:
    case Numeric::tf32:
      break;
  }
  return ncclFloat32;
}

/// Sums by a communicator that does not block, inside a capture too.
///
/// By the source of NCCL 2.28.9 the end of each (implicit) group starts a thread that adds the operation to
/// the capture (group.cc, ncclGroupEndInternal, groupLaunchNonBlocking). That is no end of a capture, the one
/// call that CUDA binds to the thread which began it, and a thread-local capture forbids that thread nothing.
/// ncclCommGetAsyncError makes no CUDA call: it reads a word and joins the thread (init.cc). Until it says
/// ncclSuccess the next collective is refused (ncclCommEnsureReady), and the capture must not go on without
/// the operation: so each call is awaited.
class NcclExchange : public GradientExchange {
 public:
  NcclExchange(Peers& peers, bool registers)
      : registers_(registers),
        nccl_(linked_nccl(), peers.rank(), peers.size(),
              [&](std::span<std::byte> bytes) { peers.broadcast(bytes); }) {}

  /// Not ncclAvg, which multiplies before it adds: for that NCCL has neither NVLS nor symmetric kernels
  /// (2.28.9, enqueue.cc, sym_kernels.cc). Each rank's gradient is a share of the mean already.
  void sum(void* values, std::int64_t count, Numeric numeric, CUstream_st* stream) override {
    nccl_.settle("reduce gradients", ncclAllReduce(values, values, static_cast<std::size_t>(count),
                                                   data_type(numeric), ncclSum, nccl_.get(), stream));
  }

  /// Registered, so that NCCL's algorithms which read a peer's memory need no copy of it (NVLS, network
  /// cards). Never freed: NCCL would wait for peers that may be lost, and it is wanted until the process
  /// ends.
  std::byte* memory(std::size_t bytes) override {
    if (!registers_) { return nullptr; }
    void* memory = nullptr;
    nccl_.settle("allocate memory of NCCL's", ncclMemAlloc(&memory, bytes));
    void* handle = nullptr;
    nccl_.settle("register memory with NCCL", ncclCommRegister(nccl_.get(), memory, bytes, &handle));
    return static_cast<std::byte*>(memory);
  }

  void check() override { nccl_.check("reduce gradients"); }

 private:
  bool registers_;
  NcclCommunicator nccl_;
};

}  // namespace

std::unique_ptr<GradientExchange> join_exchange(Peers& peers, bool registers) {
  if (peers.size() == 1) { return nullptr; }
  return std::make_unique<NcclExchange>(peers, registers);
}

std::optional<std::string> exchange_version() {
  return linked_nccl().version();
}

}  // namespace virtrain::resnet50::cuda
