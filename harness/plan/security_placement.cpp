#include "harness/plan/security_placement.h"

#include "harness/plan/placer.h"

namespace virtrain::harness {
namespace {

constexpr std::uint64_t mirror_bytes = std::uint64_t{768} << 20, cloud_bytes = std::uint64_t{1} << 30;

Guest small_guest(const Scenario& scenario) {
  Guest guest{.image = scenario.guest.image, .vcpus = 1};
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
  return {"security", "", {tenant_of("tenant-a", 1), tenant_of("tenant-b", 2)}, small_guest(scenario), {}};
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
  auto devices = scenario.devices;
  devices.nics.reset();
  devices.settings = {};
  devices.licence_token.clear();
  return {"device-memory", "", {std::move(tenant)}, small_guest(scenario), std::move(devices)};
}

}  // namespace

void place_security(const Scenario& scenario, const vmctl::Inventory& inventory, bool emulated, Plan& plan,
                    std::vector<std::string>& problems, std::vector<std::string>& busy) {
  if (!scenario.security) { return; }
  const auto wanted = security_case(scenario);
  auto crowded = scenario;
  crowded.oversubscribe = true;
  Placer placer(crowded, inventory, emulated);
  const bool in_vms = has_arm(scenario, arm_vm);
  plan.placements.push_back(placer.place(wanted, in_vms));
  const auto tenants = plan.placements.size() - 1;
  std::optional<std::size_t> with_device;
  if (in_vms && scenario.devices.kind != DeviceKind::none) {
    with_device = plan.placements.size();
    plan.placements.push_back(placer.place(device_memory_case(scenario), true));
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
    plan.security.push_back({base, base, tenants, seconds, vm ? with_device : std::nullopt});
    plan.estimate_seconds += seconds;
  }
}

}  // namespace virtrain::harness
