#include <array>
#include <set>

#include "vmctl/doctor/checks/tables.h"

namespace virtrain::vmctl {
namespace {

bool has_vgpu_driver(const DeviceHost& host) {
  return exists(host, "sys/module/nvidia_vgpu_vfio");
}

bool carries_vgpus(const HostDevice& device) {
  return device.mechanism == Mechanism::mdev || device.mechanism == Mechanism::vendor_vfio;
}

std::vector<DeviceGrant> vgpus_wanted(const DeviceHost& host) {
  std::vector<DeviceGrant> wanted;
  if (!host.demand) { return wanted; }
  for (const auto& device : host.demand->devices()) {
    if (is_made_for_each_vm(device.grant)) { wanted.push_back(device.grant); }
  }
  return wanted;
}

/// Whether a plan wants vGPUs; without one, whether the host's GPUs carry them or could.
constexpr const char* vgpus = "a scenario wants vGPUs, or the host's driver makes them";
bool is_about_vgpus(const DeviceHost& host) {
  if (host.demand) { return !vgpus_wanted(host).empty(); }
  const auto gpus = host.gpus();
  return std::ranges::any_of(gpus, [&](const auto* gpu) {
    return carries_vgpus(*gpu) || (gpu->mechanism == Mechanism::undecided && has_vgpu_driver(host));
  });
}

constexpr const char* nvidia_vgpus = "vGPUs of NVIDIA's are wanted or made";
bool is_about_nvidia_vgpus(const DeviceHost& host) {
  const auto gpus = host.gpus();
  return is_about_vgpus(host) &&
         std::ranges::any_of(gpus, [](const auto* gpu) { return gpu->function.vendor == nvidia; });
}

CheckAnswer manager_runs(const DeviceHost& host) {
  Words wrong;
  const auto gpus = host.gpus();
  const bool offers = std::ranges::any_of(gpus, [](const auto* gpu) { return carries_vgpus(*gpu); });
  if (!has_vgpu_driver(host) && !offers) {
    wrong.emplace_back("the driver is not that of a vGPU host (no module nvidia_vgpu_vfio)");
  }
  if (processes_named(host, {"nvidia-vgpu-mgr"}).empty()) {
    wrong.emplace_back("nvidia-vgpu-mgr does not run");
  }
  return none_of(
      wrong, "the vGPU host driver is loaded and its manager runs",
      "install NVIDIA's driver for vGPU hosts (the usual one offers no vGPUs); systemctl enable --now "
      "nvidia-vgpud nvidia-vgpu-mgr");
}

CheckAnswer mechanism_is_the_planned(const DeviceHost& host) {
  Words wrong;
  for (const auto& grant : vgpus_wanted(host)) {
    const auto planned = grant.kind == GrantKind::mdev ? Mechanism::mdev : Mechanism::vendor_vfio;
    const auto* device = host.find(grant.address);
    if (device == nullptr) {
      wrong.push_back(grant.address + " is not there");
    } else if (device->mechanism != planned) {
      wrong.push_back(fmt::format("{} offers {}, not {}", grant.address, to_string(device->mechanism),
                                  to_string(planned)));
    }
  }
  if (!host.demand) {
    wrong = each(host.gpus(), [](const HostDevice& gpu) {
      return gpu.mechanism == Mechanism::undecided ? "has its virtual functions off" : "";
    });
  }
  return none_of(
      wrong, host.demand ? "every device offers what is planned" : "no GPU hides what it offers",
      "/usr/lib/nvidia/sriov-manage -e CARD, after every start of the host and before its VMs; look at "
      "the virtual functions, where newer hosts (Linux 6.8 on) have vGPUs in place of mediated devices");
}

/// How many vGPUs of a type a parent can still make; nothing where it does not offer it.
std::optional<int> left_of(const HostDevice& parent, const std::string& type) {
  for (const auto& offered : parent.vgpu_types) {
    if (offered.id == type || offered.name == type) { return offered.available_instances.value_or(1); }
  }
  return std::nullopt;
}

CheckAnswer types_can_be_made(const DeviceHost& host) {
  Words lacking;
  std::map<std::pair<std::string, std::string>, int> wanted;
  for (const auto& grant : vgpus_wanted(host)) { ++wanted[{grant.address, grant.vgpu_type}]; }
  for (const auto& [what, count] : wanted) {
    const auto& [address, type] = what;
    const auto* parent = host.find(address);
    const int left = parent == nullptr ? 0 : left_of(*parent, type).value_or(0);
    if (left < count) {
      lacking.push_back(fmt::format("{} can make {} of type {}, {} wanted", address, left, type, count));
    }
  }
  if (!host.demand) {
    const auto gpus = host.gpus();
    const bool any = std::ranges::any_of(gpus, [](const auto* gpu) {
      const auto& types = gpu->vgpu_types;
      return std::ranges::any_of(types,
                                 [](const auto& type) { return type.available_instances.value_or(1) > 0; });
    });
    if (!any) { lacking.emplace_back("no GPU can make a vGPU of any type"); }
  }
  return none_of(
      lacking, host.demand ? "the types can be made" : "there is room for vGPUs",
      "a vGPU of another size is on the card, MIG mode is not as the type needs it, or no GPU instance is "
      "left (nvidia-smi vgpu -c, nvidia-smi mig -lgi)");
}

bool tells_mig(const DeviceHost& host) {
  return any_report(host.gpus(), host,
                    [](const GpuReport& report) { return report.mig && report.mig_pending; });
}

CheckAnswer mig_is_settled(const DeviceHost& host) {
  const auto word = [](bool on) { return on ? "on" : "off"; };
  const auto offenders = each_report(host.gpus(), host, [&](const GpuReport& report) -> std::string {
    if (report.mig == report.mig_pending) { return ""; }
    return fmt::format("has MIG {}, {} after the next reset", word(report.mig.value_or(false)),
                       word(report.mig_pending.value_or(false)));
  });
  return none_of(offenders, "no GPU waits for a reset to change its MIG mode",
                 "nvidia-smi -i ADDRESS -r, or restart the host (in a VM: restart the VM)");
}

/// "NVIDIA L40S-24C", and "GRID V100D-8C": 24 and 8 GiB of framebuffer. Types by number have their name from
/// the device that offers them.
std::string size_of(const DeviceHost& host, const DeviceGrant& grant) {
  std::string name = grant.vgpu_type;
  if (const auto* device = host.find(grant.address)) {
    for (const auto& type : device->vgpu_types) {
      if (type.id == grant.vgpu_type) { name = type.name; }
    }
  }
  const auto dash = name.rfind('-');
  return dash == std::string::npos ? name : name.substr(dash + 1);
}

/// Cards with vGPUs of several sizes in the plan.
std::set<std::string> mixed_cards(const DeviceHost& host) {
  std::map<std::string, std::set<std::string>> sizes;
  for (const auto& grant : vgpus_wanted(host)) { sizes[card_of(grant)].insert(size_of(host, grant)); }
  std::set<std::string> mixed;
  for (const auto& [card, of_card] : sizes) {
    if (of_card.size() > 1) { mixed.insert(card); }
  }
  return mixed;
}

bool wants_sizes(const DeviceHost& host) {
  return !vgpus_wanted(host).empty() && any_report(host.gpus(), host, [](const GpuReport& report) {
    return report.mixed_vgpu_sizes.has_value();
  });
}

CheckAnswer sizes_are_allowed(const DeviceHost& host) {
  const auto mixed = mixed_cards(host);
  const auto offenders = each(host.gpus(), [&](const HostDevice& gpu) -> std::string {
    const auto* report = host.report_on(gpu);
    const auto& pci = gpu.function;
    const bool wanted = mixed.contains(pci.physical_function.empty() ? pci.address : pci.physical_function);
    if (report == nullptr || !report->mixed_vgpu_sizes || *report->mixed_vgpu_sizes == wanted) { return ""; }
    return wanted ? "is to carry vGPUs of several sizes, and its mode for that is off"
                  : "is in the mode for vGPUs of several sizes, which the plan does not need";
  });
  return none_of(offenders, mixed.empty() ? "vGPUs of one size a card" : "vGPUs of several sizes are allowed",
                 "nvidia-smi vgpu -i N -shm 1 (or 0), after sriov-manage and before any vGPU is made");
}

/// Time slices; a MIG-backed vGPU has its part of the card to itself.
bool has_time_slices(const DeviceHost& host) {
  return is_about_nvidia_vgpus(host) && host.words.kernel_log;
}

CheckAnswer scheduler_is_known(const DeviceHost& host) {
  if (host.demand && host.demand->vgpu_scheduler) {
    return none_of(Words(), fmt::format("the scenario sets {}", to_string(*host.demand->vgpu_scheduler)), "");
  }
  Words known;
  const auto policies = vgpu_schedulers(host.words.kernel_log.value_or(""));
  const auto offenders = each(host.gpus(), [&](const HostDevice& gpu) -> std::string {
    const auto& pci = gpu.function;
    const auto card = pci.physical_function.empty() ? pci.address : pci.physical_function;
    const auto policy = policies.find(card);
    if (policy == policies.end()) { return "does not tell how it shares its time"; }
    known.push_back(card + " " + policy->second);
    return "";
  });
  return none_of(offenders, join(known, ", "),
                 "set devices.vgpu_scheduler in the scenario, or RmPVMRL in /etc/modprobe.d "
                 "(NVreg_RegistryDwords=\"RmPVMRL=0x01\": equal share) and restart; nvidia-smi vgpu -ss "
                 "shows it. Under best effort a tenant alone gets everything");
}

/// Plugin parameters of vGPUs that exist, by device.
Words vgpu_parameters(const DeviceHost& host) {
  Words set;
  const auto look = [&](const std::string& device, const std::filesystem::path& folder) {
    const auto text = read_value(folder / "nvidia/vgpu_params").value_or("");
    if (!text.empty()) { set.push_back(device + " " + text); }
  };
  for (const auto* gpu : host.gpus()) { look(gpu->function.address, gpu->function.folder); }
  for (const auto& uuid : names_in(host, "sys/bus/mdev/devices")) {
    look(uuid, host.root / "sys/bus/mdev/devices" / uuid);
  }
  return set;
}

CheckAnswer parameters_are_default(const DeviceHost& host) {
  return none_of(
      vgpu_parameters(host), "vGPUs have their default parameters",
      "say so next to the figures (frame_rate_limiter, enable_uvm, enable_profiling); a blank written "
      "to vgpu_params clears them");
}

}  // namespace

std::span<const DeviceCheck> vgpu_checks() {
  static constexpr std::array checks = {
      DeviceCheck{"VG-1", Severity::blocks, "NVIDIA's vGPU host driver is loaded and its manager runs",
                  nvidia_vgpus, is_about_nvidia_vgpus, manager_runs},
      DeviceCheck{
          "VG-2", Severity::blocks,
          "the card makes vGPUs by the mechanism that the plan expects, with its virtual functions on", vgpus,
          is_about_vgpus, mechanism_is_the_planned},
      DeviceCheck{"VG-3", Severity::blocks, "the planned vGPU types can be made", vgpus, is_about_vgpus,
                  types_can_be_made},
      DeviceCheck{"VG-4", Severity::blocks, "no GPU waits for a reset to change its MIG mode",
                  "nvidia-smi tells the MIG mode of a GPU", tells_mig, mig_is_settled},
      DeviceCheck{"VG-5", Severity::blocks, "the card allows vGPUs of the planned sizes together",
                  "a scenario wants vGPUs, and nvidia-smi tells whether sizes may be mixed", wants_sizes,
                  sizes_are_allowed},
      DeviceCheck{"VG-6", Severity::invalidates, "the scheduler by which vGPUs share time is known",
                  "NVIDIA's vGPUs share time, and we may read the kernel's log", has_time_slices,
                  scheduler_is_known},
      DeviceCheck{"VG-7", Severity::notes, "vGPUs have their default parameters", nvidia_vgpus,
                  is_about_nvidia_vgpus, parameters_are_default},
  };
  return checks;
}

}  // namespace virtrain::vmctl
