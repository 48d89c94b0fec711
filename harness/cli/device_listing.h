#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "results/tables/render.h"
#include "vmctl/devices/host_device.h"

namespace virtrain::harness {

/// Who holds a device: experiment and process, by PCI address.
using DeviceLeases = std::map<std::string, std::string>;

/// `doctor --devices` for people: a line for each device, below it what does not fit into one.
results::Table devices_table(const std::vector<vmctl::HostDevice>& devices, const DeviceLeases& leases);
/// The same with every fact: a list of objects.
nlohmann::json devices_json(const std::vector<vmctl::HostDevice>& devices, const DeviceLeases& leases);

}  // namespace virtrain::harness
