#pragma once

#include <filesystem>
#include <string>

namespace virtrain::vmctl {

/// Throws Error(host_unable) where libvirt's list of CPU models, which lies in a folder of its own, has no
/// such name. Without the folder nothing is said: libvirt itself will.
void check_cpu_model(const std::string& name, const std::filesystem::path& root = "/");

}  // namespace virtrain::vmctl
