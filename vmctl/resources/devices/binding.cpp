#include "vmctl/resources/devices/binding.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"
#include "vmctl/devices/pci/locked_value.h"
#include "vmctl/devices/pci/sysfs.h"

namespace virtrain::vmctl {
namespace {

std::string file_of(const std::string& address, const char* name) {
  return "devices/" + address + "/" + name;
}

void set_override(std::vector<PciWrite>& steps, const std::string& address, const std::string& driver) {
  steps.push_back({file_of(address, "driver_override"), driver + "\n"});  // a bare line end clears it
}

}  // namespace

std::optional<Binding> read_binding(const std::string& address) {
  const auto folder = pci_folder(address);
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) { return std::nullopt; }
  Binding binding{bound_driver(address), read_locked_value(folder / "driver_override").value_or(""),
                  read_value(folder / "d3cold_allowed").value_or("")};
  if (binding.driver_override == "(null)") { binding.driver_override.clear(); }
  return binding;
}

nlohmann::json to_json(const Binding& binding) {
  return {{"driver", binding.driver},
          {"driver_override", binding.driver_override},
          {"d3cold_allowed", binding.d3cold_allowed}};
}

Binding parse_binding(const std::string& json) {
  const std::string operation = "read a binding from the lease journal";
  const auto parsed = parse_json(json, operation, ErrorCode::io);
  try {
    return {parsed.at("driver").get<std::string>(), parsed.at("driver_override").get<std::string>(),
            parsed.at("d3cold_allowed").get<std::string>()};
  } catch (const nlohmann::json::exception& failure) {
    throw Error(operation, ErrorCode::io, failure.what());
  }
}

std::vector<PciWrite> steps_to_lend(const std::string& address, const Binding& now) {
  std::vector<PciWrite> steps;
  if (now.d3cold_allowed == "1") { steps.push_back({file_of(address, "d3cold_allowed"), "0"}); }
  if (now.driver_override != vfio_driver) { set_override(steps, address, vfio_driver); }
  if (now.driver == vfio_driver) { return steps; }
  if (!now.driver.empty()) { steps.push_back({file_of(address, "driver/unbind"), address}); }
  steps.push_back({"drivers_probe", address});
  return steps;
}

std::vector<PciWrite> steps_to_give_back(const std::string& address, const Binding& now,
                                         const Binding& before) {
  std::vector<PciWrite> steps;
  if (now.driver_override != before.driver_override) { set_override(steps, address, before.driver_override); }
  if (now.driver != before.driver) {
    if (!now.driver.empty()) { steps.push_back({file_of(address, "driver/unbind"), address}); }
    if (!before.driver.empty()) { steps.push_back({"drivers/" + before.driver + "/bind", address}); }
  }
  if (now.d3cold_allowed != before.d3cold_allowed && !before.d3cold_allowed.empty()) {
    steps.push_back({file_of(address, "d3cold_allowed"), before.d3cold_allowed});
  }
  return steps;
}

}  // namespace virtrain::vmctl
