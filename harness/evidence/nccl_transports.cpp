#include "harness/evidence/nccl_transports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

using RankPair = std::pair<std::int64_t, std::int64_t>;

/// Longer than any that NCCL knows; a guest may print anything.
constexpr std::size_t most_name_bytes = 64;

/// "3[1a000]" is 3: a rank and its device.
std::optional<std::int64_t> rank_of(std::string_view text) {
  return parse_integer(trim(text.substr(0, text.find('['))));
}

/// "NET/IB/8(3)/GDRDMA/Shared" is "NET/IB/GDRDMA": which adapter, relayed by whom and from which pool of
/// buffers differs between channels and is none of the way.
std::string way_of(std::string_view words) {
  std::vector<std::string> parts;
  for (auto& part : split(trim(words), '/')) {
    const bool is_number = !part.empty() && std::isdigit(static_cast<unsigned char>(part[0])) != 0;
    if (!part.empty() && !is_number && part != "Shared") { parts.push_back(std::move(part)); }
  }
  return join(parts, "/");
}

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
  constexpr std::string_view begin_mark = "NCCL INFO Channel ", colon_mark = " : ", arrow_mark = " -> ",
                             via_mark = " via ";
  const auto begin = line.find(begin_mark);
  if (begin == std::string_view::npos) { return; }
  line.remove_prefix(begin + begin_mark.size());
  const auto colon = line.find(colon_mark), arrow = line.find(arrow_mark), via = line.find(via_mark);
  if (via == std::string_view::npos || colon > arrow || arrow > via) { return; }
  const auto from = rank_of(line.substr(colon + colon_mark.size(), arrow - colon - colon_mark.size()));
  const auto to = rank_of(line.substr(arrow + arrow_mark.size(), via - arrow - arrow_mark.size()));
  const auto way = way_of(line.substr(via + via_mark.size()));
  const auto is_ours = [&](const std::optional<std::int64_t>& rank) {
    return rank && *rank >= 0 && *rank < ranks;
  };
  const bool is_plain = !way.empty() && way.size() <= most_name_bytes && way.find(',') == std::string::npos &&
                        printable(way) == way;
  if (is_ours(from) && is_ours(to) && from != to && is_plain) { seen_[std::minmax(*from, *to)].insert(way); }
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
