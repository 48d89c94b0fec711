#include <cuda_runtime_api.h>

#include "workloads/common/cuda/gpu.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/cuda/nccl_communicator.h"
#include "workloads/probe/exchange.h"

namespace virtrain::probe {
namespace {

/// NCCL's ranks are the peers; what they tell each other besides goes by MPI. Calls block, as nccl-tests' do.
class NcclExchange : public Exchange {
 public:
  NcclExchange(Peers& peers, int first_gpu)
      : gpu_(use_own_gpu(peers, first_gpu)),
        rank_(static_cast<std::size_t>(peers.rank())),
        nccl_(
            load_nccl(), peers.rank(), peers.size(),
            [&](std::span<std::byte> bytes) { peers.broadcast(bytes); }, NcclCalls::blocking) {}

  std::string library() const override { return "NCCL " + nccl_.nccl().version(); }

  std::string device() const override {
    cudaDeviceProp properties{};
    check_gpu("ask the GPU for its properties", cudaGetDeviceProperties(&properties, gpu_));
    return (gpu_ < 10 ? " " : "") + std::to_string(gpu_) + " [" + gpu_pci_address(gpu_) + "] " +
           static_cast<const char*>(properties.name);
  }

  bool goes_out_of_place(Collective /*collective*/) const override { return true; }

  void take(std::span<const float> send, std::span<float> receive) override {
    if (send.size() != count_ || receive.size() != host_output_.size()) {
      send_.reset();
      receive_.reset();
      send_ = allocate_device(send.size_bytes());
      receive_ = allocate_device(receive.size_bytes());
    }
    count_ = send.size();
    host_output_ = receive;
    copy(send_.get(), send.data(), send.size_bytes());
    copy(receive_.get(), receive.data(), receive.size_bytes());
  }

  /// By the stream's clock: what the host needs to start the operations counts only where the GPU waits for
  /// it.
  double run(Collective collective, bool in_place, int times) override {
    start_.record(stream_.get());
    for (int k = 0; k < times; ++k) { nccl_.settle("start an operation", start_once(collective, in_place)); }
    end_.record(stream_.get());
    while (!end_.is_done()) { nccl_.check(std::string("wait for ") + to_string(collective)); }
    return seconds_between(start_, end_);
  }

  void give_back() override { copy(host_output_.data(), receive_.get(), host_output_.size_bytes()); }

 private:
  ncclResult_t start_once(Collective collective, bool in_place) const {
    std::byte* const output = receive_.get();
    const std::byte* input = in_place ? output : send_.get();
    switch (collective) {
      case Collective::all_reduce:
        return nccl_.nccl().all_reduce(input, output, count_, ncclFloat, ncclSum, nccl_.get(), stream_.get());
      case Collective::all_gather:
        if (in_place) { input += rank_ * count_ * sizeof(float); }
        return nccl_.nccl().all_gather(input, output, count_, ncclFloat, nccl_.get(), stream_.get());
      case Collective::broadcast:
        return nccl_.nccl().broadcast(input, output, count_, ncclFloat, broadcast_root, nccl_.get(),
                                      stream_.get());
    }
    return ncclInvalidArgument;
  }

  /// To or from the GPU, done when it returns. Nothing else is on the stream then.
  void copy(void* to, const void* from, std::size_t bytes) const {
    check_gpu("copy " + std::to_string(bytes) + " bytes",
              cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()));
    stream_.wait();
  }

  int gpu_;
  std::size_t rank_;
  GpuStream stream_;
  GpuEvent start_{GpuEvent::Timing::on}, end_{GpuEvent::Timing::on};
  DeviceMemory send_, receive_;
  std::size_t count_ = 0;
  std::span<float> host_output_;
  NcclCommunicator nccl_;  // last: it goes first, and with it what a lost peer would leave running on the GPU
};

}  // namespace

std::unique_ptr<Exchange> make_nccl_exchange(Peers& peers, int first_gpu) {
  return std::make_unique<NcclExchange>(peers, first_gpu);
}

}  // namespace virtrain::probe
