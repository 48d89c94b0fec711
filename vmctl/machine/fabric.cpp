#include "vmctl/machine/fabric.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "common/contains.h"
#include "common/files/reading.h"
#include "common/text/json.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/api/limits/fabric.h"
#include "vmctl/machine/host_words.h"

namespace virtrain::vmctl {
namespace {

constexpr const char* configuration = "usr/share/nvidia/nvswitch/fabricmanager.cfg";

bool is_true(const nlohmann::json& value) {
  return value.is_boolean() ? value.get<bool>() : value.is_number_integer() && value.get<std::int64_t>() != 0;
}

FabricPartition partition_of(const nlohmann::json& entry) {
  FabricPartition partition;
  partition.id = entry.at("partitionId").get<int>();
  partition.is_active = is_true(entry.at("isActive"));
  for (const auto& gpu : entry.at("gpuInfo")) {
    partition.gpus.push_back(kernel_address(gpu.at("pciBusId").get<std::string>()));
  }
  std::ranges::sort(partition.gpus);
  return partition;
}

}  // namespace

std::optional<int> fabric_mode_in(const std::string& text) {
  std::optional<int> mode;
  for (const auto& line : split(text, '\n')) {
    const auto words = trim(line);
    const auto equals = words.find('=');
    if (equals == std::string_view::npos || trim(words.substr(0, equals)) != "FABRIC_MODE") { continue; }
    if (const auto value = parse_integer(trim(words.substr(equals + 1)))) { mode = static_cast<int>(*value); }
  }
  return mode;
}

std::vector<FabricPartition> fabric_partitions_in(const std::string& list) {
  std::vector<FabricPartition> partitions;
  try {
    const auto json = parse_json_or_null(list);
    for (const auto& entry : json.at("partitionInfo")) {
      auto partition = partition_of(entry);
      // The Fabric Manager may not know the address of a GPU that the host's driver does not have.
      if (!contains(partition.gpus, std::string("0000:00:00.0"))) {
        partitions.push_back(std::move(partition));
      }
    }
  } catch (const nlohmann::json::exception&) { return {}; }
  return partitions;
}

void add_fabric(const std::filesystem::path& root, Inventory& inventory) {
  if (!has_nvlink_switches(inventory.devices)) { return; }
  inventory.fabric_mode = fabric_mode_in(read_file(root / configuration).value_or(""));
  if (inventory.fabric_mode == 1) {
    inventory.fabric_partitions = fabric_partitions_in(fabric_partition_list(root).value_or(""));
  }
}

}  // namespace virtrain::vmctl
