#include "harness/evidence/nccl_transports.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/text/text.h"
#include "results/diagnosis/nccl_log.h"

namespace virtrain::harness {
namespace {

using RankPair = std::pair<std::int64_t, std::int64_t>;

std::string pair_text(const RankPair& pair) {
  return fmt::format("{}-{}", pair.first, pair.second);
}

std::string joined(const std::set<std::string>& ways) {
  return join({ways.begin(), ways.end()}, ", ");
}

bool is_whole_gpu(const vmctl::PlacedDevice& device) {
  return device.device_class == vmctl::DeviceClass::gpu && device.grant.kind == vmctl::GrantKind::passthrough;
}

/// Every one with every other, which needs at least two.
bool all_joined_by_nvlink(const std::vector<vmctl::PlacedDevice>& gpus) {
  const auto reaches_others = [&](const vmctl::PlacedDevice& gpu) {
    return std::ranges::all_of(gpus, [&](const vmctl::PlacedDevice& other) {
      return &other == &gpu || joined_by_nvlink(gpu, other);
    });
  };
  return gpus.size() > 1 && std::ranges::all_of(gpus, reaches_others);
}

}  // namespace

void NcclTransports::take(std::string_view line, std::int64_t ranks) {
  const auto connection = results::nccl_connection_in(line);
  if (!connection || connection->from >= ranks || connection->to >= ranks) { return; }
  seen_[std::minmax(connection->from, connection->to)].insert(connection->way);
}

std::map<std::string, std::string> NcclTransports::by_pair() const {
  std::map<std::string, std::string> pairs;
  for (const auto& [pair, ways] : seen_) { pairs[pair_text(pair)] = joined(ways); }
  return pairs;
}

std::string NcclTransports::of_ranks(std::int64_t first, std::int64_t end) const {
  const auto is_among = [&](std::int64_t rank) { return rank >= first && rank < end; };
  std::set<std::string> all;
  for (const auto& [pair, ways] : seen_) {
    if (is_among(pair.first) || is_among(pair.second)) { all.insert(ways.begin(), ways.end()); }
  }
  return joined(all);
}

std::map<std::string, std::string> planned_transports(const TenantPlacement& tenant) {
  const auto& environment = tenant.workload.environment;
  if (tenant.workload.backend != Backend::cuda || environment.contains("NCCL_P2P_LEVEL") ||
      environment.contains("NCCL_P2P_DISABLE")) {
    return {};
  }
  std::map<std::string, std::string> planned;
  std::int64_t first = 0;
  for (const auto& node : tenant.nodes) {
    std::vector<vmctl::PlacedDevice> gpus;
    std::copy_if(node.devices.begin(), node.devices.end(), std::back_inserter(gpus), is_whole_gpu);
    const std::int64_t end = first + tenant.ranks_per_node;
    if (static_cast<std::int64_t>(gpus.size()) == tenant.ranks_per_node && all_joined_by_nvlink(gpus)) {
      for (std::int64_t a = first; a < end; ++a) {
        for (std::int64_t b = a + 1; b < end; ++b) { planned[pair_text({a, b})] = "P2P"; }
      }
    }
    first = end;
  }
  return planned;
}

}  // namespace virtrain::harness
