#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "vmctl/guest/mirror/guest_packages.h"

namespace virtrain::vmctl {

/// Files that a guest needs so that a GPU of this host works in it with the host's own driver. The kernel
/// modules travel with the guest's kernel, of which they are part wherever the driver came from.
struct GuestDriver {
  std::string version;  ///< "580.95.05", of kernel modules and libraries alike
  std::string origin;   ///< "DKMS", "packages" or "run file"
  std::filesystem::path kernel_module;
  std::vector<CarriedFile> files;               ///< libraries, tools and firmware
  std::map<std::string, std::string> symlinks;  ///< in the guest: path to what it names
  std::map<std::string, std::string> texts;     ///< in the guest: path to content, modprobe's settings
};

/// The NVIDIA driver under `root` for guests with that kernel, whichever way it was installed; nothing where
/// there is none. Error(host_unable) where a guest could not use it: no module for the guest's kernel, or
/// libraries, modules and the running driver of different versions.
std::optional<GuestDriver> find_guest_driver(const std::filesystem::path& root,
                                             const std::string& kernel_version);

/// Libraries that a program opens by name as it runs, which ldd does not show: cuDNN's parts, NVRTC's
/// built-ins and cuBLAS, for a program that links cuDNN and NVRTC. Error(host_unable) where cuBLAS is
/// missing, without which cuDNN ends the process.
std::vector<std::filesystem::path> opened_at_run_time(const std::vector<std::filesystem::path>& linked);

}  // namespace virtrain::vmctl
