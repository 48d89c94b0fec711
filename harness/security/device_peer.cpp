#include "harness/security/device_peer.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/contains.h"
#include "common/error.h"
#include "harness/security/node_memory.h"
#include "harness/security/searched_nodes.h"

namespace virtrain::harness {
namespace {

constexpr std::uint64_t host_page_bytes = 4096, own_search_bytes = std::uint64_t{64} << 20;
constexpr std::int64_t engine_seconds = 60;

class PeerSearch {
 public:
  PeerSearch(RunContext& context, const Placement& placement) : context_(context), placement_(placement) {}

  asio::awaitable<LeakEvidence> run() {
    if (context_.progress) { context_.progress("leak searches: what a device reads by itself"); }
    const auto live = [this](LiveNodes& nodes) { return with(nodes); };
    const std::string base = arm_vm;
    const auto failure = co_await on_searched_nodes(context_, placement_, base, live);
    co_await context_.hosts.ask_only(&vmctl::Host::remove_planted);
    if (failure) { std::rethrow_exception(failure); }
    co_return evidence_;
  }

 private:
  asio::awaitable<void> with(LiveNodes& nodes) {
    co_await lend_and_boot(context_, placement_, nodes);
    auto& reader = nodes.nodes().front();
    const std::span<const vmctl::PlacedDevice> devices(reader.placement->devices);
    evidence_.lacks = (co_await memory_in_node(context_, reader, devices.first(1))).lacks;
    if (!evidence_.lacks.empty()) { co_return; }
    if (nodes.nodes().size() > 1) { co_await fill_others(nodes.nodes().back()); }
    const auto address = co_await context_.hosts.ask_only(&vmctl::Host::plant_in_memory, host_);
    ranges_.push_back({{"memory of the host", address, host_page_bytes}});
    auto own = (co_await memory_in_node(context_, reader, devices.subspan(1))).paths;
    std::erase_if(own, [](const auto& path) { return !path.starts_with("/sys/"); });
    if (!own.empty()) { co_await fill_in_node(context_, reader, own, control_); }
    canary::PeerRequest request{texts_of({control_, host_, other_}), control_.name, std::move(own)};
    request.ranges.assign(ranges_.begin(), ranges_.end());
    request.seconds = engine_seconds;
    const auto seen = co_await ask_canary(context_, reader, std::move(request), canary_work_deadline);
    evidence_ = peer_evidence(seen, ranges_, control_.name, devices.front());
  }

  /// The other tenant's device, which must hold what is looked for.
  asio::awaitable<void> fill_others(LiveNode& node) {
    const auto& devices = node.placement->devices;
    const auto paths = (co_await memory_in_node(context_, node, devices)).paths;
    co_await fill_in_node(context_, node, paths, other_);
    const auto found = co_await search_in_node(context_, node, paths, other_, own_search_bytes);
    if (!found.has(other_.name)) {
      throw Error("fill the other tenant's device", ErrorCode::trial_failed,
                  "the tenant does not find there what it wrote");
    }
    for (const auto& device : devices) {
      const auto regions = ranges_of(device);
      ranges_.insert(ranges_.end(), regions.begin(), regions.end());
    }
  }

  RunContext& context_;
  const Placement& placement_;
  const Canary control_ = make_canary("tenant-b's own canary");
  const Canary host_ = make_canary("the host's canary");
  const Canary other_ = make_canary("tenant-a's canary");
  std::vector<PeerRange> ranges_;
  LeakEvidence evidence_;
};

bool any_has(const std::vector<canary::BusRead>& reads, const std::string& canary) {
  return std::any_of(reads.begin(), reads.end(),
                     [&](const auto& one) { return contains(one.found, canary); });
}

void add_words(std::string& words, const std::string& more) {
  words += (words.empty() ? "" : "; ") + more;
}

/// Why the device could not be told to read somewhere; empty where it could everywhere.
std::string refusal_of(const canary::PeerReads& seen) {
  for (const auto* reads : {&seen.memory, &seen.devices, &seen.foreign}) {
    for (const auto& one : *reads) {
      if (!one.refused.empty()) { return "some reads could not be started: " + one.refused; }
    }
  }
  return "";
}

/// The limits of the search.
std::string limits_of(std::span<const PeerRange> ranges, bool reads_devices, bool is_gpu) {
  const bool any_device =
      std::any_of(ranges.begin(), ranges.end(), [](const auto& one) { return one.is_of_device; });
  std::string limits;
  if (!any_device) {
    limits = "only the host's memory: no other tenant had a device with memory";
  } else if (!reads_devices) {
    limits = "only the host's memory counts: the tenant has no second device with memory as a control";
  }
  if (!reads_devices && is_gpu) {
    add_words(limits, "a GPU reads the host's memory as a device's, and no control shows that this works");
  }
  return limits;
}

}  // namespace

LeakEvidence no_known_engine() {
  LeakEvidence evidence;
  evidence.lacks = "the search knows no DMA engine of these devices (known: NVIDIA GPUs)";
  return evidence;
}

std::vector<PeerRange> ranges_of(const vmctl::PlacedDevice& device) {
  std::vector<PeerRange> ranges;
  for (const auto& bar : device.bars) {
    if (!bar.is_prefetchable) { continue; }
    ranges.push_back(
        {{fmt::format("{} region {}", device.grant.address, bar.index), bar.address, bar.bytes}, true});
  }
  return ranges;
}

LeakEvidence peer_evidence(const canary::PeerReads& seen, std::span<const PeerRange> ranges,
                           const std::string& control, const vmctl::PlacedDevice& engine) {
  LeakEvidence evidence;
  evidence.unit = "B";
  if (seen.lacks) {
    evidence.lacks = *seen.lacks;
    return evidence;
  }
  const bool reads_devices = any_has(seen.devices, control);
  evidence.control = any_has(seen.memory, control) && (reads_devices || seen.devices.empty());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto& read = seen.foreign.at(i);
    evidence.total += static_cast<double>(read.total);
    if (reads_devices || !ranges[i].is_of_device) { evidence.scanned += static_cast<double>(read.scanned); }
    for (const auto& canary : read.found) {
      if (canary == control) { continue; }  // the address is the tenant's own as well
      evidence.leaks.push_back(fmt::format("{} in {} (at {:#x})", canary, ranges[i].name, ranges[i].address));
    }
  }
  evidence.limits = limits_of(ranges, reads_devices, engine.vendor == vmctl::nvidia);
  if (const auto refusal = refusal_of(seen); !refusal.empty()) {
    const bool is_known = evidence.control == true && evidence.scanned > 0;
    add_words(is_known ? evidence.limits : evidence.failure, refusal);
  }
  return evidence;
}

asio::awaitable<LeakEvidence> run_peer_search(RunContext& context, const Placement& placement) {
  PeerSearch search(context, placement);
  co_return co_await search.run();
}

}  // namespace virtrain::harness
