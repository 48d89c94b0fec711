#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/plan/devices/device_slots.h"

namespace virtrain::harness {

/// Devices for one node, and why these.
struct DeviceChoice {
  std::vector<DeviceSlot> slots;
  std::string reason;            ///< "joined by NVLink, on NUMA node 0"; empty where there is none
  bool joined_by_nvlink = true;  ///< every one with every other
  std::vector<int> numa_nodes;   ///< of the slots, each once, in order; without unknown ones
};

/// What a victim's neighbour has in common with it: each of its devices with one of the victim's.
struct Sharing {
  Share share = Share::host;
  std::size_t count = 1;  ///< devices of each node
  std::size_t nodes = 1;  ///< of the neighbour
};

/// Hands out devices of one case by topology: those of one node as near to each other as can be (one card,
/// NVLink, a common PCIe switch, a common NUMA node), single whole ones spread over the sockets so that they
/// share little. An IOMMU group is never split over nodes, and time-sliced vGPUs of one card are of one type.
class DeviceAllocator {
 public:
  /// `spread`: parts go to the card that has fewest in use, else to the one that has most.
  explicit DeviceAllocator(bool spread) : spread_(spread) {}

  /// `count` of what is left of the offer; fewer, down to none, where there are not as many.
  DeviceChoice take(const Offer& offer, std::size_t count);
  /// For a node of a victim, then for each of the neighbour's. The victim gets what it would get alone if
  /// that leaves room for these, else what does. Empty where no choice does.
  std::vector<DeviceChoice> take_sharing(const Offer& offer, const Sharing& sharing);
  /// `count` adapters, each as near as can be to one of the node's devices in turn: below the same PCIe
  /// switch, else the same root complex, else on the same NUMA node.
  DeviceChoice take_nics(const Offer& offer, std::size_t count, const std::vector<DeviceSlot>& near);

 private:
  using Slots = std::vector<const DeviceSlot*>;

  Slots left_of(const Offer& offer) const;
  const DeviceSlot* best_single(const Slots& from, const Slots& chosen) const;
  Slots spread_set(Slots from, std::size_t count) const;
  Slots nearest(const Slots& from, std::size_t count) const;
  std::vector<Slots> victim_sets(const Slots& left, const Sharing& sharing) const;
  std::vector<DeviceChoice> take_beside(const Slots& victim, const Offer& offer, const Sharing& sharing);
  void keep(const DeviceChoice& choice);

  bool spread_;
  std::vector<DeviceSlot> taken_;
};

}  // namespace virtrain::harness
