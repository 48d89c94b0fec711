#pragma once

#include <boost/describe/class.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "vmctl/api/device.h"

namespace virtrain::vmctl {

struct Core {
  int id = 0;
  int numa_node = 0;
  int first_sibling = -1;     ///< lowest CPU of the physical core where that has several threads, else -1
  int last_level_cache = -1;  ///< lowest CPU that shares it; -1: unknown
  bool operator==(const Core&) const = default;
};
BOOST_DESCRIBE_STRUCT(Core, (), (id, numa_node, first_sibling, last_level_cache))

struct NumaNode {
  int id = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t free_hugepages_1gib = 0;
  std::uint64_t free_hugepages_2mib = 0;
};
BOOST_DESCRIBE_STRUCT(NumaNode, (), (id, memory_bytes, free_hugepages_1gib, free_hugepages_2mib))

/// The processor architecture of hosts on which virtrain makes nodes.
inline constexpr const char* supported_architecture = "x86_64";

/// GPUs of an NVSwitch board that the Fabric Manager joins for one VM.
struct FabricPartition {
  int id = 0;
  bool is_active = false;
  std::vector<std::string> gpus;  ///< addresses, in order
};
BOOST_DESCRIBE_STRUCT(FabricPartition, (), (id, is_active, gpus))

/// Advice where planned cores exceed Inventory::cpu_quota_cores.
inline constexpr const char* raise_cpu_quota =
    "raise the quota (docker run --cpus, CPUQuota= of a systemd unit, cpu.max)";

/// Resources of a host that placements can use. It has only the logical CPUs that this process may run on
/// (cpuset, affinity).
struct Inventory {
  std::string hostname;
  std::string architecture = supported_architecture;  ///< or "aarch64", "ppc64le", …
  std::vector<Core> cores;  ///< one thread of each physical core by number, then the second threads, …
  std::vector<int>
      leased_cores;  ///< of `cores`, those another live run holds; load_inventory() leaves it empty
  std::vector<NumaNode> numa_nodes;
  std::uint64_t hugepage_bytes = 2ULL << 20;  ///< of the size that VMs get: the kernel's default
  std::uint64_t surplus_hugepage_bytes =
      0;                           ///< that the kernel makes when asked (vm.nr_overcommit_hugepages)
  std::uint64_t memory_bytes = 0;  ///< total, or the memory cgroup's limit where that is less
  std::uint64_t available_memory_bytes = 0;  ///< what could be used now
  std::optional<double> cpu_quota_cores;     ///< CPU time that the cgroup grants; absent: no limit
  std::string cpu_vendor;                    ///< "GenuineIntel", "AuthenticAMD"
  std::string cpu_model;
  std::vector<std::string> cpu_flags;
  int address_bits = 0;  ///< physical ones of the CPU; 0: unknown
  std::string kernel;    ///< release
  std::string boot_id;
  std::string microcode;
  std::map<std::string, std::string> mitigations;
  bool has_kvm_device = false;
  bool is_virtual_machine = false;        ///< the hypervisor CPU flag
  std::vector<HostDevice> devices;        ///< GPUs, RDMA adapters, NVSwitches
  std::vector<HostDevice> other_devices;  ///< what can only be had by naming its address
  /// FABRIC_MODE of the Fabric Manager's configuration: 0 the host or one VM has the board, 1 VMs share it by
  /// partitions, 2 vGPUs do; absent: unknown.
  std::optional<int> fabric_mode;
  std::vector<FabricPartition> fabric_partitions;
  /// By address, devices that are lent to nobody and why (quarantine); load_inventory() leaves it empty.
  std::map<std::string, std::string> withheld_devices;
};
BOOST_DESCRIBE_STRUCT(Inventory, (),
                      (hostname, architecture, cores, leased_cores, numa_nodes, hugepage_bytes,
                       surplus_hugepage_bytes, memory_bytes, available_memory_bytes, cpu_quota_cores,
                       cpu_vendor, cpu_model, cpu_flags, address_bits, kernel, boot_id, microcode,
                       mitigations, has_kvm_device, is_virtual_machine, devices, other_devices, fabric_mode,
                       fabric_partitions, withheld_devices))

/// The device at that PCI address, of both lists; null: there is none.
const HostDevice* find_device(const Inventory& inventory, const std::string& address);
/// The device with that network interface, "ens1f0"; null: there is none.
const HostDevice* find_nic(const Inventory& inventory, const std::string& interface);

/// Huge pages of the size that VMs get which nobody has, in bytes.
std::uint64_t free_hugepage_bytes(const Inventory& inventory, const NumaNode& node);

/// A part of what `doctor --record` writes: paths that begin so, and what they hold.
struct RecordedPart {
  const char* begin;
  const char* holds;
};
inline constexpr std::array recorded_parts{
    RecordedPart{"proc/",
                 "processor, its times and pressure, memory, command line and version of the kernel, the "
                 "host's name and boot id, NVIDIA's "
                 "driver, UUIDs of its GPUs, ids and names of NVIDIA's and libvirt's services"},
    RecordedPart{"sys/devices/pci",
                 "each PCI device: ids, links, regions, NUMA node, configuration space (with serial "
                 "numbers of devices), ports and MTUs, names of network interfaces"},
    RecordedPart{"sys/",
                 "cores, caches, NUMA nodes, huge pages, mitigations, IOMMU groups, parameters of modules"},
    RecordedPart{"etc/modprobe.d/", "options of kernel modules"},
    RecordedPart{"usr/share/nvidia/", "the Fabric Manager's settings"},
    RecordedPart{"var/lib/virtrain/",
                 "what nvidia-smi, fmpm, libvirtd, QEMU and the kernel's log say (serial numbers "
                 "of GPUs, names of their processes)"}};

/// Says what `--anonymous` replaces or leaves out.
inline constexpr const char* anonymous_words =
    "UUIDs, serial numbers, the host's name, MAC and IP addresses become others, the same one everywhere; "
    "names of "
    "processes, comments, other arguments of the kernel and all of its log but the lines of NVIDIA's driver, "
    "VFIO "
    "and PCIe errors are left out";

}  // namespace virtrain::vmctl
