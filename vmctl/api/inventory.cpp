#include "vmctl/api/inventory.h"

namespace virtrain::vmctl {

std::uint64_t free_hugepage_bytes(const Inventory& inventory, const NumaNode& node) {
  constexpr std::uint64_t gib = 1ULL << 30;
  return inventory.hugepage_bytes *
         (inventory.hugepage_bytes == gib ? node.free_hugepages_1gib : node.free_hugepages_2mib);
}

}  // namespace virtrain::vmctl
