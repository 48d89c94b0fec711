#include "workloads/common/gpu/gpu_of_rank.h"

#include <cstdlib>
#include <map>

#include "common/error.h"

namespace virtrain {
namespace {

bool may_share() {
  return std::getenv("NCCL_HOSTID") != nullptr;
}

}  // namespace

int gpu_of_rank(const LocalRank& local, int first, int visible) {
  if (first == 0 && visible == 1) { return 0; }
  if (first + local.size > visible && (visible == 0 || !may_share())) {
    const std::string from = first > 0 ? " from GPU " + std::to_string(first) + " on" : "";
    throw Error("take a GPU", ErrorCode::host_unable,
                std::to_string(local.size) + (local.size == 1 ? " rank" : " ranks") + " on this host" + from +
                    ", but " + std::to_string(visible) + (visible == 1 ? " GPU is" : " GPUs are") +
                    " visible (one rank for each)");
  }
  return (first + local.rank) % visible;
}

void refuse_shared_gpu(const std::vector<std::string>& gpus) {
  if (may_share()) { return; }
  std::map<std::string, std::size_t> taken;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    const auto [first, is_free] = taken.emplace(gpus[rank], rank);
    if (!is_free) {
      throw Error("take a GPU", ErrorCode::host_unable,
                  "ranks " + std::to_string(first->second) + " and " + std::to_string(rank) +
                      " have the same one, " + gpus[rank] +
                      " (one rank for each GPU; CUDA_VISIBLE_DEVICES says which a rank sees)");
    }
  }
}

}  // namespace virtrain
