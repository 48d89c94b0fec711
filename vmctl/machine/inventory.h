#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "vmctl/api/inventory.h"
#include "vmctl/devices/host_device.h"

namespace virtrain::vmctl {

/// From "/" or from a recorded tree with the same files (proc/, sys/, etc/hostname). Throws Error(bad_input).
Inventory load_inventory(const std::filesystem::path& root = "/");
/// As load_inventory(), without the devices, which take nvidia-smi to ask.
Inventory load_machine(const std::filesystem::path& root = "/");

/// Named facts of this host that decide whether two trials are comparable: kernel, cpu_model, cpu_flags,
/// microcode, mitigations, bios, governor, boot_id, libvirt, qemu, open_mpi, …; a fact that cannot be read is
/// absent.
std::map<std::string, std::string> host_fingerprint();

}  // namespace virtrain::vmctl
