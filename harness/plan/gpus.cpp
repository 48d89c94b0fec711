#include "harness/plan/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "common/text.h"

namespace virtrain::harness {
namespace {

using vmctl::HostDevice;
using vmctl::Mechanism;
using Gpus = std::vector<const HostDevice*>;

template <typename T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool usable_for(DeviceKind kind, const HostDevice& device) {
  if (device.device_class != vmctl::DeviceClass::gpu) return false;
  switch (kind) {
    case DeviceKind::passthrough:
      return device.mechanism == Mechanism::passthrough || device.mechanism == Mechanism::undecided;
    case DeviceKind::vgpu:
      return device.mechanism == Mechanism::mdev || device.mechanism == Mechanism::vendor_vfio;
    case DeviceKind::none:
      break;
  }
  return false;
}

bool is_selected(const Devices& devices, const HostDevice& device) {
  const auto& pci = device.function;
  return (!devices.vendor || *devices.vendor == pci.vendor) &&
         (devices.addresses.empty() || contains(devices.addresses, pci.address)) &&
         (devices.uuids.empty() || contains(devices.uuids, device.uuid)) &&
         (devices.name.empty() || device.name.find(devices.name) != std::string::npos);
}

bool nvlinked(const HostDevice& a, const HostDevice& b) {
  return contains(a.nvlink_peers, b.function.address);
}

/// Below the same switch, not only below the same root complex.
bool share_a_switch(const HostDevice& a, const HostDevice& b) {
  const auto& [x, y] = std::tie(a.function.bridges, b.function.bridges);
  return !x.empty() && !y.empty() && x.front() == y.front();
}

bool share_a_numa_node(const HostDevice& a, const HostDevice& b) {
  return a.function.numa_node >= 0 && a.function.numa_node == b.function.numa_node;
}

/// Pairs of a set for which the relation holds.
template <typename Relation>
std::size_t pairs(const Gpus& gpus, Relation&& holds) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    for (std::size_t k = i + 1; k < gpus.size(); ++k) count += holds(*gpus[i], *gpus[k]) ? 1U : 0U;
  return count;
}

auto nearness(const Gpus& gpus) {
  return std::tuple(pairs(gpus, nvlinked), pairs(gpus, share_a_switch), pairs(gpus, share_a_numa_node));
}

/// The nearest set of `count` that grows from one GPU; of equally near ones the first by address.
Gpus nearest_set(const Gpus& from, std::size_t count) {
  Gpus best;
  for (const auto* seed : from) {
    Gpus set{seed};
    while (set.size() < count) {
      Gpus next;
      for (const auto* gpu : from) {
        if (contains(set, gpu)) continue;
        auto wider = set;
        wider.push_back(gpu);
        if (next.empty() || nearness(wider) > nearness(next)) next = std::move(wider);
      }
      set = std::move(next);
    }
    if (best.empty() || nearness(set) > nearness(best)) best = std::move(set);
  }
  std::sort(best.begin(), best.end(),
            [](const auto* a, const auto* b) { return a->function.address < b->function.address; });
  return best;
}

/// On the NUMA node where fewest are taken.
Gpus least_crowded(const Gpus& from, const Gpus& taken) {
  const auto neighbours = [&](const HostDevice* gpu) {
    return std::count_if(taken.begin(), taken.end(),
                         [&](const HostDevice* other) { return share_a_numa_node(*gpu, *other); });
  };
  return {*std::min_element(from.begin(), from.end(),
                            [&](const auto* a, const auto* b) { return neighbours(a) < neighbours(b); })};
}

GpuChoice describe(Gpus gpus) {
  GpuChoice choice{std::move(gpus), "", true, std::nullopt};
  if (choice.gpus.empty()) return choice;
  const std::size_t all = choice.gpus.size() * (choice.gpus.size() - 1) / 2;
  const int numa = choice.gpus[0]->function.numa_node;
  const bool one_numa = numa >= 0 && pairs(choice.gpus, share_a_numa_node) == all;
  if (one_numa) choice.numa_node = numa;
  choice.joined_by_nvlink = pairs(choice.gpus, nvlinked) == all;
  std::vector<std::string> reasons;
  if (all > 0 && choice.joined_by_nvlink) reasons.emplace_back("joined by NVLink");
  if (all > 0 && pairs(choice.gpus, share_a_switch) == all) reasons.emplace_back("below one PCIe switch");
  reasons.push_back(one_numa ? fmt::format("on NUMA node {}", numa) : "on several NUMA nodes");
  choice.reason = join(reasons, ", ");
  return choice;
}

}  // namespace

Gpus selected_gpus(const Devices& devices, const vmctl::Inventory& inventory) {
  Gpus found;
  for (const auto& device : inventory.devices)
    if (usable_for(devices.kind, device) && is_selected(devices, device)) found.push_back(&device);
  if (devices.count && static_cast<std::size_t>(*devices.count) < found.size())
    found.resize(static_cast<std::size_t>(*devices.count));
  return found;
}

GpuChoice GpuAllocator::take(std::size_t count) {
  count = std::min(count, free_.size());
  if (count == 0) return {};
  auto choice = describe(count == 1 ? least_crowded(free_, taken_) : nearest_set(free_, count));
  for (const auto* gpu : choice.gpus) {
    std::erase(free_, gpu);
    taken_.push_back(gpu);
  }
  return choice;
}

}  // namespace virtrain::harness
