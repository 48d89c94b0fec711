#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/error.h"
#include "vmctl/guest/mirror/guest_packages.h"

namespace virtrain::vmctl {

struct GuestKernel {
  std::filesystem::path file;     ///< /boot/vmlinuz-<version>
  std::filesystem::path modules;  ///< /lib/modules/<version>
  std::string version;
};

/// The running kernel if it is installed as a package with its modules, else the newest such one.
/// Throws Error(host_unable) with the apt command where there is none. `root` is "/" except in tests.
GuestKernel find_guest_kernel(const std::filesystem::path& root = "/");

/// overlay.ko of a kernel whose modules are compressed, plain: not every kernel unpacks them by itself, and
/// the guest's init, which needs this one, cannot. "" where the modules are plain or this one is built in.
std::string unpacked_overlay_module(const GuestKernel& kernel);

/// A new folder under `images`; the steps of a build have folders of their own in it.
std::filesystem::path make_work_folder(const std::filesystem::path& images);

/// A build has three steps, each with a deadline; a step copies gigabytes where there is CUDA, to disks that
/// others may be using.
inline constexpr std::chrono::minutes build_step_deadline{30}, longest_build = 3 * build_step_deadline;

struct SuperminRequest {
  std::filesystem::path work;
  GuestKernel kernel;
  std::vector<CarriedFile> files;
  std::map<std::string, std::string> texts;  ///< path in the guest to content
  std::vector<std::string> extra_packages;
  GuestNeeds needs;
  Cancelled cancelled = {};
};

struct SuperminResult {
  std::filesystem::path folder;       ///< holds kernel, initrd and root
  std::vector<std::string> packages;  ///< "name_version_arch", sorted
};

/// Builds kernel, initrd and root from the host's installed packages, as an unprivileged user, with nothing
/// under /etc but our own files, and checks that.
SuperminResult run_supermin(const SuperminRequest& request);

/// A failed step of the build, with what to do where its disk is full: the steps are other programs', which
/// say that in words of their own or not at all. `free_bytes` are left below `images`.
Error explain_full_disk(const Error& failure, const std::filesystem::path& images, std::uintmax_t free_bytes);

}  // namespace virtrain::vmctl
