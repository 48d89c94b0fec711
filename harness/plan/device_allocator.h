#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/plan/device_slots.h"

namespace virtrain::harness {

/// Devices for one node, and why these.
struct DeviceChoice {
  std::vector<DeviceSlot> slots;
  std::string reason;            ///< "joined by NVLink, on NUMA node 0"; empty where there is none
  bool joined_by_nvlink = true;  ///< every one with every other
  std::vector<int> numa_nodes;   ///< of the slots, each once, in order; without unknown ones
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
  /// `count` adapters, each as near as can be to one of the node's devices in turn: below the same PCIe
  /// switch, else the same root complex, else on the same NUMA node.
  DeviceChoice take_nics(const Offer& offer, std::size_t count, const std::vector<DeviceSlot>& near);

 private:
  std::vector<const DeviceSlot*> left_of(const Offer& offer) const;
  const DeviceSlot* best_single(const std::vector<const DeviceSlot*>& from) const;
  void keep(const DeviceChoice& choice);

  bool spread_;
  std::vector<DeviceSlot> taken_;
};

}  // namespace virtrain::harness
