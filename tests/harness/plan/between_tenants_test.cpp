#include <fmt/format.h>

#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/plan/planning.h"
#include "tests/support/catch.h"

namespace virtrain::harness {
namespace {

using test::Contains;

constexpr const char* disk_address = "0000:00:11.0";

/// Two pairs of one VM with a disk, on a host that has it beside its GPUs.
Plan plan_with_disk(const std::string& how, const std::string& arms, bool security) {
  auto inventory = host("r750xa");
  vmctl::HostDevice disk;
  disk.function.address = disk_address;
  disk.function.iommu_group = 90;
  disk.function.iommu_group_members = {disk_address};
  disk.device_class = vmctl::DeviceClass::other;
  disk.mechanism = vmctl::Mechanism::passthrough;
  disk.name = "NVMe";
  inventory.other_devices = {disk};
  const auto scenario = decode_scenario(
      fmt::format("name: planned\nworkload: {{backend: cpu}}\nguest: {{memory: 4GiB, vcpus: 4}}\ndevices: "
                  "{{kind: passthrough, select: {{address: [{}]}}, between_tenants: {}}}\ncases: [{{name: a, "
                  "tenants: [{{gpus_per_node: 1}}]}}]\narms: {}\npairs: 2\nsecurity: {}\n",
                  disk_address, how, arms, security),
      "planned.yaml");
  return allowed_plan(scenario, inventory, false);
}

TEST_CASE("a plan says what is reset or erased between tenants, and counts the way back for it") {
  const auto plain = plan_with_disk("none", "[vm]", false), reset = plan_with_disk("reset", "[vm]", false),
             erase = plan_with_disk("erase", "[vm]", false);
  CHECK(plain.device_bindings == 2);
  CHECK(reset.device_bindings == 2);
  CHECK(erase.device_bindings == 4);  // before each of two VMs
  CHECK(reset.placements.at(0).tenants.at(0).nodes.at(0).devices.at(0).grant.between_tenants ==
        vmctl::BetweenTenants::reset);
  CHECK_THAT(to_table(plain, false), !Contains("before each VM"));
  CHECK_THAT(to_table(reset, false), Contains("each reset before each VM"));
  CHECK_THAT(to_table(erase, false), Contains("each erased before each VM"));
  CHECK(plain.warnings.empty());
  CHECK(reset.warnings.empty());
  REQUIRE(erase.warnings.size() == 1);
  CHECK_THAT(erase.warnings[0], Contains("overwrites all that is on these disks"));
  const auto details = [](const Plan& plan) {
    return to_json(plan)["trials"][0]["tenants"][0]["nodes"][0]["device_details"][0];
  };
  CHECK(details(erase)["between_tenants"] == "erase");
  CHECK_FALSE(details(plain).contains("between_tenants"));
}

TEST_CASE("leak searches of a scenario with devices lend one of them to three tenants in turn") {
  const auto plan = plan_with_disk("none", "[vm]", true);
  REQUIRE(plan.security.size() == 1);
  REQUIRE(plan.security[0].device_placement);
  const auto& placement = plan.placements.at(*plan.security[0].device_placement);
  REQUIRE(placement.tenants.size() == 1);
  CHECK(placement.tenants[0].nodes.at(0).device_addresses() == std::vector<std::string>{disk_address});
  CHECK(plan.placements.at(plan.security[0].placement).tenants[0].nodes[0].devices.empty());
  CHECK(plan.vm_boots == 2 + 3 + 4);
  CHECK(plan.device_bindings == 2);
  CHECK(plan_with_disk("erase", "[vm]", true).device_bindings == 4 + 8);
  CHECK_THAT(to_table(plan, false), Contains("device-memory"));
  REQUIRE(plan.warnings.size() == 1);
  CHECK_THAT(plan.warnings[0], Contains("leak searches overwrite"));
  CHECK_FALSE(plan_with_disk("none", "[bare_metal]", true).security.at(0).device_placement);
  CHECK_FALSE(plan.security[0].peer_placement);  // a disk has no engine that the probe knows
}

/// The host above with other devices, and who gets which of those that are selected to read each other.
class PeerPlans {
 public:
  using Addresses = std::vector<std::vector<std::string>>;

  void add(const std::string& address, const std::string& vendor, const std::string& device) {
    vmctl::HostDevice one;
    one.function.address = address;
    one.function.vendor = vendor;
    one.function.device = device;
    one.function.class_code = vendor == "0x1234" ? "0x00ff00" : "0x050000";
    one.function.iommu_group = 90 + static_cast<int>(inventory_.other_devices.size());
    one.function.iommu_group_members = {address};
    if (vendor != "0x1234") { one.function.bars = {{.index = 2, .bytes = 4 << 20, .is_prefetchable = true}}; }
    one.device_class = vmctl::DeviceClass::other;
    one.mechanism = vmctl::Mechanism::passthrough;
    one.name = "device " + address;
    inventory_.other_devices.push_back(one);
  }

  /// Those of each tenant; none where there is no engine.
  Addresses of(const std::string& addresses) const {
    const auto scenario = decode_scenario(
        fmt::format("name: planned\nworkload: {{backend: cpu}}\nguest: {{memory: 4GiB, vcpus: 4}}\ndevices: "
                    "{{kind: passthrough, select: {{address: [{}]}}}}\ncases: [{{name: a, "
                    "tenants: [{{gpus_per_node: 1}}]}}]\narms: [vm]\npairs: 1\nsecurity: true\n",
                    addresses),
        "planned.yaml");
    const auto plan = allowed_plan(scenario, inventory_, false);
    const auto& placement = plan.security.at(0).peer_placement;
    Addresses all;
    if (!placement) { return all; }
    for (const auto& tenant : plan.placements.at(*placement).tenants) {
      all.push_back(tenant.nodes.at(0).device_addresses());
    }
    return all;
  }

  std::vector<std::string> gpus() const {
    std::vector<std::string> all;
    for (const auto& device : inventory_.devices) { all.push_back(device.function.address); }
    return all;
  }

 private:
  vmctl::Inventory inventory_ = host("r750xa");
};

TEST_CASE("a device with an engine and one with memory are one tenant's, another such device another one's") {
  PeerPlans plans;
  plans.add("0000:00:11.0", "0x1af4", "0x1110");
  plans.add("0000:00:12.0", "0x1234", "0x11e8");
  using Addresses = PeerPlans::Addresses;
  CHECK(plans.of("0000:00:11.0").empty());
  CHECK(plans.of("0000:00:12.0") == Addresses{{"0000:00:12.0"}});
  CHECK(plans.of("0000:00:11.0, 0000:00:12.0") == Addresses{{"0000:00:12.0"}, {"0000:00:11.0"}});
  plans.add("0000:00:13.0", "0x1af4", "0x1110");
  CHECK(plans.of("0000:00:11.0, 0000:00:12.0, 0000:00:13.0") ==
        Addresses{{"0000:00:12.0", "0000:00:11.0"}, {"0000:00:13.0"}});
}

TEST_CASE("a GPU of NVIDIA's is an engine and never what is read") {
  PeerPlans plans;
  plans.add("0000:00:11.0", "0x1af4", "0x1110");
  plans.add("0000:00:12.0", "0x1234", "0x11e8");
  plans.add("0000:00:13.0", "0x1af4", "0x1110");
  plans.add("0000:00:14.0", "0x10de", "0x22a3");  // NVIDIA's, with memory, and no display controller
  const auto gpus = plans.gpus();
  REQUIRE(gpus.size() >= 2);
  using Addresses = PeerPlans::Addresses;
  CHECK(plans.of(gpus[0]) == Addresses{{gpus[0]}});
  CHECK(plans.of(gpus[0] + ", " + gpus[1]) == Addresses{{gpus[0]}});  // only the host's memory is left
  CHECK(plans.of(gpus[0] + ", 0000:00:11.0") == Addresses{{gpus[0]}, {"0000:00:11.0"}});
  CHECK(plans.of("0000:00:11.0, " + gpus[0] + ", 0000:00:13.0") ==
        Addresses{{gpus[0], "0000:00:11.0"}, {"0000:00:13.0"}});
  CHECK(plans.of(gpus[0] + ", 0000:00:11.0, 0000:00:12.0, 0000:00:13.0") ==
        Addresses{{gpus[0], "0000:00:11.0"}, {"0000:00:13.0"}});  // the edu is left out
  CHECK(plans.of("0000:00:14.0").empty());
  CHECK(plans.of("0000:00:12.0, 0000:00:14.0") == Addresses{{"0000:00:12.0"}});
}

}  // namespace
}  // namespace virtrain::harness
