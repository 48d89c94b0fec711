#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace virtrain::vmctl {

/// Services that open a GPU as soon as it is there, and so would keep it from being lent or disturb what is
/// measured.
inline constexpr const char* gpu_services[] = {"nvidia-persistenced.service", "nvidia-dcgm.service",
                                               "dcgm-exporter.service", "nv-hostengine.service"};
/// Those of them that run now. None where systemd does not run.
std::vector<std::string> services_that_grab_gpus();

/// Whether a process is of one of them, by the unit that it runs in: one of that name need not be. 0: the
/// kernel.
bool is_service_that_grabs_gpus(const std::filesystem::path& root, int pid);

}  // namespace virtrain::vmctl
