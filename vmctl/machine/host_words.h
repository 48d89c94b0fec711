#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "vmctl/devices/gpu_report.h"
#include "vmctl/hypervisor/hypervisor.h"

namespace virtrain::vmctl {

/// What programs and logs of a host say that sysfs does not.
struct HostWords {
  std::optional<std::string> kernel_log;  ///< nothing where we may not read it
  std::map<std::string, GpuReport> gpus;  ///< by PCI address; empty without NVIDIA's driver
  std::string fabric_manager;             ///< version, "535.129.03"; empty: not installed
  HypervisorVersions versions;            ///< empty: not installed
};

/// "QEMU 7.2.22", of this host or of a recorded one; empty: not installed.
std::string qemu_version(const std::filesystem::path& root);

/// Asks them, each once and with a deadline; of a recorded host reads what they printed there: dmesg.txt,
/// nvidia-smi-query.xml, nv-fabricmanager-version.txt, libvirtd-version.txt and qemu-version.txt in
/// var/lib/virtrain.
HostWords read_host_words(const std::filesystem::path& root);

}  // namespace virtrain::vmctl
