#include "harness/security/foreign_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace virtrain::harness {

const std::vector<std::string>& functions_of_machine() {
  // pci.ids: Q35's host bridge, ISA bridge, SATA controller and SMBus; QEMU's host bridge, expander bridge,
  // root port and PCI bridge; virtio's functions, which its other devices (1af4:1110) are none of.
  static const std::vector<std::string> known{"0x8086:0x29c0", "0x8086:0x2918", "0x8086:0x2922",
                                              "0x8086:0x2930", "0x1b36:0x0008", "0x1b36:0x000b",
                                              "0x1b36:0x000c", "0x1b36:0x000e", "0x1af4:0x10"};
  return known;
}

LeakEvidence foreign_devices(const canary::Functions& seen, bool has_own_kernel) {
  LeakEvidence evidence;
  evidence.control = seen.control;
  evidence.scanned = evidence.total = static_cast<double>(seen.total);
  if (seen.total == 0) { evidence.lacks = "the node sees no PCI function"; }
  const auto count = has_own_kernel ? seen.others : seen.opened;
  for (const auto& one : seen.functions) {
    if (!has_own_kernel && one.opened.empty()) { continue; }
    evidence.leaks.push_back(one.opened.empty() ? fmt::format("{} ({})", one.address, one.model)
                                                : fmt::format("{} ({}) with {}", one.address, one.model,
                                                              fmt::join(one.opened, ", ")));
  }
  if (count > evidence.leaks.size()) { evidence.limits = fmt::format("{} in all", count); }
  return evidence;
}

}  // namespace virtrain::harness
