#include "vmctl/machine/version_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "common/text/text.h"

namespace virtrain::vmctl {
namespace {

using Devices = std::vector<PlacedDevice>;

bool any_at_all(const Devices& devices, Clique /*clique*/) {
  return !devices.empty();
}

bool has_kind(const Devices& devices, GrantKind kind) {
  return std::ranges::any_of(devices, [&](const auto& device) { return device.grant.kind == kind; });
}

bool any_mdev(const Devices& devices, Clique /*clique*/) {
  return has_kind(devices, GrantKind::mdev);
}

bool any_vendor_vfio(const Devices& devices, Clique /*clique*/) {
  return has_kind(devices, GrantKind::vendor_vfio);
}

bool any_clique(const Devices& devices, Clique clique) {
  return clique != Clique::off && !devices.empty();
}

bool any_iommufd(const Devices& devices, Clique /*clique*/) {
  return std::ranges::any_of(devices, [](const auto& device) { return device.vfio == Vfio::iommufd; });
}

/// From Turing on (device ids from 0x1e00) MSI-X may sit in the configuration space where QEMU before 8.1
/// writes the hint.
bool clique_on_turing(const Devices& devices, Clique clique) {
  const auto clashes = [](const PlacedDevice& device) {
    return device.is_display && std::strtol(device.device.c_str(), nullptr, 16) >= 0x1e00;
  };
  return clique != Clique::off && std::ranges::any_of(devices, clashes);
}

struct Limit {
  Program program;
  std::pair<int, int> since;
  bool (*applies)(const Devices& devices, Clique clique);
  const char* what;
};

/// Limits of a host by its versions.
constexpr std::array limits = {
    Limit{Program::libvirt, {3, 2}, any_mdev, "mediated devices of a VM need libvirt 3.2"},
    Limit{Program::libvirt,
          {8, 2},
          any_clique,
          "devices.clique is a property that libvirt passes to one device from 8.2 on (use clique: off)"},
    Limit{Program::libvirt,
          {8, 7},
          any_at_all,
          "a guest with the host's physical address width, which big memory regions need, takes libvirt 8.7"},
    Limit{
        Program::libvirt,
        {9, 7},
        any_vendor_vfio,
        "a virtual function that keeps its vendor's driver (a vendor-specific VFIO vGPU) needs libvirt 9.7; "
        "older ones say that it \"must be manually detached from the host\""},
    Limit{Program::kernel,
          {6, 1},
          any_vendor_vfio,
          "a virtual function that keeps its vendor's driver (a vendor-specific VFIO vGPU) needs Linux 6.1, "
          "which shows VFIO devices below their functions"},
    Limit{Program::libvirt, {12, 1}, any_iommufd, "devices.vfio: iommufd needs libvirt 12.1 (use container)"},
    Limit{Program::kernel,
          {6, 6},
          any_iommufd,
          "devices.vfio: iommufd needs Linux 6.6, which has a file for each device (use container)"},
    Limit{Program::qemu, {9, 0}, any_iommufd, "devices.vfio: iommufd needs QEMU 9.0 (use container)"},
    Limit{Program::qemu,
          {8, 1},
          clique_on_turing,
          "devices.clique with GPUs from Turing on needs QEMU 8.1: older ones put the hint where these have "
          "MSI-X (use clique: off)"},
};

}  // namespace

std::vector<std::string> version_limits(const Devices& devices, Clique clique,
                                        const HypervisorVersions& versions, const std::string& kernel,
                                        std::optional<Program> of) {
  std::vector<std::string> reasons;
  for (const auto& limit : limits) {
    if ((of && *of != limit.program) || !limit.applies(devices, clique)) { continue; }
    const auto here = limit.program == Program::libvirt ? "libvirt " + versions.libvirt
                      : limit.program == Program::qemu  ? versions.hypervisor
                                                        : "Linux " + kernel;
    if (!is_since(here, limit.since.first, limit.since.second)) {
      reasons.push_back(fmt::format("{} (here: {})", limit.what, here));
    }
  }
  return reasons;
}

}  // namespace virtrain::vmctl
