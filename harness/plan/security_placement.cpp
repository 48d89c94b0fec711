#include "harness/plan/security_placement.h"

#include <algorithm>

#include "harness/plan/devices/device_slots.h"
#include "harness/plan/node_group.h"
#include "harness/plan/placer.h"

namespace virtrain::harness {
namespace {

constexpr std::uint64_t mirror_bytes = std::uint64_t{768} << 20, cloud_bytes = std::uint64_t{1} << 30;

/// As tenants' VMs are: those of the first arm with VMs, but small.
Guest small_guest(const Scenario& scenario) {
  const auto arm = std::ranges::find(scenario.arms, arm_vm, &Arm::base);
  const auto& like = arm == scenario.arms.end() || arm->cases.empty() ? scenario.guest : arm->cases[0].guest;
  Guest guest{.image = like.image, .vcpus = 1};
  guest.memory_encryption = like.memory_encryption;
  guest.memory_bytes = guest.is_mirror() ? mirror_bytes : cloud_bytes;
  return guest;
}

/// Without ranks, as idle neighbours are.
Tenant tenant_of(const std::string& name, std::int64_t nodes) {
  Tenant tenant;
  tenant.name = name;
  tenant.nodes = nodes;
  tenant.ranks_per_node = 0;
  tenant.neighbour = Neighbour{"", 1, Share::host};
  return tenant;
}

/// Two tenants, of which the second has a node more to talk to.
Case security_case(const Scenario& scenario) {
  return {"security", {}, {tenant_of("tenant-a", 1), tenant_of("tenant-b", 2)}, small_guest(scenario), {}};
}

/// The scenario's devices, with only the settings that VMs need to have them.
Devices plain_devices(const Scenario& scenario) {
  auto devices = scenario.devices;
  devices.nics.reset();
  devices.settings = {};
  devices.licence_token.clear();
  return devices;
}

/// One VM with one of the scenario's devices, and nothing else of these.
Case device_memory_case(const Scenario& scenario) {
  auto tenant = tenant_of("tenant", 1);
  tenant.gpus_per_node = 1;
  tenant.vgpu_type = scenario.devices.vgpu_type;
  for (const auto& one : scenario.cases) {
    for (const auto& other : one.tenants) {
      if (tenant.vgpu_type.empty()) { tenant.vgpu_type = other.vgpu_type; }
    }
  }
  return {"device-memory", {}, {std::move(tenant)}, small_guest(scenario), plain_devices(scenario)};
}

/// Memory that a tenant fills through the device's regions. NVIDIA's are windows of their driver's.
bool has_memory(const vmctl::PlacedDevice& device) {
  return device.vendor != vmctl::nvidia && std::any_of(device.bars.begin(), device.bars.end(),
                                                       [](const auto& bar) { return bar.is_prefetchable; });
}

/// The engine's, one beside it and one that is another tenant's.
constexpr std::size_t most_peers = 3;

/// A tenant whose device may have an engine, with a device with memory beside it where there
/// are two such, and a tenant with the other one. Nothing: there is no engine. Devices: the engine's, its
/// tenant's other one, the other tenant's. GPUs are offered before other devices, so theirs is the engine.
std::optional<Placement> place_peers(const Scenario& scenario, const vmctl::Inventory& inventory,
                                     Placer& placer) {
  if (scenario.devices.kind != DeviceKind::passthrough) { return std::nullopt; }
  const auto offer = offered_devices(scenario.devices, "", inventory, true);
  const auto engine = std::find_if(offer.slots.begin(), offer.slots.end(),
                                   [](const auto& slot) { return may_have_engine(slot.device); });
  if (engine == offer.slots.end()) { return std::nullopt; }
  std::vector<DeviceSlot> chosen{*engine};
  for (const auto& slot : offer.slots) {
    const auto is_of_one_group = [&](const auto& one) { return one.iommu_group == slot.iommu_group; };
    if (chosen.size() < most_peers && has_memory(slot.device) && !may_have_engine(slot.device) &&
        std::none_of(chosen.begin(), chosen.end(), is_of_one_group)) {
      chosen.push_back(slot);
    }
  }
  Case wanted{"device-peer", {}, {tenant_of("tenant-b", 1)}, small_guest(scenario), plain_devices(scenario)};
  wanted.tenants[0].gpus_per_node = chosen.size() == most_peers ? 2 : 1;
  if (chosen.size() > 1) {
    wanted.tenants.push_back(tenant_of("tenant-a", 1));
    wanted.tenants[1].gpus_per_node = 1;
  }
  wanted.devices.select = {};
  for (const auto& one : chosen) { wanted.devices.select.addresses.push_back(one.device.grant.address); }
  auto placement = placer.place(wanted, true);
  // Which of these is whose is not a question of topology here.
  auto next = chosen.begin();
  for (auto& tenant : placement.tenants) {
    for (auto& device : tenant.nodes[0].devices) { device = (next++)->device; }
  }
  return placement;
}

}  // namespace

bool may_have_engine(const vmctl::PlacedDevice& device) {
  return device.has_no_class || (device.vendor == vmctl::nvidia && device.is_display);
}

void place_security(const Scenario& scenario, const vmctl::Inventory& inventory, bool emulated, Plan& plan,
                    std::vector<Lack>& problems, std::vector<Lack>& busy) {
  if (!scenario.security) { return; }
  const auto wanted = security_case(scenario);
  auto crowded = scenario;
  crowded.oversubscribe = true;
  Placer placer(crowded, inventory, emulated);
  const bool in_vms = has_arm(scenario, arm_vm);
  plan.placements.push_back(placer.place(wanted, in_vms));
  const auto tenants = plan.placements.size() - 1;
  for (auto& tenant : plan.placements.back().tenants) {
    for (auto& node : tenant.nodes) { node.planted_channel = vmctl::planted_channel_of(node); }
  }
  std::optional<std::size_t> with_device, with_peers;
  if (in_vms && scenario.devices.kind != DeviceKind::none) {
    with_device = plan.placements.size();
    plan.placements.push_back(placer.place(device_memory_case(scenario), true));
    if (auto peers = place_peers(scenario, inventory, placer)) {
      with_peers = plan.placements.size();
      plan.placements.push_back(std::move(*peers));
    }
  }
  problems.insert(problems.end(), placer.problems().begin(), placer.problems().end());
  busy.insert(busy.end(), placer.busy().begin(), placer.busy().end());
  for (const char* base : {arm_bare_metal, arm_vm}) {
    if (!has_arm(scenario, base)) { continue; }
    const bool vm = runs_in_vms(base);
    double seconds = !vm ? 15.0 : emulated ? 120.0 : 40.0;
    if (vm) { plan.vm_boots += plan.placements[tenants].nodes(); }
    if (vm && with_device) {
      plan.vm_boots += tenants_of_device;
      seconds *= 2;
    }
    if (vm && with_peers) { plan.vm_boots += plan.placements[*with_peers].nodes(); }
    plan.security.push_back(
        {base, base, tenants, seconds, vm ? with_device : std::nullopt, vm ? with_peers : std::nullopt});
    plan.estimate_seconds += seconds;
    plan.likely += unproven(seconds, vm, emulated);
  }
}

}  // namespace virtrain::harness
