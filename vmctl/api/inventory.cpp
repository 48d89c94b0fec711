#include "vmctl/api/inventory.h"

#include "common/contains.h"

namespace virtrain::vmctl {
namespace {

template <typename Matches>
const HostDevice* find_in_both(const Inventory& inventory, Matches&& matches) {
  for (const auto* list : {&inventory.devices, &inventory.other_devices}) {
    for (const auto& device : *list) {
      if (matches(device)) { return &device; }
    }
  }
  return nullptr;
}

}  // namespace

const HostDevice* find_device(const Inventory& inventory, const std::string& address) {
  return find_in_both(inventory,
                      [&](const HostDevice& device) { return device.function.address == address; });
}

const HostDevice* find_nic(const Inventory& inventory, const std::string& interface) {
  return find_in_both(inventory,
                      [&](const HostDevice& device) { return contains(device.interfaces, interface); });
}

std::uint64_t free_hugepage_bytes(const Inventory& inventory, const NumaNode& node) {
  constexpr std::uint64_t gib = 1ULL << 30;
  return inventory.hugepage_bytes *
         (inventory.hugepage_bytes == gib ? node.free_hugepages_1gib : node.free_hugepages_2mib);
}

}  // namespace virtrain::vmctl
