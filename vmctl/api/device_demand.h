#pragma once

#include <boost/describe/class.hpp>

#include <cstdint>
#include <optional>
#include <vector>

#include "vmctl/api/device.h"
#include "vmctl/api/device_settings.h"
#include "vmctl/api/node.h"

namespace virtrain::vmctl {

/// The devices and memory that one VM of a plan gets.
struct VmDemand {
  std::vector<PlacedDevice> devices;
  std::uint64_t memory_bytes = 0;
  std::optional<int> numa_node;  ///< of its memory, where it is of one node
  int address_bits = 0;          ///< of its CPU; 0: those of the host's
};
BOOST_DESCRIBE_STRUCT(VmDemand, (), (devices, memory_bytes, numa_node, address_bits))

/// Memory regions from this size on are mapped page by page before Linux 6.12 and QEMU 9.2: about 2 s a write
/// that sizes one. Then a guest needs this long beside what it has for each GPU.
inline constexpr std::uint64_t huge_region_bytes = 64ULL << 30;
inline constexpr std::int64_t slow_boot_timeout_ns = 90'000'000'000;
/// Whether one of these regions of a device is as large.
bool has_huge_region(const std::vector<Bar>& bars);

/// Address bits that QEMU gives a CPU with a model's name.
inline constexpr int address_bits_of_named_cpu = 40;
/// Room that firmware has to find for the 64-bit memory regions of a VM's devices: twice their sum, for each
/// is aligned to its size.
std::uint64_t region_bytes(const std::vector<PlacedDevice>& devices);
/// The same of one device.
std::uint64_t region_bytes(const std::vector<Bar>& bars);
/// Firmware keeps an eighth of a guest's addresses for them (OVMF, PlatformPei).
constexpr std::uint64_t region_room(int address_bits) {
  return (1ULL << static_cast<unsigned>(address_bits)) / 8;
}

/// The devices that a plan needs from a host at one time.
struct DeviceDemand {
  std::vector<VmDemand> vms;
  Clique clique = Clique::off;
  bool several_tenants = false;      ///< VMs that must be kept apart
  bool hugepages = false;            ///< VMs of 1 GiB pages
  bool firmware = false;             ///< VMs that boot by UEFI
  std::int64_t boot_timeout_ns = 0;  ///< what a guest has, apart from its GPUs; 0: not said
  MemoryEncryption memory_encryption = MemoryEncryption::none;
  std::optional<VgpuScheduler> vgpu_scheduler;  ///< that is set on the cards

  std::vector<PlacedDevice> devices() const;  ///< of all VMs
  bool wants(GrantKind kind) const;
};
BOOST_DESCRIBE_STRUCT(DeviceDemand, (),
                      (vms, clique, several_tenants, hugepages, firmware, boot_timeout_ns, memory_encryption,
                       vgpu_scheduler))

}  // namespace virtrain::vmctl
