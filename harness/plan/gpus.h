#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "vmctl/inventory.h"

namespace virtrain::harness {

/// GPUs for one node, and why these.
struct GpuChoice {
  std::vector<const vmctl::HostDevice*> gpus;
  std::string reason;            ///< "joined by NVLink", "on NUMA node 0", …; empty where there is none
  bool joined_by_nvlink = true;  ///< every one with every other
  std::optional<int> numa_node;  ///< of all of them
};

/// What of the host `devices.select` allows and the kind can use, by address.
std::vector<const vmctl::HostDevice*> selected_gpus(const Devices& devices,
                                                    const vmctl::Inventory& inventory);

/// Hands out GPUs by topology: those of one node as near to each other as can be (NVLink, then a common PCIe
/// switch, then a common NUMA node), single ones spread over the sockets so that they share little.
class GpuAllocator {
 public:
  explicit GpuAllocator(std::vector<const vmctl::HostDevice*> gpus) : free_(std::move(gpus)) {}

  /// `count` of the GPUs left; fewer, down to none, where there are not as many.
  GpuChoice take(std::size_t count);

 private:
  std::vector<const vmctl::HostDevice*> free_;
  std::vector<const vmctl::HostDevice*> taken_;
};

}  // namespace virtrain::harness
