#include "vmctl/resources/devices/vgpu.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "common/contains.h"
#include "common/error.h"
#include "common/json.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/units.h"
#include "vmctl/devices/pci/locked_value.h"
#include "vmctl/devices/pci/pci_function.h"
#include "vmctl/devices/pci/sysfs.h"
#include "vmctl/resources/devices/device_effect.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* sriov_manage = "/usr/lib/nvidia/sriov-manage";
constexpr std::chrono::seconds sriov_manage_deadline{120};

/// A field of a state that one of the functions below has written.
std::string field(const std::string& state, const char* name) {
  const auto parsed = parse_json_or_null(state);
  if (!parsed.is_object() || !parsed.contains(name)) {
    throw Error("read the lease journal", ErrorCode::io, fmt::format("no {} in {}", name, state));
  }
  return parsed[name].get<std::string>();
}

fs::path mdev_folder(const std::string& uuid) {
  return fs::path("/sys/bus/mdev/devices") / uuid;
}

fs::path type_folder(const std::string& parent, const std::string& type) {
  return fs::path("/sys/class/mdev_bus") / parent / "mdev_supported_types" / type;
}

fs::path current_type(const std::string& address) {
  return pci_folder(address) / "nvidia/current_vgpu_type";
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string count_now(const std::string& physical_function) {
  return read_locked_value(pci_folder(physical_function) / "sriov_numvfs").value_or("");
}

/// How many virtual functions there must be so that these are among them; nothing where it can never have one
/// of them.
std::optional<int> count_that_has(const PciFunction& physical, std::vector<std::string> wanted) {
  for (int count = 0; count <= physical.virtual_functions_possible; ++count) {
    if (wanted.empty()) { return count; }
    if (const auto next = virtual_function_address(physical, count)) { std::erase(wanted, *next); }
  }
  return std::nullopt;
}

/// NVIDIA's driver refuses a plain write to sriov_numvfs.
bool needs_sriov_manage(const std::string& physical_function) {
  return bound_driver(physical_function) == "nvidia" && is_there(sriov_manage);
}

void run_sriov_manage(const char* what, const std::string& physical_function) {
  CommandOptions options;
  options.deadline = sriov_manage_deadline;
  run_checked({sriov_manage, what, physical_function}, options);
}

}  // namespace

bool must_make_way(const std::vector<DeviceGrant>& lent, const std::vector<DeviceGrant>& wanted) {
  std::vector<DeviceGrant> missing;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(missing),
               [&](const auto& grant) { return !contains(lent, grant); });
  const auto is_of_its_card = [](const DeviceGrant& old) {
    return [&old](const DeviceGrant& grant) { return grant.physical_function == old.physical_function; };
  };
  const auto is_in_the_way = [&](const DeviceGrant& old) {
    if (old.kind == GrantKind::mdev || old.kind == GrantKind::vendor_vfio) { return !contains(wanted, old); }
    return old.kind == GrantKind::virtual_function &&
           std::any_of(missing.begin(), missing.end(), is_of_its_card(old));
  };
  return !missing.empty() && std::any_of(lent.begin(), lent.end(), is_in_the_way);
}

// --- mediated devices

PlannedEffect mdev_effect(const DeviceGrant& grant) {
  const auto type = type_folder(grant.address, grant.vgpu_type);
  if (!is_there(type)) {
    throw Error("make a vGPU on " + grant.address, ErrorCode::not_found,
                "it offers no type " + grant.vgpu_type + " (virtrain doctor --devices lists them)");
  }
  if (read_value(type / "available_instances") == "0") {
    throw Error("make a vGPU on " + grant.address, ErrorCode::busy,
                "no instance of " + grant.vgpu_type + " is left");
  }
  return {EffectKind::mdev, grant.uuid,
          nlohmann::json{{"parent", grant.address}, {"type", grant.vgpu_type}}.dump()};
}

std::string mdev_parent(const std::string& state) {
  return field(state, "parent");
}

void make_mdev(const std::string& uuid, const std::string& state) {
  write_sysfs(type_folder(mdev_parent(state), field(state, "type")) / "create", uuid);
  if (!is_there(mdev_folder(uuid))) {
    throw Error("make the mediated device " + uuid, ErrorCode::io, "the kernel took it and shows none");
  }
}

std::string mdev_left(const std::string& uuid) {
  return is_there(mdev_folder(uuid)) ? "mediated device" : "";
}

void remove_mdev(const std::string& uuid) {
  if (!is_there(mdev_folder(uuid))) { return; }
  write_sysfs(mdev_folder(uuid) / "remove", "1");
  if (is_there(mdev_folder(uuid))) {
    throw Error("remove the mediated device " + uuid, ErrorCode::io, "it is still there");
  }
}

// --- vGPU types of virtual functions

PlannedEffect vgpu_type_effect(const DeviceGrant& grant) {
  const auto operation = "make a vGPU on " + grant.address;
  const auto now = read_value(current_type(grant.address));
  if (!now) {
    throw Error(operation, ErrorCode::not_found,
                "it is no virtual function of a driver with vendor-specific VFIO (doctor's VG-2)");
  }
  if (*now != "0") {
    throw Error(operation, ErrorCode::busy, "it carries a vGPU of type " + *now + " already");
  }
  std::vector<std::string> offered;
  const auto text = read_file(pci_folder(grant.address) / "nvidia/creatable_vgpu_types").value_or("");
  for (const auto& line : split(text, '\n')) {
    const auto id = std::string(trim(line.substr(0, line.find(':'))));
    if (parse_integer(id)) { offered.push_back(id); }
  }
  if (std::find(offered.begin(), offered.end(), grant.vgpu_type) == offered.end()) {
    throw Error(operation, ErrorCode::host_unable,
                fmt::format("type {} cannot be made now ({})", grant.vgpu_type,
                            offered.empty() ? "the card is full" : "it can make: " + join(offered, ", ")));
  }
  return {EffectKind::vgpu_type, grant.address, nlohmann::json{{"type", grant.vgpu_type}}.dump()};
}

void set_vgpu_type(const std::string& address, const std::string& state) {
  const auto type = field(state, "type");
  write_sysfs(current_type(address), type);
  const auto now = read_value(current_type(address)).value_or("");
  if (now != type) {
    throw Error("make a vGPU on " + address, ErrorCode::io,
                fmt::format("asked for type {}, it carries {}", type, now));
  }
}

std::string vgpu_type_left(const std::string& address, const std::string& state) {
  const auto now = read_value(current_type(address)).value_or("0");
  return now == field(state, "type") ? "vGPU of type " + now : "";
}

void clear_vgpu_type(const std::string& address, const std::string& state) {
  if (vgpu_type_left(address, state).empty()) {
    return;  // gone, or of another type and so somebody else's
  }
  write_sysfs(current_type(address), "0");
  const auto now = read_value(current_type(address)).value_or("0");
  if (now != "0") {
    throw Error("remove the vGPU of " + address, ErrorCode::io, "it still carries type " + now);
  }
}

// --- virtual functions

std::vector<PlannedEffect> virtual_functions_effect(const std::string& physical_function,
                                                    const std::vector<std::string>& wanted) {
  const auto missing = [](const std::string& address) { return !is_there(pci_folder(address)); };
  if (std::none_of(wanted.begin(), wanted.end(), missing)) { return {}; }
  const auto operation = "make virtual functions of " + physical_function;
  const auto physical = read_pci_function("/", physical_function);
  if (!physical || physical->virtual_functions_possible == 0) {
    throw Error(operation, ErrorCode::not_found, "it can have none (SR-IOV is off in its firmware?)");
  }
  const auto count = count_that_has(*physical, wanted);
  if (!count) {
    throw Error(operation, ErrorCode::host_unable,
                fmt::format("it can have {}, and {} would not be among them",
                            physical->virtual_functions_possible, join(wanted, " ")));
  }
  const auto now = count_now(physical_function);
  if (now != "0") {
    throw Error(operation, ErrorCode::busy,
                fmt::format("it has {} already, and not all of {}", now, join(wanted, " ")));
  }
  const nlohmann::json state = {
      {"count", std::to_string(*count)},
      {"drivers_autoprobe",
       read_value(pci_folder(physical_function) / "sriov_drivers_autoprobe").value_or("")}};
  return {{EffectKind::virtual_functions, physical_function, state.dump()}};
}

void make_virtual_functions(const std::string& physical_function, const std::string& state) {
  if (needs_sriov_manage(physical_function)) { return run_sriov_manage("-e", physical_function); }
  const auto folder = pci_folder(physical_function);
  // Without this the host's own driver would take each of them up.
  if (is_there(folder / "sriov_drivers_autoprobe")) { write_sysfs(folder / "sriov_drivers_autoprobe", "0"); }
  write_sysfs(folder / "sriov_numvfs", field(state, "count"));
}

std::string virtual_functions_left(const std::string& physical_function, const std::string& state) {
  const auto now = count_now(physical_function);
  const auto autoprobe = read_value(pci_folder(physical_function) / "sriov_drivers_autoprobe").value_or("");
  if (now != "0" && !now.empty()) { return now + " virtual functions"; }
  return autoprobe != field(state, "drivers_autoprobe") ? "drivers are kept off its virtual functions" : "";
}

void remove_virtual_functions(const std::string& physical_function, const std::string& state) {
  if (virtual_functions_left(physical_function, state).empty()) { return; }
  if (needs_sriov_manage(physical_function)) { return run_sriov_manage("-d", physical_function); }
  const auto folder = pci_folder(physical_function);
  if (count_now(physical_function) != "0") { write_sysfs(folder / "sriov_numvfs", "0"); }
  const auto before = field(state, "drivers_autoprobe");
  if (!before.empty()) { write_sysfs(folder / "sriov_drivers_autoprobe", before); }
}

}  // namespace virtrain::vmctl
