#include "common/error.h"
#include "workloads/canary/cuda/gpu_engine.h"
#include "workloads/canary/cuda/no_cuda.h"

namespace virtrain::canary {

std::unique_ptr<DmaEngine> gpu_engine(const std::string& address, BusView /*bus*/,
                                      std::chrono::milliseconds /*limit*/) {
  throw Error("read by GPU " + address, ErrorCode::host_unable, no_cuda);
}

}  // namespace virtrain::canary
