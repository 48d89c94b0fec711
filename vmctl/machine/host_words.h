#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "vmctl/api/device.h"
#include "vmctl/hypervisor/hypervisor.h"

namespace virtrain::vmctl {

/// By PCI address. Text that is no such XML gives nothing.
std::map<std::string, GpuReport> read_gpu_reports(const std::string& xml);

/// Facts of a host that its programs and logs tell and sysfs does not.
struct HostWords {
  std::optional<std::string> kernel_log;  ///< nothing where we may not read it
  std::map<std::string, GpuReport> gpus;  ///< by PCI address; empty without NVIDIA's driver
  std::string fabric_manager;             ///< version, "535.129.03"; empty: not installed
  HypervisorVersions versions;            ///< empty: not installed
  /// How adapters order writes, as mlxconfig says it: "per_mkey(0)" by its word for the device.
  std::map<std::string, std::string> write_ordering;
};

/// Output of dmesg; nothing where we may not read it.
std::optional<std::string> kernel_log();
/// How cards share their time among vGPUs, as NVIDIA's driver said last in the kernel's log: "EQUAL_SHARE" by
/// PCI address.
std::map<std::string, std::string> vgpu_schedulers(const std::string& log);
/// The same in words: "EQUAL_SHARE", or each card's where they differ; empty where the log does not tell.
std::string vgpu_scheduler_words(const std::string& log);

/// Output of `fmpm -l`; nothing where it is not installed, or no Fabric Manager answers.
std::optional<std::string> fabric_partition_list(const std::filesystem::path& root);

/// All that is read from var/lib/virtrain of a recorded host, as this host says it now: text by file name.
/// What a program does not say is left out.
std::map<std::string, std::string> words_to_record();

/// Reads the output of `mlxconfig q PCI_WR_ORDERING` (NVIDIA's firmware tools).
std::map<std::string, std::string> write_orderings(const std::string& text);

/// "QEMU 7.2.22", of this host or of a recorded one; empty: not installed.
std::string qemu_version(const std::filesystem::path& root);

/// Asks them, each once and with a deadline; of a recorded host reads what they printed there: dmesg.txt,
/// nvidia-smi-query.xml, nv-fabricmanager-version.txt, libvirtd-version.txt, qemu-version.txt and
/// mlxconfig-query.txt in var/lib/virtrain.
HostWords read_host_words(const std::filesystem::path& root);

}  // namespace virtrain::vmctl
