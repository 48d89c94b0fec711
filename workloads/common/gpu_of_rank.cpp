#include "workloads/common/gpu_of_rank.h"

#include "common/error.h"

#include <cstdlib>
#include <string>

namespace virtrain {

int gpu_of_rank(const LocalRank& local, int first, int visible) {
  const bool may_share = visible > 0 && std::getenv("NCCL_HOSTID") != nullptr;
  if (first + local.size > visible && !may_share) {
    const std::string from = first > 0 ? " from GPU " + std::to_string(first) + " on" : "";
    throw Error("take a GPU", ErrorCode::host_unable,
                std::to_string(local.size) + (local.size == 1 ? " rank" : " ranks") + " on this host" + from +
                    ", but " + std::to_string(visible) + (visible == 1 ? " GPU is" : " GPUs are") +
                    " visible (one rank for each)");
  }
  return (first + local.rank) % visible;
}

}  // namespace virtrain
