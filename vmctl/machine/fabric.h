#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "vmctl/api/inventory.h"

namespace virtrain::vmctl {

/// The last FABRIC_MODE of a fabricmanager.cfg; nothing where it has none.
std::optional<int> fabric_mode_in(const std::string& configuration);
/// Reads the output of `fmpm -l` (NVIDIA/Fabric-Manager-Client); nothing for any other text.
std::vector<FabricPartition> fabric_partitions_in(const std::string& list);

/// Adds what the Fabric Manager of a host with NVSwitches is set to; of a recorded host `fmpm -l` printed
/// var/lib/virtrain/fmpm-list.json.
void add_fabric(const std::filesystem::path& root, Inventory& inventory);

}  // namespace virtrain::vmctl
