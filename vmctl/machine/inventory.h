#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "vmctl/api/inventory.h"
#include "vmctl/devices/host_device.h"
#include "vmctl/hypervisor/hypervisor.h"

namespace virtrain::vmctl {

/// From "/" or from a recorded tree with the same files (proc/, sys/, etc/hostname). Throws Error(bad_input).
Inventory load_inventory(const std::filesystem::path& root = "/");
/// As load_inventory(), without the devices, which take nvidia-smi to ask.
Inventory load_machine(const std::filesystem::path& root = "/");

/// Named facts of this host that decide whether two trials are comparable: kernel, cpu_model, cpu_flags,
/// microcode, mitigations, bios, governor, boot_id, libvirt, qemu, open_mpi, …; a fact that cannot be read is
/// absent.
std::map<std::string, std::string> host_fingerprint();

/// Throws Error(host_unable) where libvirt's list of CPU models, which lies in a folder of its own, has no
/// such name. Without the folder nothing is said: libvirt itself will.
void check_cpu_model(const std::string& name, const std::filesystem::path& root = "/");

/// Where sysfs and the hypervisor's daemon do not say the same of a device: a sentence each. A daemon that
/// has missed an event would lend a device by what it remembers.
std::vector<std::string> disagreements(const std::vector<HostDevice>& devices,
                                       const std::vector<NodeDevice>& node_devices);

/// The last FABRIC_MODE of a fabricmanager.cfg; nothing where it has none.
std::optional<int> fabric_mode_in(const std::string& configuration);
/// Reads the output of `fmpm -l` (NVIDIA/Fabric-Manager-Client); nothing for any other text.
std::vector<FabricPartition> fabric_partitions_in(const std::string& list);

/// Adds what the Fabric Manager of a host with NVSwitches is set to; of a recorded host `fmpm -l` printed
/// var/lib/virtrain/fmpm-list.json.
void add_fabric(const std::filesystem::path& root, Inventory& inventory);

}  // namespace virtrain::vmctl
