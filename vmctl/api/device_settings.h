#pragma once

#include <boost/describe/class.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "common/model/described.h"
#include "vmctl/api/device.h"
#include "vmctl/api/node.h"

namespace virtrain::vmctl {

using virtrain::to_string;

/// Meaning of a scenario's setting where it is absent.
inline constexpr const char* as_found = "as virtrain finds it";

/// GPU settings that change what is measured. Absent: unknown, not supported, or left as it is.
struct DeviceSettings {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<double>, power_limit_watts, {}, .text = "Largest power draw",
                 .key = "power_limit", .least = 1, .most = 10'000, .unit = ValueUnit::watts,
                 .absent = as_found, .example = "250W");
  // nvidia-smi locks the clocks and cannot say them.
  VIRTRAIN_FIELD(std::optional<std::int64_t>, graphics_clock_mhz, {},
                 .text = "Clock at which the GPU is locked", .key = "graphics_clock", .least = 1,
                 .most = 10'000, .unit = ValueUnit::megahertz, .absent = as_found, .example = "1410MHz");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, memory_clock_mhz, {},
                 .text = "Clock at which the GPU's memory is locked");
  VIRTRAIN_FIELD(std::optional<bool>, ecc, {}, .text = "Error correction of the GPU's memory", .key = "ecc",
                 .absent = as_found);
  VIRTRAIN_FIELD(std::optional<bool>, persistence, {},
                 .text = "Whether the driver keeps the GPU's state while nobody holds it",
                 .key = "persistence",
                 .absent = "on with power_limit or graphics_clock, else as virtrain finds it");
  VIRTRAIN_FIELD(std::optional<bool>, mig, {}, .text = "Multi-instance GPU", .key = "mig",
                 .absent = as_found);
  bool operator==(const DeviceSettings&) const = default;
  bool empty() const { return *this == DeviceSettings(); }
};
BOOST_DESCRIBE_STRUCT(DeviceSettings, (),
                      (ecc, persistence, mig, power_limit_watts, graphics_clock_mhz, memory_clock_mhz))

/// How a card shares its time among vGPUs, by NVML's numbers.
enum class VgpuScheduler { best_effort = 1, equal_share, fixed_share };
VIRTRAIN_DESCRIBE_ENUM(VgpuScheduler, best_effort, equal_share, fixed_share)

/// Settings of the cards behind vGPUs while VMs have these.
struct CardSettings {
  DeviceSettings gpu = {};
  std::optional<VgpuScheduler> vgpu_scheduler = {};
};
BOOST_DESCRIBE_STRUCT(CardSettings, (), (gpu, vgpu_scheduler))

/// nvidia-smi's question for a GPU (its address, UUID or index), and what its one line of answer says.
std::vector<std::string> settings_query(const std::string& gpu);

DeviceSettings parse_settings_answer(const std::string& line);

/// nvidia-smi's commands that make `now` into `wanted`, where they differ. Persistence first, for without it
/// the driver forgets the others at once; last where it is to be off.
std::vector<std::vector<std::string>> settings_commands(const std::string& gpu, const DeviceSettings& now,
                                                        const DeviceSettings& wanted);

/// Where the GPU is not as wanted: "power limit is 300 W where 250 W was asked for". Empty: it is.
std::vector<std::string> settings_differences(const DeviceSettings& wanted, const DeviceSettings& now);

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
