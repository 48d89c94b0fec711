#include "harness/plan/vm_findings.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/units.h"
#include "harness/plan/device_demand.h"
#include "harness/plan/host_room.h"
#include "vmctl/api/limits.h"

namespace virtrain::harness {
namespace {

constexpr const char* reserve_pages =
    "reserve them on the kernel's command line or by vm.nr_hugepages, or leave guest.hugepages out";
constexpr const char* not_the_default =
    "{} pages of 1GiB are free here and are not the default size, which VMs get: add default_hugepagesz=1G "
    "to the kernel's command line";
constexpr const char* leave_numa_node = "use less memory, fewer nodes, or pinning: cores";

struct VmCheck {
  const Scenario& scenario;
  const vmctl::Inventory& inventory;
  bool emulated;
  VmFindings found = {};

  void check_all(const Placement& placement) {
    constexpr std::int64_t most_vcpus = 255;  // more need an IOMMU in the guest that extends interrupts
    if (placement.guest.vcpus > most_vcpus) {
      found.problems.push_back(
          fmt::format("case {}: its VMs have {} vCPUs, and libvirt starts none with more than {}",
                      placement.case_name, placement.guest.vcpus, most_vcpus));
    }
    check_vm_memory(placement);
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) { check_vm_devices(placement, node); }
    }
    if (!placement.guest.is_mirror()) {
      return;  // its peers' names come from the seed
    }
    const auto length = [](const NodePlacement& node) { return node.hostname.size() + node.address.size(); };
    for (const auto& tenant : placement.tenants) {
      const auto longest =
          std::max_element(tenant.nodes.begin(), tenant.nodes.end(),
                           [&](const auto& a, const auto& b) { return length(a) < length(b); });
      auto boot = vmctl::guest_boot({tenant.nodes.begin(), tenant.nodes.end()}, *longest, true);
      boot.has_payload = !payload_of(tenant).empty();
      try {
        vmctl::guest_command_line(boot);
      } catch (const Error& error) {
        found.problems.push_back(fmt::format("case {}: {}: {} (use fewer nodes in a tenant)",
                                             placement.case_name, tenant.name, error.message()));
      }
    }
  }

  /// Checks a VM's devices against firmware, NVSwitches and old kernels.
  void check_vm_devices(const Placement& placement, const NodePlacement& node) {
    const auto about = [&](const std::string& words) {
      return fmt::format("case {}: {}: {}", placement.case_name, node.hostname, words);
    };
    const auto fabric = vmctl::fabric_lack(inventory, node.devices);
    if (!fabric.words.empty()) {
      if (fabric.is_certain) {
        add_once(found.problems, Lack(about(fabric.words)));
      } else {
        add_once(found.warnings, about(fabric.words));
      }
    }
    const auto own_bits = own_address_bits(placement.guest);
    const int bits = own_bits > 0 ? own_bits : inventory.address_bits;
    if (const auto needed = vmctl::region_bytes(node.devices);
        bits > 0 && needed > vmctl::region_room(bits)) {
      found.problems.push_back(about(fmt::format(
          "the memory regions of its devices need {} of guest addresses, and {} has {} address "
          "bits, of which firmware keeps {} for them ({})",
          format_size(needed), own_bits > 0 ? "CPU model " + placement.guest.cpu_model : "the host", bits,
          format_size(vmctl::region_room(bits)),
          own_bits > 0 ? "use guest.cpu_model: host, or fewer GPUs a VM" : "use fewer GPUs a VM")));
    }
    const bool maps_for_minutes = std::ranges::any_of(
        node.devices, [](const auto& device) { return vmctl::has_huge_region(device.bars); });
    if (maps_for_minutes && scenario.boot_timeout_ns < vmctl::slow_boot_timeout_ns &&
        !vmctl::is_since(inventory.kernel, 6, 12)) {
      add_once(
          found.warnings,
          fmt::format("boot_timeout: {} is too short here: Linux {} maps memory regions of 64 GiB and more "
                      "page by page, so a guest takes minutes to find its GPUs (VER-3; use {} or more)",
                      format_seconds(static_cast<double>(scenario.boot_timeout_ns) * 1e-9), inventory.kernel,
                      format_seconds(static_cast<double>(vmctl::slow_boot_timeout_ns) * 1e-9)));
    }
  }

  /// Where pinning says from which NUMA node it comes, memory comes from nowhere else; and huge pages are
  /// reserved or not there.
  void check_vm_memory(const Placement& placement) {
    const bool huge = placement.guest.hugepages;
    const auto wanted = huge ? wanted_memory(placement, placement.guest, inventory.hugepage_bytes, 0)
                             : wanted_memory(placement, placement.guest, 1, qemu_overhead(emulated));
    // Another run may have the pages that are missing, until it ends.
    auto& problems = huge && !inventory.leased_cores.empty() ? found.busy : found.problems;
    const auto refuse = [&](std::uint64_t bytes, const std::string& where, std::uint64_t there) {
      const auto page = inventory.hugepage_bytes;
      std::uint64_t large_pages = 0;
      for (const auto& node : inventory.numa_nodes) { large_pages += node.free_hugepages_1gib; }
      const bool is_not_default = large_pages > 0 && page != 1ULL << 30;
      const auto lack =
          huge ? fmt::format("{} of {}, {} has {} free ({})", counted(bytes / page, "huge page"),
                             format_size(page), where, there / page,
                             is_not_default ? fmt::format(not_the_default, large_pages) : reserve_pages)
               : fmt::format("{}, QEMU's own included, {} has {} ({})", format_size(bytes), where,
                             format_size(there), leave_numa_node);
      problems.emplace_back(fmt::format("case {}: its VMs need {}", placement.case_name, lack),
                            huge ? "huge pages" : "memory", static_cast<double>(bytes));
    };
    const std::uint64_t surplus = huge ? inventory.surplus_hugepage_bytes : 0;
    std::uint64_t everywhere = surplus;
    bool any_lacks = false;
    for (const auto& node : inventory.numa_nodes) {
      const auto own = huge ? free_hugepage_bytes(inventory, node) : node.memory_bytes;
      const auto there = own + surplus;
      everywhere += own;
      const auto found = wanted.by_node.find(node.id);
      if (found == wanted.by_node.end() || found->second <= there) { continue; }
      refuse(found->second, fmt::format("NUMA node {} of host {}", node.id, inventory.hostname), there);
      any_lacks = true;
    }
    if (huge && !any_lacks && wanted.bytes > everywhere) {
      refuse(wanted.bytes, "host " + inventory.hostname, everywhere);
    }
  }
};

}  // namespace

VmFindings vm_findings(const Placement& placement, const Scenario& scenario,
                       const vmctl::Inventory& inventory, bool emulated) {
  VmCheck check{scenario, inventory, emulated};
  check.check_all(placement);
  return std::move(check.found);
}

}  // namespace virtrain::harness
