#include "workloads/resnet50/training/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/error.h"
#include "workloads/common/program.h"

namespace virtrain::resnet50 {

ThreadPlacement place_this_rank(Peers& peers, int requested_threads) {
  const std::string cores = host_name() + "/" + allowed_cpus_text();
  const std::vector<std::string> all = peers.gather(cores);
  const auto self = all.begin() + peers.rank();
  return place_threads(allowed_cpus(), static_cast<int>(std::count(all.begin(), all.end(), cores)),
                       static_cast<int>(std::count(all.begin(), self, cores)), requested_threads);
}

void check_same_on_all_ranks(Peers& peers, std::uint64_t value, const std::string& what,
                             const std::string& advice) {
  const std::vector<std::string> values = peers.gather(hex(value));
  const auto other =
      std::find_if(values.begin(), values.end(), [&](const auto& v) { return v != values.front(); });
  if (other == values.end()) { return; }
  throw Error("compare " + what + " of all ranks", ErrorCode::trial_failed,
              fmt::format("rank 0 has {}, rank {} has {}; {}", values.front(), other - values.begin(), *other,
                          advice));
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace virtrain::resnet50
