#include <fmt/format.h>

#include <set>

#include "harness/scenario/decode/decode.h"
#include "tests/harness/plan/planning.h"

namespace virtrain::harness {
namespace {

/// The devices of the first node of a tenant.
std::vector<vmctl::PlacedDevice> selected(const std::string& devices, const std::string& tenant,
                                          const vmctl::Inventory& inventory) {
  const auto scenario = decode_scenario(
      fmt::format(
          "name: selected\nworkload: {{backend: cpu}}\nguest: {{memory: 4GiB, vcpus: 4}}\ndevices: {}\n"
          "cases: [{{name: a, tenants: [{}]}}]\narms: [vm]\n",
          devices, tenant),
      "selected.yaml");
  return allowed_plan(scenario, inventory, false).placements.at(0).tenants.at(0).nodes.at(0).devices;
}

TEST_CASE("parts are spread within a node too, and a card that counts has all of its parts") {
  const auto cards = [](const std::string& more) {
    std::set<std::string> found;
    const auto devices = selected("{kind: vf, select: {address: [0000:98:00.0, 0000:98:00.1]" + more,
                                  "{gpus_per_node: 2}", host("r750xa"));
    for (const auto& device : devices) { found.insert(card_of(device.grant)); }
    return found.size();
  };
  CHECK(cards("}}") == 1);
  CHECK(cards("}, spread: true}") == 2);
  CHECK(cards(", count: 2}, spread: true}") == 2);
  CHECK(cards(", count: 1}, spread: true}") == 1);
}

TEST_CASE("a virtual function is selected by its card's UUID too, and a card has as many as it makes") {
  auto inventory = host("vendor-vfio-host");
  for (auto& device : inventory.devices) {
    if (device.function.address == "0000:41:00.0") { device.uuid = "GPU-card"; }
  }
  const auto devices = selected("{kind: vgpu, type: L40S-12C, select: {uuid: [GPU-card], count: 1}}",
                                "{nodes: 2, gpus_per_node: 1}", inventory);
  CHECK(devices.at(0).grant.physical_function == "0000:41:00.0");
}

TEST_CASE("adapters' memory is mapped as that of the node's other devices") {
  const auto devices = selected("{kind: passthrough, vfio: iommufd, nics: {kind: passthrough}}",
                                "{gpus_per_node: 1}", host("hgx-h200"));
  REQUIRE(devices.size() == 2);
  for (const auto& device : devices) { CHECK(device.vfio == vmctl::Vfio::iommufd); }
}

}  // namespace
}  // namespace virtrain::harness
