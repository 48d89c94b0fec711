#include "common/error.h"
#include "workloads/canary/gpu.h"

namespace virtrain::canary {
namespace {

/// Error message about GPUs in a build without CUDA.
inline constexpr const char* no_cuda =
    "this virtrain-canary was built without CUDA, through which a GPU is reached (install a CUDA toolkit and "
    "build again)";

}  // namespace

std::unique_ptr<DmaEngine> gpu_engine(const std::string& address, BusView /*bus*/,
                                      std::chrono::milliseconds /*limit*/) {
  throw Error("read by GPU " + address, ErrorCode::host_unable, no_cuda);
}

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
