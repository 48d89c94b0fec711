#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

#include "results/tables/render.h"
#include "vmctl/devices/gpu_report.h"
#include "vmctl/devices/host_device.h"

namespace virtrain::harness {

/// What is known of devices beside what sysfs shows, by PCI address.
struct DeviceContext {
  std::map<std::string, std::string> leases;        ///< who holds it: experiment and process
  std::map<std::string, std::string> quarantined;   ///< why it is lent to nobody
  std::map<std::string, vmctl::GpuReport> reports;  ///< what nvidia-smi says
};

/// `doctor --devices` for people: a line for each device, below it what does not fit into one.
results::Table devices_table(const std::vector<vmctl::HostDevice>& devices, const DeviceContext& context);
/// The same with every fact: a list of objects.
nlohmann::json devices_json(const std::vector<vmctl::HostDevice>& devices, const DeviceContext& context);

}  // namespace virtrain::harness
