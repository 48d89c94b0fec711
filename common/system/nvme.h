#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace virtrain {

/// Class of its PCI function, as sysfs writes it.
inline constexpr const char* nvme_class = "0x010802";

/// Block devices of an NVMe controller's namespaces ("nvme0n1"), from its PCI function's folder in sysfs.
/// Other functions have none.
std::vector<std::string> nvme_namespaces(const std::filesystem::path& function_folder);

}  // namespace virtrain
