#include <cuda_runtime_api.h>
#include <unistd.h>

#include <vector>

#include "workloads/common/cuda/gpu.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/cuda/nccl_communicator.h"
#include "workloads/stress/all_reduce.h"

namespace virtrain::stress {
namespace {

class GpuAllReduce : public AllReduce {
 public:
  GpuAllReduce(Peers& peers, int first_gpu, std::uint64_t bytes)
      : gpu_(use_own_gpu(peers, first_gpu)),
        count_(bytes / sizeof(float)),
        send_(allocate_device(bytes)),
        receive_(allocate_device(bytes)),
        nccl_(
            load_nccl(), peers.rank(), peers.size(), [&](std::span<std::byte> id) { peers.broadcast(id); },
            NcclCalls::blocking) {
    const std::vector<float> ones(count_, 1.0F);
    check_gpu("fill the GPU's memory",
              cudaMemcpyAsync(send_.get(), ones.data(), bytes, cudaMemcpyHostToDevice, stream_.get()));
    stream_.wait();
  }

  void run() override {
    check_gpu("use the GPU", cudaSetDevice(gpu_));  // the current GPU is one of each thread
    nccl_.settle("add up", nccl_.nccl().all_reduce(send_.get(), receive_.get(), count_, ncclFloat, ncclSum,
                                                   nccl_.get(), stream_.get()));
    done_.record(stream_.get());
    constexpr useconds_t nap_us = 50;
    while (!done_.is_done()) {
      nccl_.check("add up");
      usleep(nap_us);
    }
  }

 private:
  int gpu_;
  std::size_t count_;
  GpuStream stream_;
  GpuEvent done_{GpuEvent::Timing::off};
  DeviceMemory send_, receive_;
  NcclCommunicator nccl_;  // last: it goes first, and with it what a lost peer would leave running on the GPU
};

}  // namespace

Device gpu_all_reduce_device(int first_gpu) {
  return gpu_device(use_gpu_of_rank(first_gpu));
}

std::unique_ptr<AllReduce> make_gpu_all_reduce(Peers& peers, int first_gpu, std::uint64_t bytes) {
  return std::make_unique<GpuAllReduce>(peers, first_gpu, bytes);
}

}  // namespace virtrain::stress
