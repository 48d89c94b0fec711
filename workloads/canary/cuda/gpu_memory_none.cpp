#include "common/error.h"
#include "workloads/canary/cuda/gpu_memory.h"
#include "workloads/canary/cuda/no_cuda.h"

namespace virtrain::canary {

std::string gpu_lack(const std::string& /*address*/) {
  return no_cuda;
}

Filled fill_gpu(const std::string& address, const std::string& /*canary*/, std::chrono::seconds /*time*/) {
  throw Error("fill GPU " + address, ErrorCode::host_unable, no_cuda);
}

SearchReport search_gpu(const std::string& address, const std::vector<Canary>& /*canaries*/,
                        const SearchLimits& /*limits*/) {
  throw Error("search GPU " + address, ErrorCode::host_unable, no_cuda);
}

}  // namespace virtrain::canary
