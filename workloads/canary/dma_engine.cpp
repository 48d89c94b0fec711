#include "workloads/canary/dma_engine.h"

#include <algorithm>

#include "workloads/canary/requests.h"

namespace virtrain::canary {
namespace {

constexpr std::uint64_t most_pages = 8;

}  // namespace

std::vector<BusRead> read_by_device(DmaEngine& engine, const std::vector<Canary>& canaries,
                                    const std::vector<BusRange>& ranges, std::chrono::seconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::vector<BusRead> reads;
  for (const auto& range : ranges) {
    BusRead read{.total = range.bytes, .name = range.name.substr(0, most_path_bytes)};
    const auto pages = std::max<std::uint64_t>(1, range.bytes / LockedPage::size);
    const auto samples = std::min(pages, most_pages);
    CanarySearch search(canaries);
    for (std::uint64_t i = 0; i < samples && std::chrono::steady_clock::now() < end; ++i) {
      const auto page = samples == 1 ? 0 : i * (pages - 1) / (samples - 1);
      const auto bytes = std::min<std::uint64_t>(LockedPage::size, range.bytes);
      auto one = engine.read(range.address + page * LockedPage::size, bytes);
      search.feed(one.bytes);
      read.scanned += one.bytes.size();
      if (!one.refused.empty()) { read.refused = one.refused.substr(0, most_path_bytes); }
    }
    for (std::size_t i = 0; i < canaries.size(); ++i) {
      if (search.hits()[i].count > 0) { read.found.push_back(canaries[i].name); }
    }
    reads.push_back(std::move(read));
  }
  return reads;
}

}  // namespace virtrain::canary
