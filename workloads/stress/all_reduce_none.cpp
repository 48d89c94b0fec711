#include "common/error.h"
#include "workloads/stress/all_reduce.h"

namespace virtrain::stress {

std::unique_ptr<AllReduce> make_gpu_all_reduce(Peers& /*peers*/, int /*first_gpu*/, std::uint64_t /*bytes*/) {
  throw Error("load GPUs with NCCL", ErrorCode::host_unable,
              VIRTRAIN_NO_NCCL " and build again, or leave --gpu out for MPI)");
}

}  // namespace virtrain::stress
