#include "vmctl/resources/devices/binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "vmctl/api/pci.h"
#include "vmctl/devices/device_users.h"
#include "vmctl/devices/pci.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"
#include "vmctl/resources/kind/state.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds udev_patience{20};

std::string file_of(const std::string& address, const char* name) {
  return "devices/" + address + "/" + name;
}

void set_override(std::vector<PciWrite>& steps, const std::string& address, const std::string& driver) {
  steps.push_back({file_of(address, "driver_override"), driver + "\n"});  // a bare line end clears it
}

}  // namespace

std::optional<Binding> read_binding(const std::string& address) {
  const auto folder = pci_folder(address);
  if (!is_there(folder)) { return std::nullopt; }
  Binding binding{bound_driver(address), read_locked_value(folder / "driver_override").value_or(""),
                  read_value(folder / "d3cold_allowed").value_or("")};
  if (binding.driver_override == "(null)") { binding.driver_override.clear(); }
  return binding;
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

namespace {

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

}  // namespace

std::vector<DeviceUser> users_of(const std::string& address) {
  auto devices = read_devices("/", {address});
  find_users("/", devices);
  return devices.empty() ? std::vector<DeviceUser>() : devices[0].users;
}

namespace {

using Look = std::function<std::vector<DeviceUser>()>;

/// Who is still there once those alone who go by themselves were waited for.
std::vector<DeviceUser> users_after(const Look& look, bool (*goes)(const DeviceUser&),
                                    std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds pause{100};
  const auto end = std::chrono::steady_clock::now() + patience;
  auto users = look();
  while (!users.empty() && std::all_of(users.begin(), users.end(), goes) &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(pause);
    users = look();
  }
  return users;
}

/// QEMU may still be giving its memory back after its domain is gone.
void wait_until_released(const std::string& address) {
  const auto everybody = [](const DeviceUser&) { return true; };
  const auto users = users_after([&] { return users_of(address); }, everybody, release_deadline);
  if (!users.empty()) { throw Error("give back " + address, ErrorCode::busy, in_words(users[0])); }
}

void see_binding(const std::string& address, const std::string& driver) {
  const auto now = bound_driver(address);
  if (now == driver) { return; }
  throw Error("bind " + address, ErrorCode::io,
              fmt::format("its driver is {} where {} was asked for (the kernel's log says why: dmesg)",
                          now.empty() ? "none" : now, driver.empty() ? "none" : driver));
}

void load_vfio() {
  if (!is_there("/sys/bus/pci/drivers/vfio-pci")) { run_checked({"modprobe", "vfio-pci"}); }
}

void lend(const Effect& effect) {
  load_vfio();
  write_pci(steps_to_lend(effect.name, binding_now(effect.name)));
  see_binding(effect.name, vfio_driver);
}

void give_back(const Effect& effect) {
  const auto before = from_state<Binding>(effect.state);
  auto now = binding_now(effect.name);
  if (now == before) { return; }
  wait_until_released(effect.name);
  write_pci(steps_to_give_back(effect.name, now, before));
  see_binding(effect.name, before.driver);
  see_that_it_answers(effect.name);
}

std::string left(const Effect& effect) {
  const auto now = read_binding(effect.name);
  return now && !(*now == from_state<Binding>(effect.state))
             ? fmt::format("{} (before: {})", in_words(*now), in_words(from_state<Binding>(effect.state)))
             : "";
}

/// Without the journal nobody can tell who lent one, so these are only shown.
void find_foreign(Search& search) {
  for (const auto& entry : entries_of("/sys/bus/pci/drivers/vfio-pci")) {
    const auto name = entry.filename().string();
    if (name.starts_with("0") && !search.is_journalled(name)) {
      search.add_foreign({EffectKind::binding, name, "", "bound to vfio-pci, not by virtrain"});
    }
  }
}

}  // namespace

std::vector<DeviceUser> users_that_stay(const std::function<std::vector<DeviceUser>()>& look,
                                        std::chrono::milliseconds patience) {
  const auto is_udev = [](const DeviceUser& user) {
    return user.process == "(udev-worker)" || user.process == "systemd-udevd";
  };
  return users_after(look, is_udev, patience);
}

void refuse_users(const std::string& address) {
  const auto users = users_that_stay([&] { return users_of(address); }, udev_patience);
  if (!users.empty()) {
    throw Error("assign " + address, ErrorCode::busy,
                in_words(users[0]) + "; virtrain takes no device in use");
  }
}

namespace {

/// Every function that goes to a VM together: those of the IOMMU group, bridges aside.
std::vector<std::string> functions_to_bind(const std::string& address) {
  if (!is_there(pci_folder(address))) {
    throw Error("assign " + address, ErrorCode::not_found, "there is no such PCI function");
  }
  std::vector<std::string> functions;
  for (const auto& entry : entries_of(pci_folder(address) / "iommu_group/devices")) {
    const auto member = entry.filename().string();
    const auto class_code = read_value(pci_folder(member) / "class").value_or("");
    if (!class_code.starts_with("0x06")) { functions.push_back(member); }
  }
  if (functions.empty()) {
    throw Error("assign " + address, ErrorCode::host_unable, "it is in no IOMMU group (doctor's IOM-1)");
  }
  return functions;
}

std::vector<Effect> plan(const DeviceGrant& grant) {
  std::vector<Effect> effects;
  if (is_made_for_each_vm(grant)) { return effects; }
  for (const auto& function : functions_to_bind(grant.address)) {
    refuse_users(function);
    effects.push_back(
        {.kind = EffectKind::binding, .name = function, .state = to_state(binding_now(function))});
  }
  return effects;
}

}  // namespace

const Handler binding_handler{.kind = EffectKind::binding,
                              .find = find_foreign,
                              .plan = plan,
                              .make = lend,
                              .left = left,
                              .undo = give_back,
                              .device = named_device};

}  // namespace virtrain::vmctl
