#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "vmctl/api/device.h"
#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// Services that open a GPU as soon as it is there, and so would keep it from being lent or disturb what is
/// measured.
inline constexpr const char* gpu_services[] = {"nvidia-persistenced.service", "nvidia-dcgm.service",
                                               "dcgm-exporter.service", "nv-hostengine.service"};
/// Whether they matter: the host's driver has any of the devices, and systemd runs.
bool have_services_to_stop(const std::vector<DeviceGrant>& grants);
/// That those of them stop that run now.
std::vector<Effect> plan_stopped_services(const std::vector<DeviceGrant>& grants);

/// Whether a process is of one of them, by the unit that it runs in: one of that name need not be. 0: the
/// kernel.
bool is_service_that_grabs_gpus(const std::filesystem::path& root, int pid);

}  // namespace virtrain::vmctl
