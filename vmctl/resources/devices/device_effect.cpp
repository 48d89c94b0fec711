#include "vmctl/resources/devices/device_effect.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <thread>

#include "common/error.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/units.h"
#include "vmctl/devices/pci/sysfs.h"
#include "vmctl/resources/devices/binding.h"
#include "vmctl/resources/devices/device_settings.h"
#include "vmctl/resources/devices/host_services.h"
#include "vmctl/resources/devices/infiniband.h"
#include "vmctl/resources/devices/kvm_device.h"
#include "vmctl/resources/devices/vgpu.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds release_deadline{30};  ///< QEMU unpins the guest's memory before it is gone

void write_pci(const std::vector<PciWrite>& steps) {
  for (const auto& step : steps) { write_sysfs(fs::path("/sys/bus/pci") / step.file, step.text); }
}

Binding binding_now(const std::string& address) {
  const auto now = read_binding(address);
  if (!now) { throw Error("look at " + address, ErrorCode::not_found, "there is no such PCI function"); }
  return *now;
}

std::string in_words(const Binding& binding) {
  return fmt::format("driver {}{}", binding.driver.empty() ? "none" : binding.driver,
                     binding.driver_override.empty() ? "" : ", override " + binding.driver_override);
}

/// A device that fell off the bus reads ones all over. The file `vendor` is a copy of what was read at boot;
/// the vendor's register alone says nothing, for of a virtual function it is all ones (PCI SR-IOV).
void see_that_it_answers(const std::string& address) {
  const auto config = read_file(pci_folder(address) / "config").value_or("");
  if (!config.empty() && config.find_first_not_of('\xff') == std::string::npos) {
    throw Error(
        "look at " + address, ErrorCode::io,
        "its configuration space reads ones: it fell off the bus (remove and rescan it, else switch the "
        "host off and on)");
  }
}

std::vector<DeviceUser> users_of(const std::string& address) {
  auto devices = read_devices("/", {address});
  find_users("/", devices);
  return devices.empty() ? std::vector<DeviceUser>() : devices[0].users;
}

void refuse_users(const std::string& address) {
  const auto users = users_of(address);
  if (!users.empty()) {
    throw Error("lend " + address, ErrorCode::busy, in_words(users[0]) + "; virtrain takes no device in use");
  }
}

/// QEMU may still be giving its memory back after its domain is gone.
void wait_until_released(const std::string& address) {
  const auto end = std::chrono::steady_clock::now() + release_deadline;
  while (true) {
    const auto users = users_of(address);
    if (users.empty()) { return; }
    if (std::chrono::steady_clock::now() > end) {
      throw Error("give back " + address, ErrorCode::busy, in_words(users[0]));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void see_binding(const std::string& address, const std::string& driver) {
  const auto now = bound_driver(address);
  if (now == driver) { return; }
  throw Error("bind " + address, ErrorCode::io,
              fmt::format("its driver is {} where {} was asked for (the kernel's log says why: dmesg)",
                          now.empty() ? "none" : now, driver.empty() ? "none" : driver));
}

void lend_binding(const std::string& address) {
  write_pci(steps_to_lend(address, binding_now(address)));
  see_binding(address, vfio_driver);
}

void give_back_binding(const Effect& effect) {
  const auto before = parse_binding(effect.state);
  auto now = binding_now(effect.name);
  if (now == before) { return; }
  wait_until_released(effect.name);
  write_pci(steps_to_give_back(effect.name, now, before));
  see_binding(effect.name, before.driver);
  see_that_it_answers(effect.name);
}

std::string binding_left(const Effect& effect) {
  const auto now = read_binding(effect.name);
  return now && !(*now == parse_binding(effect.state))
             ? fmt::format("{} (before: {})", in_words(*now), in_words(parse_binding(effect.state)))
             : "";
}

/// The kernel's persistence mode holds the device with no file open: unbinding would wait for ever (USE-2).
std::optional<PlannedEffect> no_persistence(const std::string& address) {
  if (bound_driver(address) != "nvidia") { return std::nullopt; }
  DeviceSettings wanted;
  wanted.persistence = false;
  return settings_effect(address, wanted);
}

void put_settings_back(const Effect& effect) {
  const auto change = parse_settings_change(effect.state);
  apply_settings(effect.name, change.before, change.wanted);
}

PlannedEffect binding_of(const std::string& address) {
  return {EffectKind::binding, address, to_json(binding_now(address)).dump()};
}

void load_vfio() {
  if (!fs::exists("/sys/bus/pci/drivers/vfio-pci")) { run_checked({"modprobe", "vfio-pci"}); }
}

}  // namespace

bool is_device_effect(EffectKind kind) {
  return kind >= EffectKind::service;
}

bool survives_reboot(EffectKind kind) {
  return kind == EffectKind::device_settings;
}

std::string device_of(const Effect& effect) {
  return effect.kind == EffectKind::mdev ? mdev_parent(effect.state) : effect.name;
}

std::vector<std::string> functions_to_bind(const std::string& address) {
  std::error_code missing;
  if (!fs::exists(pci_folder(address), missing)) {
    throw Error("lend " + address, ErrorCode::not_found, "there is no such PCI function");
  }
  std::vector<std::string> functions;
  for (const auto& entry : fs::directory_iterator(pci_folder(address) / "iommu_group/devices", missing)) {
    const auto member = entry.path().filename().string();
    const auto class_code = read_value(pci_folder(member) / "class").value_or("");
    if (!class_code.starts_with("0x06")) { functions.push_back(member); }
  }
  if (functions.empty()) {
    throw Error("lend " + address, ErrorCode::host_unable, "it is in no IOMMU group (doctor's IOM-1)");
  }
  std::sort(functions.begin(), functions.end());
  return functions;
}

PlannedEffect settings_effect(const std::string& address, const DeviceSettings& wanted) {
  return {EffectKind::device_settings, address, to_json_text({read_settings(address), wanted})};
}

std::vector<PlannedEffect> effects_of(const DeviceGrant& grant) {
  std::vector<PlannedEffect> effects;
  switch (grant.kind) {
    case GrantKind::mdev:
      effects.push_back(mdev_effect(grant));
      break;
    case GrantKind::vendor_vfio:
      effects.push_back(vgpu_type_effect(grant));
      break;
    case GrantKind::virtual_function:
    case GrantKind::passthrough:
      load_vfio();
      if (auto guids = guids_effect(grant)) { effects.push_back(std::move(*guids)); }
      if (auto settings = no_persistence(grant.address)) { effects.push_back(std::move(*settings)); }
      for (const auto& function : functions_to_bind(grant.address)) {
        refuse_users(function);
        effects.push_back(binding_of(function));
      }
  }
  return effects;
}

void do_device_effect(const PlannedEffect& effect) {
  switch (effect.kind) {
    case EffectKind::binding:
      return lend_binding(effect.name);
    case EffectKind::mdev:
      return make_mdev(effect.name, effect.state);
    case EffectKind::vgpu_type:
      return set_vgpu_type(effect.name, effect.state);
    case EffectKind::virtual_functions:
      return make_virtual_functions(effect.name, effect.state);
    case EffectKind::guids:
      return set_guids(effect.name, effect.state);
    case EffectKind::service:
      return stop_service(effect.name);
    case EffectKind::kvm_device:
      return open_kvm_device(effect.name, effect.state);
    case EffectKind::device_settings:
      return apply_settings(effect.name, parse_settings_change(effect.state).wanted);
    default:
      throw Error(std::string("do ") + to_string(effect.kind), ErrorCode::usage,
                  "that is no device's effect");
  }
}

std::string what_is_left(const Effect& effect) {
  switch (effect.kind) {
    case EffectKind::binding:
      return binding_left(effect);
    case EffectKind::mdev:
      return mdev_left(effect.name);
    case EffectKind::vgpu_type:
      return vgpu_type_left(effect.name, effect.state);
    case EffectKind::virtual_functions:
      return virtual_functions_left(effect.name, effect.state);
    case EffectKind::guids:
      return guids_left(effect.name, effect.state);
    case EffectKind::service:
      return service_left(effect.name);
    case EffectKind::kvm_device:
      return kvm_device_left(effect.name, effect.state);
    case EffectKind::device_settings:
      return "settings that may have changed";
    default:
      return "";
  }
}

void undo_device_effect(const Effect& effect) {
  switch (effect.kind) {
    case EffectKind::binding:
      return give_back_binding(effect);
    case EffectKind::mdev:
      return remove_mdev(effect.name);
    case EffectKind::vgpu_type:
      return clear_vgpu_type(effect.name, effect.state);
    case EffectKind::virtual_functions:
      return remove_virtual_functions(effect.name, effect.state);
    case EffectKind::guids:
      return clear_guids(effect.name, effect.state);
    case EffectKind::kvm_device:
      return close_kvm_device(effect.name, effect.state);
    case EffectKind::service:
      start_service(effect.name);
      return restore_power_limits(effect.state);
    case EffectKind::device_settings:
      return put_settings_back(effect);
    default:
      throw Error(std::string("undo ") + to_string(effect.kind), ErrorCode::usage,
                  "that is no device's effect");
  }
}

}  // namespace virtrain::vmctl
