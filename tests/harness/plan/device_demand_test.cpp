#include "harness/plan/device_demand.h"

#include <set>

#include "harness/scenario/decode/decode.h"
#include "tests/support/catch.h"
#include "vmctl/machine/inventory.h"

namespace virtrain::harness {
namespace {

TEST_CASE("what the study's plan wants of its host: a demand for each placement, a VM for each node") {
  const std::string source = VIRTRAIN_SOURCE_DIR;
  const auto scenario = load_scenario(source + "/scenarios/dell-r750xa.yaml");
  const auto plan = make_plan(scenario, vmctl::load_inventory(source + "/tests/data/r750xa"), false);
  const auto demands = device_demands(plan, scenario);
  REQUIRE(demands.size() == plan.placements.size());
  for (std::size_t i = 0; i < demands.size(); ++i) {
    const auto& demand = demands[i];
    INFO(plan.placements[i].case_name);
    CHECK(demand.several_tenants == (plan.placements[i].tenants.size() > 1));
    CHECK(static_cast<std::int64_t>(demand.vms.size()) == plan.placements[i].nodes());
    std::set<std::string> addresses;
    for (const auto& vm : demand.vms) {
      CHECK(vm.memory_bytes == 64ULL << 30);
      CHECK(vm.numa_node.has_value());
      for (const auto& device : vm.devices) { CHECK(addresses.insert(device.grant.address).second); }
    }
    CHECK_FALSE(addresses.empty());
    CHECK(demand.wants(vmctl::GrantKind::passthrough));
    CHECK_FALSE(demand.wants(vmctl::GrantKind::mdev));
  }
}

TEST_CASE("the doctor hears of schedulers that a scenario sets") {
  auto scenario = load_scenario(std::string(VIRTRAIN_SOURCE_DIR) + "/scenarios/isolation-vgpu.yaml");
  for (auto& arm : scenario.arms) {
    for (auto& one : arm.cases) {
      one.devices.vgpu_type.clear();
      for (auto& tenant : one.tenants) { tenant.vgpu_type = "T4-4C"; }
    }
  }
  const auto plan = make_plan(
      scenario, vmctl::load_inventory(std::string(VIRTRAIN_BINARY_DIR) + "/hosts/mdev-host"), false);
  std::set<std::optional<vmctl::VgpuScheduler>> schedulers;
  for (const auto& demand : device_demands(plan, scenario)) { schedulers.insert(demand.vgpu_scheduler); }
  CHECK(schedulers == std::set<std::optional<vmctl::VgpuScheduler>>{vmctl::VgpuScheduler::best_effort,
                                                                    vmctl::VgpuScheduler::equal_share,
                                                                    vmctl::VgpuScheduler::fixed_share});
}

TEST_CASE("a plan without devices wants nothing of them") {
  const auto scenario = load_scenario(std::string(VIRTRAIN_SOURCE_DIR) + "/scenarios/quickstart.yaml");
  Plan plan;
  plan.placements.push_back({"case", {}, {{"a", {}, 0, 1, 1, {NodePlacement{}}}}});
  CHECK(device_demands(plan, scenario).empty());
}

}  // namespace
}  // namespace virtrain::harness
