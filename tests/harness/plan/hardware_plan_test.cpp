#include <fmt/format.h>

#include <algorithm>

#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/plan/planning.h"
#include "tests/support/catch.h"

// Plans that would start and that the hardware could not run.

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

using List = std::vector<std::string>;

Scenario hardware_scenario(const std::string& devices, const std::string& tenants,
                           const std::string& more = {},
                           const std::string& guest = "memory: 4GiB, vcpus: 8, pinning: numa") {
  return decode_scenario(
      fmt::format("name: planned\nworkload: {{backend: cuda}}\nguest: {{{}}}\ndevices: {}\n"
                  "cases: [{{name: a, tenants: [{}]}}]\npairs: 2\n{}",
                  guest, devices, tenants, more.empty() ? "arms: [vm]\n" : more),
      "planned.yaml");
}

std::string warnings_of(const Plan& plan) {
  std::string all;
  for (const auto& words : plan.warnings) { all += words + "\n"; }
  return all;
}

/// Eight GPUs, four NVSwitches that the host keeps.
vmctl::Inventory nvswitch_board(std::optional<int> fabric_mode) {
  auto inventory = host("hgx-h200");
  inventory.fabric_mode = fabric_mode;
  return inventory;
}

const std::string sixteen_vcpus = "memory: 4GiB, vcpus: 16, pinning: numa";
void share_group(vmctl::Inventory& inventory, const List& addresses) {
  for (const auto& address : addresses) {
    at(inventory, address).function.iommu_group = 90;
    at(inventory, address).function.iommu_group_members = addresses;
  }
}

const std::string both_gpus = "{gpus_per_node: 2}";

}  // namespace

TEST_CASE("GPUs of an NVSwitch board go to a VM only where a partition joins them") {
  const auto scenario = hardware_scenario("{kind: passthrough}", both_gpus);
  CHECK_THAT(refusal(scenario, nvswitch_board(0)),
             Contains("error 802") && Contains("FABRIC_MODE is 0 here") && Contains("fmpm -l"));
  CHECK_THAT(warnings_of(plan_of(scenario, nvswitch_board({}))),
             Contains("error 802"));  // it does not say its mode
  auto shared = nvswitch_board(1);
  shared.fabric_partitions = {{3, false, {"0000:18:00.0", "0000:30:00.0"}},
                              {7, false, {"0000:78:00.0", "0000:90:00.0"}}};
  CHECK_THAT(refusal(scenario, shared),
             Contains("partitions that fit: 3 (0000:18:00.0 0000:30:00.0), 7 (0000:78:00.0 0000:90:00.0)"));
  shared.fabric_partitions[1].is_active = true;
  const auto plan = plan_of(scenario, shared);
  CHECK(node(plan, 0).device_addresses() == List{"0000:78:00.0", "0000:90:00.0"});
  CHECK_THAT(warnings_of(plan), !Contains("802"));
  CHECK_THAT(refusal(hardware_scenario("{kind: passthrough}", "{gpus_per_node: 4}"), shared),
             Contains("no partition has 4 GPUs"));
  CHECK(refusal(hardware_scenario("{kind: passthrough}", "{gpus_per_node: 1}"), nvswitch_board(0)) ==
        "(planned)");
  CHECK(refusal(hardware_scenario("{kind: passthrough}", both_gpus, "arms: [bare_metal]\n"),
                nvswitch_board(0)) == "(planned)");
}

TEST_CASE(
    "boards whose switches are no PCI functions have them too, and PCIe GPUs beside a board need none") {
  auto newer = nvswitch_board(0);
  std::erase_if(newer.devices,
                [](const auto& device) { return device.device_class == vmctl::DeviceClass::nvswitch; });
  CHECK_THAT(refusal(hardware_scenario("{kind: passthrough}", both_gpus), newer), Contains("error 802"));
  auto mixed = nvswitch_board(0);
  for (const char* address : {"0000:18:00.0", "0000:30:00.0"}) { at(mixed, address).nvlink_peers.clear(); }
  CHECK(refusal(hardware_scenario("{kind: passthrough, select: {address: [0000:18:00.0, 0000:30:00.0]}}",
                                  both_gpus),
                mixed) == "(planned)");
}

TEST_CASE("a whole NVSwitch board goes to one VM, whose ranks are as many as its GPUs") {
  std::string all;
  const auto inventory = nvswitch_board(0);
  for (const auto& device : inventory.devices) {
    if (device.device_class != vmctl::DeviceClass::rdma_nic) { all += ", " + device.function.address; }
  }
  const auto select = [](const std::string& addresses) {
    return fmt::format("{{kind: passthrough, select: {{address: [{}]}}}}", addresses);
  };
  for (const char* count : {"12", "8"}) {
    const auto plan =
        plan_of(hardware_scenario(select(all.substr(2)), fmt::format("{{gpus_per_node: {}}}", count), {},
                                  sixteen_vcpus),
                inventory);
    CHECK(node(plan, 0).devices.size() == 12);
    CHECK(plan.placements[0].tenants[0].ranks_per_node == 8);
    CHECK(plan.placements[0].tenants[0].gpus_per_node == 8);
    CHECK_THAT(node(plan, 0).devices_reason, Contains("joined by NVLink") && Contains("with 4 NVSwitches"));
    CHECK_THAT(warnings_of(plan), !Contains("802") && !Contains("not all joined"));
  }
  CHECK_THAT(
      refusal(hardware_scenario(select("0000:05:00.0, 0000:18:00.0, 0000:30:00.0"), "{gpus_per_node: 3}"),
              inventory),
      Contains("a VM gets 1 NVSwitch of 4 and 2 GPUs"));
}

TEST_CASE("adapters are given out so that all devices together are as near to one as can be") {
  auto inventory = nvswitch_board({});
  // Two GPUs below each switch, an adapter below each second one.
  for (const auto& [gpu, beside] :
       {std::pair("0000:30:00.0", "0000:18:00.0"), std::pair("0000:60:00.0", "0000:48:00.0"),
        std::pair("0000:90:00.0", "0000:78:00.0")}) {
    at(inventory, gpu).function.bridges = at(inventory, beside).function.bridges;
    at(inventory, gpu).function.root_complex = at(inventory, beside).function.root_complex;
  }
  std::erase_if(inventory.devices, [](const auto& device) {
    const auto& address = device.function.address;
    return device.device_class == vmctl::DeviceClass::rdma_nic && address != "0000:19:00.0" &&
           address != "0000:49:00.0" && address != "0000:79:00.0";
  });
  const auto nics = [&](const std::string& gpus, const std::string& tenants, std::size_t tenant, int count) {
    const auto plan =
        plan_of(hardware_scenario(fmt::format("{{kind: passthrough, select: {{address: [{}]}}, nics: "
                                              "{{kind: passthrough, per_node: {}}}}}",
                                              gpus, count),
                                  tenants),
                inventory);
    const auto addresses = node(plan, tenant).device_addresses();
    CHECK_THAT(node(plan, tenant).devices_reason, !Contains("far from"));
    return List(addresses.end() - count, addresses.end());
  };
  CHECK(nics("0000:18:00.0, 0000:30:00.0, 0000:78:00.0, 0000:90:00.0", "{gpus_per_node: 4}", 0, 2) ==
        List{"0000:19:00.0", "0000:79:00.0"});
  CHECK(nics("0000:18:00.0, 0000:30:00.0, 0000:78:00.0", "{gpus_per_node: 3}", 0, 2) ==
        List{"0000:19:00.0", "0000:79:00.0"});
  // Single GPUs go below switches of their own as long as there are any.
  const std::string four = "{gpus_per_node: 1}, {gpus_per_node: 1}, {gpus_per_node: 1}, {gpus_per_node: 1}";
  List singles;
  const auto plan = plan_of(hardware_scenario("{kind: passthrough}", four), inventory);
  for (const std::size_t tenant : {0u, 1u, 2u, 3u}) {
    singles.push_back(node(plan, tenant).device_addresses()[0]);
  }
  CHECK(singles == List{"0000:18:00.0", "0000:78:00.0", "0000:48:00.0", "0000:a8:00.0"});
  // The first node's GPU has no adapter below its switch and leaves the second one's to that.
  const std::string gpus = "0000:c0:00.0, 0000:78:00.0", both = "{gpus_per_node: 1}, {gpus_per_node: 1}";
  const bool is_first =
      node(plan_of(
               hardware_scenario(fmt::format("{{kind: passthrough, select: {{address: [{}]}}}}", gpus), both),
               inventory),
           0)
          .device_addresses() == List{"0000:78:00.0"};
  CHECK(nics(gpus, both, is_first ? 0 : 1, 1) == List{"0000:79:00.0"});
}

TEST_CASE("a card holds as many MIG-backed vGPUs as it has slices, or as the driver says") {
  auto inventory = host("vendor-vfio-host");
  for (auto& device : inventory.devices) { device.vgpus.clear(); }
  const auto rename = [&](const std::string& name, std::optional<int> most) {
    for (auto& device : inventory.devices) {
      for (auto& type : device.vgpu_types) {
        if (type.id != "1153") { continue; }
        type.name = name;
        type.most_instances = most;
      }
    }
  };
  const auto words = [&](const std::string& type) {
    return refusal(hardware_scenario("{kind: vgpu, type: " + type + "}",
                                     "{gpus_per_node: 1}, {gpus_per_node: 1}, {gpus_per_node: 1}"),
                   inventory);
  };
  rename("NVIDIA H100-3-40C", {});
  CHECK_THAT(words("H100-3-40C"), Contains("needs 3 vGPUs of type H100-3-40C, host vendor-vfio-host has 2"));
  rename("NVIDIA H100-1-10C", 2);
  CHECK_THAT(words("H100-1-10C"), Contains("vendor-vfio-host has 2"));
  rename("NVIDIA A30-2-12C", {});
  CHECK_THAT(words("A30-2-12C"), Contains("vendor-vfio-host has 2"));
  rename("NVIDIA H100-2-20C", {});
  CHECK(words("H100-2-20C") == "(planned)");
  inventory.devices.back().vgpus = {"type 1150"};  // it has a slice at least
  CHECK_THAT(words("H100-2-20C"), Contains("vendor-vfio-host has 2"));
}

TEST_CASE("an IOMMU group of two GPUs goes to one VM, and to no two") {
  auto inventory = host("mig-host");
  const List group{"0000:07:00.0", "0000:47:00.0"};
  share_group(inventory, group);
  CHECK(node(plan_of(hardware_scenario("{kind: passthrough}", both_gpus), inventory), 0).device_addresses() ==
        group);
  CHECK_THAT(refusal(hardware_scenario("{kind: passthrough}", "{gpus_per_node: 1}"), inventory),
             Contains("only 0 can be given out together") && Contains("IOMMU group"));
  CHECK_THAT(
      refusal(hardware_scenario("{kind: passthrough}", "{gpus_per_node: 1}, {gpus_per_node: 1}"), inventory),
      Contains("only 0 can be given out together"));
  CHECK_THAT(refusal(hardware_scenario("{kind: passthrough, select: {address: [0000:07:00.0]}}",
                                       "{gpus_per_node: 1}"),
                     inventory),
             Contains("it shares IOMMU group 90 with 0000:47:00.0"));
}

TEST_CASE("ranks of backend cuda drive GPUs only, and what shares a GPU's group goes along") {
  auto inventory = host("r750xa");
  const List group{"0000:17:00.0", "0000:98:00.0"};
  share_group(inventory, group);
  const std::string both = "{kind: passthrough, select: {address: [0000:17:00.0, 0000:98:00.0]}}";
  for (const char* count : {"1", "2"}) {
    const auto plan =
        plan_of(hardware_scenario(both, fmt::format("{{gpus_per_node: {}}}", count)), inventory);
    CHECK(node(plan, 0).device_addresses() == group);
    CHECK(plan.placements[0].tenants[0].ranks_per_node == 1);
    CHECK_THAT(node(plan, 0).devices_reason, Contains("with 0000:98:00.0"));
  }
  CHECK_THAT(refusal(hardware_scenario("{kind: passthrough, select: {address: [0000:98:00.1]}}",
                                       "{gpus_per_node: 1}"),
                     inventory),
             Contains("needs 1 device"));
}

TEST_CASE("MIG-backed vGPUs take no more of a card's memory than it has") {
  auto inventory = host("vendor-vfio-host");
  for (auto& device : inventory.devices) {
    device.vgpus.clear();
    if (device.function.physical_function.empty()) { continue; }
    device.vgpu_types = {{"1", "NVIDIA H100-1-20C", {}, {}},
                         {"2", "NVIDIA H100-1-40C", {}, {}},
                         {"3", "NVIDIA H100-1-10CME", {}, {}},
                         {"4", "NVIDIA H100-4-40C", {}, {}},
                         {"7", "NVIDIA H100-7-80C", {}, {}}};
  }
  const auto words = [&](const std::string& tenants) {
    return refusal(hardware_scenario("{kind: vgpu}", tenants), inventory);
  };
  const auto three = [](const std::string& type) {
    return fmt::format("{{nodes: 3, gpus_per_node: 1, vgpu_type: {}}}", type);
  };
  CHECK(words(three("H100-1-20C")) == "(planned)");
  CHECK_THAT(words(three("H100-1-40C")), Contains("vendor-vfio-host has 2"));
  CHECK_THAT(words(three("H100-1-10CME")), Contains("vendor-vfio-host has 1"));
  CHECK_THAT(words("{gpus_per_node: 1, vgpu_type: H100-4-40C}, {nodes: 2, gpus_per_node: 1, vgpu_type: "
                   "H100-1-40C}"),
             Contains("can be given out together"));
}

TEST_CASE("a host that is not x86_64 is refused in one sentence") {
  auto inventory = host("r750xa");
  inventory.architecture = "aarch64";
  CHECK(refusal(hardware_scenario("{kind: passthrough}", both_gpus), inventory) ==
        "r750xa is an aarch64 host, and virtrain makes VMs and slices on x86_64 hosts only");
}

TEST_CASE("huge pages that are not of the default size are named") {
  auto inventory = host("r750xa");
  inventory.numa_nodes[0].free_hugepages_1gib = 9;
  const auto scenario = hardware_scenario("{kind: passthrough}", both_gpus, {},
                                          "memory: 4GiB, vcpus: 8, pinning: numa, hugepages: true");
  CHECK_THAT(refusal(scenario, inventory),
             Contains("9 pages of 1GiB are free here") && Contains("add default_hugepagesz=1G"));
}

TEST_CASE("memory regions must fit into the addresses of each arm's CPU, and guests need time to map them") {
  auto inventory = nvswitch_board({});
  inventory.address_bits = 52;
  const std::string arms =
      "arms: [vm, {name: vm-named, like: vm, guest: {cpu_model: SapphireRapids}}]\nboot_timeout: 60s\n";
  const auto words = refusal(hardware_scenario("{kind: passthrough}", "{gpus_per_node: 1}", arms), inventory);
  CHECK_THAT(words, Contains("CPU model SapphireRapids has 40 address bits, of which firmware keeps 128GiB"));
  CHECK_THAT(words, Contains("boot_timeout: 1 min 00 s is too short here: Linux 6.8.0-60-generic"));
  CHECK_THAT(words, !Contains("the host has 52"));
  inventory.address_bits = 39;
  CHECK_THAT(refusal(hardware_scenario("{kind: passthrough}", "{gpus_per_node: 1}"), inventory),
             Contains("the host has 39 address bits"));
  inventory.address_bits = 52;
  inventory.kernel = "6.12.0-amd64";
  CHECK_THAT(warnings_of(plan_of(hardware_scenario("{kind: passthrough}", "{gpus_per_node: 1}",
                                                   "arms: [vm]\nboot_timeout: 60s\n"),
                                 inventory)),
             !Contains("boot_timeout"));
}

TEST_CASE("accelerators of other vendors and dead ones are named where a selection means them") {
  auto inventory = host("r750xa");
  for (const auto& [address, vendor] :
       {std::pair("0000:0c:00.0", "0x1002"), std::pair("0000:2c:00.0", "0xffff")}) {
    vmctl::HostDevice device;
    device.function.address = address;
    device.function.vendor = vendor;
    device.function.class_code = "0x120000";
    device.device_class = vmctl::DeviceClass::other;
    device.name = vendor;
    device.function.iommu_group = 14;
    device.function.reset_methods = {"flr", "bus"};
    inventory.other_devices.push_back(device);
  }
  CHECK_THAT(
      refusal(hardware_scenario("{kind: passthrough, select: {vendor: 0x1002}}", both_gpus), inventory),
      Contains("0000:0c:00.0 (0x1002): virtrain trains on NVIDIA's GPUs only (IOMMU group 14, resets by flr "
               "bus)") &&
          Contains("0000:2c:00.0 (0xffff): it answers with ones only, lost after a reset") &&
          Contains("GPUs of other vendors work in jobs of your own"));
}

TEST_CASE("GPUs that meet through the root complex are warned of where bare metal is measured") {
  auto inventory = host("mig-host");
  for (auto& device : inventory.devices) {
    device.has_acs_above = true;
    device.nvlink_peers.clear();
  }
  const auto words = [&](const std::string& arms) {
    return warnings_of(plan_of(hardware_scenario("{kind: passthrough}", both_gpus, arms), inventory));
  };
  CHECK_THAT(words("arms: [bare_metal, vm]\n"), Contains("ACS sends that through the root complex") &&
                                                    Contains("NCCL_P2P_DISABLE") &&
                                                    Contains("devices.clique"));
  CHECK_THAT(words("arms: [vm]\n"), !Contains("ACS"));
}
