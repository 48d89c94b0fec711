#include <array>
#include <set>
#include <string>
#include <vector>

#include "vmctl/devices/device_users.h"
#include "vmctl/doctor/checks/tables.h"
#include "vmctl/doctor/findings/device_host.h"
#include "vmctl/resources/devices/clearing.h"
#include "vmctl/resources/devices/host_services.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// Nodes below /dev/vfio that a process has open: a VM's devices.
std::set<std::string> open_groups(const DeviceHost& host) {
  std::set<std::string> open;
  for (const auto& pid : names_in(host, "proc")) {
    if (pid.find_first_not_of("0123456789") != std::string::npos) { continue; }
    const auto folder = fs::path("proc") / pid / "fd";
    for (const auto& descriptor : names_in(host, folder)) {
      std::error_code failure;
      const auto target = fs::read_symlink(host.root / folder / descriptor, failure).string();
      if (!failure && target.starts_with("/dev/vfio/")) { open.insert(target); }
    }
  }
  return open;
}

bool is_held(const fs::path& device, const std::set<std::string>& open) {
  const auto nodes = vfio_nodes(device);
  return std::ranges::any_of(nodes, [&](const auto& node) { return open.contains(node); });
}

bool matters(const DeviceHost& host, const std::string& address) {
  if (!host.demand) { return true; }
  const auto devices = host.devices();
  return std::ranges::any_of(devices, [&](const auto* device) {
    return device->function.address == address || device->function.physical_function == address;
  });
}

void look_at_binding(const DeviceHost& host, const PciFunction& pci, const std::set<std::string>& open,
                     Words& leaks) {
  if (pci.driver_override.empty() || exists(host, "etc/driverctl.d/" + pci.address)) { return; }
  if (pci.driver != pci.driver_override) {
    leaks.push_back(fmt::format("{} has driver_override {} but {}: its binding was cut off", pci.address,
                                pci.driver_override,
                                pci.driver.empty() ? "no driver" : "is on " + pci.driver));
  } else if (pci.driver == "vfio-pci" && !is_held(pci.folder, open)) {
    leaks.push_back(fmt::format("{} is bound to vfio-pci and no process has it", pci.address));
  }
}

void look_at_vgpu(const DeviceHost& host, const PciFunction& pci, const std::set<std::string>& open,
                  Words& leaks) {
  const auto type = read_value(pci.folder / "nvidia/current_vgpu_type").value_or("0");
  if (type != "0" && !is_held(pci.folder, open) && !host.is_leased(pci.physical_function)) {
    leaks.push_back(fmt::format("{} is a vGPU of type {} and no process has it", pci.address, type));
  }
}

/// /etc/mdevctl.d/PARENT/UUID: defined, to be there whether or not a VM runs.
bool is_defined(const DeviceHost& host, const std::string& uuid) {
  const auto parents = names_in(host, "etc/mdevctl.d");
  return std::ranges::any_of(
      parents, [&](const auto& parent) { return exists(host, fs::path("etc/mdevctl.d") / parent / uuid); });
}

void look_at_mdevs(const DeviceHost& host, const std::set<std::string>& open, Words& leaks) {
  for (const auto& uuid : names_in(host, "sys/bus/mdev/devices")) {
    const auto device = host.root / "sys/bus/mdev/devices" / uuid;
    std::error_code ignored;
    const auto parent = fs::canonical(device, ignored).parent_path().filename().string();
    if (!is_held(device, open) && !is_defined(host, uuid) && matters(host, parent) && !host.is_leased(uuid) &&
        !host.is_leased(parent)) {
      leaks.push_back(fmt::format("mediated device {} of {} exists and no process has it", uuid, parent));
    }
  }
}

/// Devices (of those that matter) that are still set up for a VM while no process has them and no live run
/// holds them, a sentence each. Read from sysfs and /proc, whatever the journal says. What the host's
/// administrator keeps so on purpose (driverctl, mdevctl) is none.
std::vector<std::string> device_leaks(const DeviceHost& host) {
  Words leaks;
  const auto open = open_groups(host);
  for (const auto* list : {&host.inventory.devices, &host.inventory.other_devices}) {
    for (const auto& device : *list) {
      const auto& pci = device.function;
      if (host.is_leased(pci.address) || !matters(host, pci.address)) { continue; }
      look_at_binding(host, pci, open, leaks);
      look_at_vgpu(host, pci, open, leaks);
    }
  }
  look_at_mdevs(host, open, leaks);
  return leaks;
}

bool is_vfio(const std::string& driver) {
  return driver.empty() || driver == "vfio-pci" || driver == "pci-stub";
}

std::string driver_of(const DeviceHost& host, const std::string& address) {
  return link_name(sysfs(host, address) / "driver");
}

CheckAnswer groups_let_go_together(const DeviceHost& host) {
  const auto offenders = each(host.devices(), [&](const HostDevice& device) -> std::string {
    if (device.function.driver != "vfio-pci") { return ""; }
    Words held;
    for (const auto& member : device.function.iommu_group_members) {
      if (const auto driver = driver_of(host, member); !is_vfio(driver) && !is_bridge(host, member)) {
        held.push_back(fmt::format("{} on {}", member, driver));
      }
    }
    return held.empty() ? "" : "is on vfio-pci, but of its group " + join(held, ", ");
  });
  return none_of(offenders, "no group is half assigned",
                 "bind the card's audio and USB functions to vfio-pci as well (QEMU: group is not viable)");
}

CheckAnswer no_override_is_left(const DeviceHost& host) {
  Words offenders;
  for (const auto* list : {&host.inventory.devices, &host.inventory.other_devices}) {
    for (const auto& device : *list) {
      const auto& pci = device.function;
      if (!pci.driver_override.empty() && !host.is_leased(pci.address)) {
        offenders.push_back(fmt::format("{} has driver_override {}", pci.address, pci.driver_override));
      }
    }
  }
  return none_of(offenders, "no driver_override is set",
                 "nobody holds it: echo > /sys/bus/pci/devices/ADDRESS/driver_override, then reprobe");
}

/// "vfio-pci.ids=10de:20f1" on the command line, "options vfio-pci ids=…" in modprobe's files, or a function
/// that vfio-pci took without being told its address.
CheckAnswer vfio_takes_no_models(const DeviceHost& host) {
  Words offenders;
  const auto command_line = value(host, "proc/cmdline");
  for (const auto word : words_of(command_line)) {
    if (word.starts_with("vfio-pci.ids=") || word.starts_with("vfio_pci.ids=")) {
      offenders.push_back(fmt::format("{} on the kernel's command line", word));
    }
  }
  for (const auto& file : names_in(host, "etc/modprobe.d")) {
    for (const auto& line : split(read_file(host.root / "etc/modprobe.d" / file).value_or(""), '\n')) {
      const auto words = words_of(line);
      if (words.size() > 2 && words[0] == "options" && (words[1] == "vfio-pci" || words[1] == "vfio_pci") &&
          line.find("ids=") != std::string::npos) {
        offenders.push_back(fmt::format("\"{}\" in /etc/modprobe.d/{}", trim(line), file));
      }
    }
  }
  for (const auto& line : each(host.devices(), [](const HostDevice& device) {
         const auto& pci = device.function;
         return pci.driver == "vfio-pci" && pci.driver_override.empty() ? "is on vfio-pci by its model" : "";
       })) {
    offenders.push_back(line);
  }
  return none_of(offenders, "vfio-pci takes no device by its model",
                 "remove the ids: they take every GPU of that model at every start, also from the host's own "
                 "arm; virtrain binds by address (driver_override)");
}

/// Functions of GPUs' cards that play sound on the host, a sentence each.
Words sound_on(const DeviceHost& host) {
  return each(host.gpus(), [&](const HostDevice& gpu) -> std::string {
    for (const auto& member : gpu.function.iommu_group_members) {
      if (driver_of(host, member) == "snd_hda_intel") {
        return "has its audio function " + member + " on snd_hda_intel";
      }
    }
    return "";
  });
}

CheckAnswer no_desktop_driver(const DeviceHost& host) {
  const auto offenders = each(host.gpus(), [](const HostDevice& gpu) -> std::string {
    if (gpu.function.driver == "nouveau") { return "is on nouveau"; }
    return read_value(gpu.function.folder / "boot_vga") == "1" ? "carries the host's console" : "";
  });
  if (const auto sound = sound_on(host); offenders.empty() && !sound.empty()) {
    return {join(sound, "; "),
            "blacklist snd_hda_intel where the host plays no sound: a mixer that has it open keeps the card "
            "from being assigned",
            Severity::warns};
  }
  return none_of(offenders, "no GPU is on nouveau, plays sound or carries the console",
                 "blacklist nouveau and rebuild the initramfs; give the console another adapter (firmware "
                 "setting, or video=efifb:off)");
}

CheckAnswer nobody_uses_them(const DeviceHost& host) {
  Words kept_away;
  const auto offenders = each(host.rebound(), [&](const HostDevice& device) -> std::string {
    Words users;
    for (const auto& user : device.users) {
      const auto name = user.pid == 0 ? user.process : fmt::format("{} (pid {})", user.process, user.pid);
      (is_service_that_grabs_gpus(host.root, user.pid) ? kept_away : users).push_back(name);
    }
    return users.empty() ? "" : "is in use: " + join(users, ", ");
  });
  const auto well = kept_away.empty() ? "nothing uses a device"
                                      : join(kept_away, ", ") + ": stopped for a run, and started again";
  return none_of(offenders, well,
                 "stop it, unmount it, take the interface down; unbinding a device in use waits for ever or "
                 "takes a disk from under its files");
}

bool tells_persistence(const DeviceHost& host) {
  return any_report(host.rebound(), host,
                    [](const GpuReport& report) { return report.persistence.has_value(); });
}

CheckAnswer persistence_is_off(const DeviceHost& host) {
  const bool by_daemon = !processes_named(host, {"nvidia-persiste"}).empty();  // a name has 15 characters
  const auto offenders = each_report(host.rebound(), host, [&](const GpuReport& report) -> std::string {
    return report.persistence.value_or(false) && !by_daemon ? "is kept open by the kernel (persistence mode)"
                                                            : "";
  });
  return none_of(offenders,
                 by_daemon ? "kept by nvidia-persistenced, which a run stops" : "persistence mode is off",
                 "nvidia-smi -i ADDRESS -pm 0; no process shows it, and unbinding waits for it for ever");
}

bool has_rebound_and_log(const DeviceHost& host) {
  return has_rebound(host) && host.words.kernel_log;
}

/// While the driver's remove callback waits, the function has no driver link any more; once it has come
/// through, there is one again.
CheckAnswer no_unbind_is_stuck(const DeviceHost& host) {
  const auto offenders = each(host.devices(), [&](const HostDevice& device) -> std::string {
    const auto& pci = device.function;
    const auto stuck =
        log_lines(host, {"Attempting to remove device " + pci.address, "non-zero usage count"});
    return !stuck.empty() && pci.driver.empty() ? "is being unbound and its driver does not let go" : "";
  });
  return none_of(offenders, "no driver hangs while it is unbound",
                 "stop who has the GPU open; where nobody has, its count has leaked and only a reboot helps");
}

bool wipes(const HostDevice& device) {
  const auto& methods = device.function.reset_methods;
  return std::ranges::any_of(methods, [](const auto& method) { return method == "flr" || method == "bus"; });
}

/// The check only warns about a device of a class that is not lent for training.
CheckAnswer they_can_be_reset(const DeviceHost& host) {
  bool blocks = false;
  const auto offenders = each(host.rebound(), [&](const HostDevice& device) -> std::string {
    if (wipes(device)) { return ""; }
    const auto& methods = device.function.reset_methods;
    blocks = blocks || device.device_class != DeviceClass::other;
    return methods.empty() ? "has no reset method" : "resets by " + join(methods, " ") + " only";
  });
  auto answer = none_of(offenders, "every device resets by flr or bus",
                        "not to be assigned: a tenant's data could stay in it for the next one");
  if (!offenders.empty() && !blocks) { answer.severity = Severity::warns; }
  return answer;
}

bool clears_devices(const DeviceHost& host) {
  const auto wanted = host.demand ? host.demand->devices() : std::vector<PlacedDevice>();
  return std::ranges::any_of(
      wanted, [](const auto& one) { return one.grant.between_tenants != BetweenTenants::none; });
}

CheckAnswer they_can_be_cleared(const DeviceHost& host) {
  Words offenders, well;
  for (const auto& [grant, device] : host.wanted()) {
    if (grant.between_tenants == BetweenTenants::none) { continue; }
    const auto why = cannot_be_cleared(grant.between_tenants, grant.kind, device->function);
    const bool erases = grant.between_tenants == BetweenTenants::erase;
    if (!why.empty()) {
      offenders.push_back(
          fmt::format("{} cannot be {}: {}", grant.address, erases ? "erased" : "reset", why));
    } else {
      well.push_back(fmt::format("{} is {} before each VM that gets it", grant.address,
                                 erases ? "overwritten with zeros" : "reset"));
    }
  }
  return none_of(offenders, join(well, "; "),
                 "use another devices.between_tenants, or leave this device out by devices.select");
}

/// Devices of any class that answer with ones only, which no plan wants.
Words dead_devices(const DeviceHost& host) {
  Words dead;
  for (const auto& other : host.inventory.other_devices) {
    if (!other.function.is_dead()) { continue; }
    dead.push_back(fmt::format("{} ({}) answers with ones only, lost after a reset or from the bus",
                               other.function.address, other.name));
  }
  return dead;
}

bool may_be_lost(const DeviceHost& host) {
  return has_devices(host) || (!host.demand && !dead_devices(host).empty());
}

CheckAnswer they_are_awake(const DeviceHost& host) {
  const auto offenders = each(host.devices(), [](const HostDevice& device) -> std::string {
    if (device.function.power_state == "D3cold") { return "is in D3cold"; }
    return device.function.is_dead() ? "answers with ones only" : "";
  });
  auto answer =
      none_of(offenders, "every device answers",
              "remove and rescan it, else switch the host off and on; then write 0 to its d3cold_allowed");
  if (host.demand || !offenders.empty()) { return answer; }
  const auto dead = dead_devices(host);
  if (dead.empty()) { return answer; }
  return {join(dead, "; "), "switch the host off and on; where VFIO's reset did it, pass this card to no VM",
          Severity::warns};
}

CheckAnswer nothing_is_left(const DeviceHost& host) {
  return none_of(device_leaks(host), "no binding or vGPU is left over",
                 "virtrain clean gives back what was a run's; what is not, its owner (echo 1 > "
                 "/sys/bus/mdev/devices/UUID/remove, 0 to current_vgpu_type, a newline to driver_override)");
}

CheckAnswer nothing_is_in_quarantine(const DeviceHost& host) {
  const auto offenders = each(host.devices(), [&](const HostDevice& device) -> std::string {
    const auto found = host.quarantined.find(device.function.address);
    return found == host.quarantined.end() ? "" : "is in quarantine: " + found->second;
  });
  return none_of(offenders, "no device is in quarantine",
                 "it did not come back as it was assigned: look at it, fix it, then virtrain clean "
                 "--lift-quarantine ADDRESS");
}

}  // namespace

std::span<const DeviceCheck> driver_checks() {
  static constexpr std::array checks = {
      DeviceCheck{"DRV-1", Severity::blocks,
                  "all functions of a device's IOMMU group are on vfio-pci, or none is", when_devices,
                  has_devices, groups_let_go_together},
      DeviceCheck{"DRV-2", Severity::warns, "no driver_override is left on a device", when_devices,
                  has_devices, no_override_is_left},
      DeviceCheck{"DRV-3", Severity::warns, "vfio-pci takes no device by its model (vfio-pci.ids)",
                  when_devices, has_devices, vfio_takes_no_models},
      DeviceCheck{"DRV-4", Severity::blocks, "no GPU runs nouveau, plays sound or carries the host's console",
                  when_gpus, has_gpus, no_desktop_driver},
      DeviceCheck{"USE-1", Severity::blocks, "no process uses a device that a VM is to get", when_rebound,
                  has_rebound, nobody_uses_them},
      DeviceCheck{"USE-2", Severity::blocks, "the kernel's persistence mode keeps no GPU open",
                  "nvidia-smi tells the persistence mode of a GPU to be rebound", tells_persistence,
                  persistence_is_off},
      DeviceCheck{"USE-3", Severity::blocks, "no driver hangs while it lets a device go",
                  "a device is to be rebound, and we may read the kernel's log", has_rebound_and_log,
                  no_unbind_is_stuck},
      DeviceCheck{"RST-1", Severity::blocks, "each device can be reset by FLR or bus reset between tenants",
                  when_rebound, has_rebound, they_can_be_reset},
      DeviceCheck{"CLR-1", Severity::blocks, "each device can be cleared between tenants as the plan says",
                  "a plan clears devices between tenants", clears_devices, they_can_be_cleared},
      DeviceCheck{"RST-2", Severity::blocks, "each device answers: none is in D3cold or lost from the bus",
                  "there are GPUs, a scenario names devices, or any device is lost", may_be_lost,
                  they_are_awake, "amd/MxGPU-Virtualization#25"},
      DeviceCheck{"QRT-0", Severity::blocks, "no device is in quarantine", when_devices, has_devices,
                  nothing_is_in_quarantine},
      DeviceCheck{"LEAK-1", Severity::blocks, "no binding and no vGPU is left over from earlier runs",
                  when_devices, has_devices, nothing_is_left},
  };
  return checks;
}

}  // namespace virtrain::vmctl
