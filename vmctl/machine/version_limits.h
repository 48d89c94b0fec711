#pragma once

#include <optional>
#include <string>
#include <vector>

#include "vmctl/api/limits.h"
#include "vmctl/hypervisor/hypervisor.h"

namespace virtrain::vmctl {

enum class Program { libvirt, qemu, kernel };

/// Lists what these versions cannot do with the devices of a VM, a sentence each with the version that can.
/// Callers ask before the start, for libvirt's and QEMU's own words name no cause. An empty version counts as
/// new enough, so that a plan can be made without libvirt. `kernel`: "6.1.0-35-amd64". `of`: limits of that
/// program only.
std::vector<std::string> version_limits(const std::vector<PlacedDevice>& devices, Clique clique,
                                        const HypervisorVersions& versions, const std::string& kernel = "",
                                        std::optional<Program> of = std::nullopt);

}  // namespace virtrain::vmctl
