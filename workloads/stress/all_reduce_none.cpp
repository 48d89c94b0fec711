#include "common/error.h"
#include "workloads/stress/all_reduce.h"

namespace virtrain::stress {

Device gpu_all_reduce_device(int /*first_gpu*/) {
  throw Error("load GPUs with NCCL", ErrorCode::host_unable,
              VIRTRAIN_NO_NCCL " and build again, or leave --gpu out for MPI)");
}

std::unique_ptr<AllReduce> make_gpu_all_reduce(Peers& /*peers*/, int first_gpu, std::uint64_t /*bytes*/) {
  gpu_all_reduce_device(first_gpu);  // throws
  return nullptr;
}

}  // namespace virtrain::stress
