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

/// Hardware that a victim's neighbour has in common with it: each of its devices with one of the victim's.
struct Sharing {
  Share share = Share::host;
  std::size_t count = 1;  ///< devices of each node
  std::size_t nodes = 1;  ///< of the neighbour
};

/// Hands out devices of one case by topology: those of one node as near to each other as can be (GPUs of an
/// active partition of an NVSwitch board, one card, NVLink, a common PCIe switch, a common NUMA node), single
/// whole ones spread over the sockets so that they share little. An IOMMU group goes to one node as a whole,
/// time-sliced vGPUs of one card are of one type, and MIG-backed ones take no more slices than it has.
class DeviceAllocator {
 public:
  /// `spread`: parts go to the card that has fewest in use, else to the one that has most. `partitions`: sets
  /// of addresses that go before other sets of as many.
  explicit DeviceAllocator(bool spread, std::vector<std::vector<std::string>> partitions = {})
      : spread_(spread), partitions_(std::move(partitions)) {}

  /// `count` of what is left of the offer; fewer, down to none, where there are not as many.
  DeviceChoice take(const Offer& offer, std::size_t count);
  /// For a node of a victim, then for each of the neighbour's. The victim gets what it would get alone if
  /// that leaves room for these, else what does. Empty where no choice does.
  std::vector<DeviceChoice> take_sharing(const Offer& offer, const Sharing& sharing);
  /// `count` adapters for each node, whose devices are `near`: together as near to these as can be, so that
  /// each device has one below its PCIe switch, else its root complex, else on its NUMA node, wherever the
  /// host has one. Fewer, down to none, where there are not as many.
  std::vector<DeviceChoice> take_nics(const Offer& offer, std::size_t count,
                                      const std::vector<std::vector<DeviceSlot>>& near);

  /// Given out already.
  void keep(const DeviceChoice& choice);

 private:
  using Slots = std::vector<const DeviceSlot*>;

  Slots left_of(const Offer& offer) const;
  bool clashes(const DeviceSlot& slot) const;
  Slots partition_of(const Slots& from, std::size_t count) const;
  const DeviceSlot* best_single(const Slots& from, const Slots& chosen) const;
  Slots spread_set(Slots from, std::size_t count) const;
  Slots nearest(const Slots& from, std::size_t count) const;
  std::vector<Slots> victim_sets(const Slots& left, const Sharing& sharing) const;
  std::vector<DeviceChoice> take_beside(const Slots& victim, const Offer& offer, const Sharing& sharing);
  bool spread_;
  std::vector<std::vector<std::string>> partitions_;
  std::vector<DeviceSlot> taken_;
};

}  // namespace virtrain::harness
