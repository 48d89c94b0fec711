#include "workloads/resnet50/ranks.h"

#include "common/error.h"
#include "workloads/common/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace virtrain::resnet50 {

ThreadPlacement place_this_rank(Communicator& communicator, int requested_threads) {
  const std::size_t key = std::hash<std::string>{}(host_name() + "/" + allowed_cpus_text());
  const std::vector<std::uint64_t> keys = communicator.gather(key);
  const auto self = keys.begin() + communicator.rank();
  return place_threads(allowed_cpus(), static_cast<int>(std::count(keys.begin(), keys.end(), key)),
                       static_cast<int>(std::count(keys.begin(), self, key)), requested_threads);
}

void check_same_on_all_ranks(Communicator& communicator, std::uint64_t value, const std::string& what,
                             const std::string& advice) {
  const std::vector<std::uint64_t> values = communicator.gather(value);
  const auto other = std::find_if(values.begin(), values.end(), [&](auto v) { return v != values.front(); });
  if (other == values.end()) return;
  throw Error("compare " + what + " of all ranks", ErrorCode::trial_failed,
              fmt::format("rank 0 has {}, rank {} has {}; {}", hex(values.front()), other - values.begin(),
                          hex(*other), advice));
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace virtrain::resnet50
