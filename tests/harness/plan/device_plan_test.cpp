#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "common/error.h"
#include "common/text/text.h"
#include "harness/plan/device_demand.h"
#include "harness/plan/devices/device_slots.h"
#include "harness/plan/node_group.h"
#include "harness/plan/placer.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/plan/planning.h"
#include "tests/support/catch.h"
#include "vmctl/devices/host_device.h"
#include "vmctl/host/made_nodes.h"
#include "vmctl/hypervisor/domain/guest_layout.h"
#include "vmctl/machine/inventory.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

using List = std::vector<std::string>;

/// One case of nodes with `per_node` devices each.
Scenario device_scenario(const std::string& devices, const std::string& tenants,
                         const std::string& arms = "[vm]") {
  return decode_scenario(
      fmt::format("name: planned\nworkload: {{backend: cpu}}\nguest: {{memory: 4GiB, vcpus: 4, pinning: "
                  "numa}}\ndevices: {}\ncases: [{{name: a, tenants: [{}]}}]\narms: {}\npairs: 2\n",
                  devices, tenants, arms),
      "planned.yaml");
}

const std::string one = "{gpus_per_node: 1}";
const std::string two_tenants = "{gpus_per_node: 1}, {gpus_per_node: 1}";

/// A card of any class beside the R750xa's GPUs, in IOMMU group 90 with whatever else is said.
vmctl::HostDevice other_card(const std::string& address, const std::string& name,
                             std::vector<std::string> group) {
  vmctl::HostDevice device;
  device.function.address = address;
  device.function.vendor = "0x8086";
  device.function.iommu_group = 90;
  device.function.iommu_group_members = std::move(group);
  device.device_class = vmctl::DeviceClass::other;
  device.mechanism = vmctl::Mechanism::passthrough;
  device.name = name;
  return device;
}

}  // namespace

TEST_CASE("a device of any class is had by its address, and only so") {
  auto inventory = host("r750xa");
  inventory.other_devices = {other_card("0000:00:11.0", "NVMe", {"0000:00:11.0"})};
  const auto plan =
      plan_of(device_scenario("{kind: passthrough, select: {address: [0000:00:11.0]}}", one), inventory);
  CHECK(node(plan, 0).device_addresses() == List{"0000:00:11.0"});
  CHECK(node(plan, 0).devices[0].grant.kind == vmctl::GrantKind::passthrough);
  CHECK_THAT(refusal(device_scenario("{kind: passthrough, select: {name: NVMe}}", one), inventory),
             Contains("needs 1 GPU, host r750xa has 0"));
  CHECK_THAT(
      refusal(device_scenario("{kind: passthrough, select: {address: [0000:99:00.0]}}", one), inventory),
      Contains("0000:99:00.0: this host has no such device"));
}

TEST_CASE("bare metal alone takes GPUs and adapters without an IOMMU, VMs do not") {
  auto inventory = host("r750xa");
  for (const char* address : {"0000:17:00.0", "0000:98:00.0"}) {
    auto& device = at(inventory, address);
    device.function.iommu_group.reset();
    std::tie(device.mechanism, device.mechanism_reason) = vmctl::mechanism_of(device.function);
  }
  auto s = device_scenario(
      "{kind: passthrough, select: {address: [0000:17:00.0]}, nics: {kind: passthrough, select: {address: "
      "[0000:98:00.0]}}}",
      one);
  CHECK_THAT(refusal(s, inventory), Contains("it is in no IOMMU group"));
  s.arms.at(0).name = s.arms[0].base = arm_bare_metal;
  const auto plan = plan_of(s, inventory);
  CHECK(node(plan, 0).device_addresses() == List{"0000:17:00.0", "0000:98:00.0"});
  CHECK(device_demands(plan, s).empty());
}

TEST_CASE("half of a shared group is refused with the group's members") {
  auto inventory = host("r750xa");
  const List group{"0000:00:13.0", "0000:00:14.0"};
  inventory.other_devices = {other_card("0000:00:13.0", "NVMe", group),
                             other_card("0000:00:14.0", "e1000e", group)};
  const auto words =
      refusal(device_scenario("{kind: passthrough, select: {address: [0000:00:13.0]}}", one), inventory);
  CHECK_THAT(words, Contains("0000:00:13.0 (NVMe): it shares IOMMU group 90 with 0000:00:14.0 (e1000e)"));
}

TEST_CASE("a card's own other functions come with it, but not to two tenants") {
  auto inventory = host("r750xa");
  const List group{"0000:00:13.0", "0000:00:13.1", "0000:00:02.0"};  // the last is a bridge, in no list
  inventory.other_devices = {other_card("0000:00:13.0", "first", group),
                             other_card("0000:00:13.1", "second", group)};
  const std::string both = "{kind: passthrough, select: {address: [0000:00:13.0, 0000:00:13.1]}}";
  CHECK(node(plan_of(device_scenario(both, "{gpus_per_node: 2}"), inventory), 0).device_addresses() ==
        List{"0000:00:13.0", "0000:00:13.1"});
  CHECK_THAT(refusal(device_scenario(both, two_tenants), inventory),
             Contains("needs 2 devices, and of the 2 that host r750xa has only 1 can be given out together"));
}

TEST_CASE("a device in use is refused with its user, and another one is taken instead") {
  auto inventory = host("mig-host");
  at(inventory, "0000:47:00.0").users = {{4242, "python3", "/dev/nvidia1"}};
  CHECK(node(plan_of(device_scenario("{kind: passthrough}", one), inventory), 0).device_addresses() ==
        List{"0000:07:00.0"});
  CHECK_THAT(refusal(device_scenario("{kind: passthrough}", two_tenants), inventory, 75),
             Contains("0000:47:00.0 (NVIDIA A100-SXM4-40GB): in use: ") && Contains("4242"));
  inventory.devices.clear();
  auto disk = other_card("0000:00:11.0", "NVMe", {"0000:00:11.0"});
  disk.users = {{0, "mounted on /mnt", "/dev/nvme0n1"}};
  inventory.other_devices = {disk};
  CHECK_THAT(
      refusal(device_scenario("{kind: passthrough, select: {address: [0000:00:11.0]}}", one), inventory, 75),
      Contains("0000:00:11.0 (NVMe): in use: ") && Contains("mounted on /mnt"));
}

TEST_CASE("what is busy and would not do even if it were free is no case of trying later") {
  auto inventory = host("mig-host");
  at(inventory, "0000:47:00.0").users = {{4242, "python3", "/dev/nvidia1"}};
  CHECK_THAT(refusal(device_scenario("{kind: passthrough}", "{nodes: 3, gpus_per_node: 1}"), inventory),
             Contains("needs 3 GPUs, host mig-host has 1"));
}

TEST_CASE("what is withheld is refused with the reason") {
  auto inventory = host("r750xa");
  inventory.withheld_devices["0000:17:00.0"] = "in quarantine: it did not come back";
  CHECK(node(plan_of(device_scenario("{kind: passthrough}", one), inventory), 0).device_addresses() ==
        List{"0000:31:00.0"});
  CHECK_THAT(
      refusal(device_scenario("{kind: passthrough, select: {address: [0000:17:00.0]}}", one), inventory),
      Contains("0000:17:00.0: in quarantine: it did not come back"));
}

TEST_CASE("a device without a mechanism is refused with the reason") {
  auto inventory = host("r750xa");
  at(inventory, "0000:17:00.0").mechanism = vmctl::Mechanism::none;
  at(inventory, "0000:17:00.0").mechanism_reason = "it is in no IOMMU group";
  CHECK_THAT(
      refusal(device_scenario("{kind: passthrough, select: {address: [0000:17:00.0]}}", one), inventory),
      Contains("0000:17:00.0 (NVIDIA A100-PCIE-40GB): it is in no IOMMU group"));
  CHECK_THAT(refusal(device_scenario("{kind: passthrough}", one), host("mdev-host")),
             Contains("(use kind vgpu)"));
}

TEST_CASE("vGPUs as mediated devices: as many as a parent has instances, a UUID for each") {
  const auto plan = plan_of(device_scenario("{kind: vgpu, type: T4-4C}", "{nodes: 2, gpus_per_node: 2}"),
                            host("mdev-host"));
  std::set<std::string> uuids;
  for (const std::size_t n : {0u, 1u}) {
    CHECK(node(plan, 0, n).device_addresses() == List{"0000:3b:00.0", "0000:3b:00.0"});
    CHECK(node(plan, 0, n).devices_reason == "of one card, on NUMA node 0");
    for (const auto& grant : vmctl::grants_of(node(plan, 0, n), "E1")) {
      CHECK(grant.kind == vmctl::GrantKind::mdev);
      CHECK(grant.vgpu_type == "nvidia-230");
      CHECK(grant.uuid.size() == 36);
      CHECK(uuids.insert(grant.uuid).second);
    }
  }
  CHECK(vmctl::grants_of(node(plan, 0, 1), "E1") == vmctl::grants_of(node(plan, 0, 1), "E1"));
  CHECK(vmctl::grants_of(node(plan, 0, 1), "E2") != vmctl::grants_of(node(plan, 0, 1), "E1"));
  CHECK_THAT(refusal(device_scenario("{kind: vgpu, type: nvidia-230}", "{nodes: 5, gpus_per_node: 1}"),
                     host("mdev-host")),
             Contains("needs 5 vGPUs of type nvidia-230, host mdev-host has 4"));
}

TEST_CASE("a vGPU type that is not offered is refused with those that are, a full one with its name") {
  CHECK_THAT(refusal(device_scenario("{kind: vgpu, type: T4-8C}", one), host("mdev-host")),
             Contains("0000:3b:00.0: no vGPU type T4-8C (offered now: GRID T4-16C, GRID T4-4C)"));
  CHECK_THAT(refusal(device_scenario("{kind: vgpu, type: V100D-8C}", one), host("mdev-host")),
             Contains("0000:5e:00.0 (Tesla V100-PCIE-32GB): no instance of GRID V100D-8C is left"));
  CHECK_THAT(refusal(device_scenario("{kind: vgpu, type: A100-20C}", one), host("mig-host")),
             Contains("its driver (nvidia) offers no vGPUs"));
  CHECK_THAT(refusal(device_scenario("{kind: vgpu, type: H200-18C}", one), host("hgx-h200")),
             Contains("SR-IOV is off (switch its virtual functions on: sriov-manage -e 0000:18:00.0)"));
}

TEST_CASE("vendor-specific VFIO: one vGPU a virtual function, none on one that carries a vGPU already") {
  const auto plan =
      plan_of(device_scenario("{kind: vgpu, type: L40S-24C}", two_tenants), host("vendor-vfio-host"));
  const auto& grant = node(plan, 0).devices.at(0).grant;
  CHECK(grant.kind == vmctl::GrantKind::vendor_vfio);
  CHECK(grant.address == "0000:41:00.5");
  CHECK(grant.physical_function == "0000:41:00.0");
  CHECK(grant.vgpu_type == "1153");
  CHECK(node(plan, 1).device_addresses() == List{"0000:41:00.6"});
  CHECK_THAT(refusal(device_scenario("{kind: vgpu, type: L40S-24C}", "{nodes: 4, gpus_per_node: 1}"),
                     host("vendor-vfio-host")),
             Contains("has 3"));
}

TEST_CASE("on an empty card the largest type says how many of a smaller one fit") {
  auto inventory = host("vendor-vfio-host");
  for (auto& device : inventory.devices) {
    if (!device.function.physical_function.empty()) {
      device.vgpu_types = {{"1153", "NVIDIA L40S-24C", {}, {}}, {"1155", "NVIDIA L40S-48C", {}, {}}};
    }
  }
  CHECK_THAT(
      refusal(device_scenario("{kind: vgpu, type: L40S-24C}", "{nodes: 3, gpus_per_node: 1}"), inventory),
      Contains("needs 3 vGPUs of type L40S-24C, host vendor-vfio-host has 2"));
}

TEST_CASE("time-sliced vGPUs of one card are of one type, MIG-backed ones need not be") {
  auto inventory = host("vendor-vfio-host");
  const std::string tenants =
      "{gpus_per_node: 1, vgpu_type: L40S-12C}, {gpus_per_node: 1, vgpu_type: L40S-24C}";
  const auto words = refusal(device_scenario("{kind: vgpu}", tenants), inventory);
  CHECK_THAT(words, Contains("a card has time-sliced vGPUs of one type"));
  for (auto& device : inventory.devices) {
    for (auto& type : device.vgpu_types) {
      type.name = type.id == "1150" ? "NVIDIA L40S-1-12C" : "NVIDIA L40S-2-24C";
    }
  }
  const auto plan = plan_of(device_scenario("{kind: vgpu}",
                                            "{gpus_per_node: 1, vgpu_type: L40S-1-12C}, "
                                            "{gpus_per_node: 1, vgpu_type: L40S-2-24C}"),
                            inventory);
  CHECK(node(plan, 0).devices[0].grant.vgpu_type == "1150");
  CHECK(node(plan, 1).devices[0].grant.vgpu_type == "1153");
  CHECK(is_mig_backed("NVIDIA A100-2-10C"));
  CHECK_FALSE(is_mig_backed("NVIDIA A100-10C"));
}

TEST_CASE("tenants share one card unless they are to be spread") {
  auto inventory = host("mdev-host");
  auto second = at(inventory, "0000:3b:00.0");
  second.function.address = "0000:4b:00.0";
  inventory.devices.push_back(second);
  const auto packed = plan_of(device_scenario("{kind: vgpu, type: T4-4C}", two_tenants), inventory);
  CHECK(node(packed, 0).device_addresses() == node(packed, 1).device_addresses());
  const auto spread =
      plan_of(device_scenario("{kind: vgpu, type: T4-4C, spread: true}", two_tenants), inventory);
  CHECK(node(spread, 0).device_addresses() != node(spread, 1).device_addresses());
}

TEST_CASE("a GPU gets the adapter below its switch") {
  const auto plan = plan_of(device_scenario("{kind: passthrough, nics: {kind: passthrough, per_node: 2}}",
                                            "{gpus_per_node: 2}, {gpus_per_node: 1}"),
                            host("hgx-h200"));
  for (const std::size_t tenant : {0u, 1u}) {
    const auto addresses = node(plan, tenant).device_addresses();
    const auto gpus = tenant == 0 ? 2u : 1u;
    REQUIRE(addresses.size() == gpus + 2);
    for (std::size_t i = 0; i < gpus; ++i) {
      const auto bus = std::stoi(addresses[i].substr(5, 2), nullptr, 16);
      CHECK(addresses[gpus + i] == fmt::format("0000:{:02x}:00.0", bus + 1));
    }
  }
  CHECK_THAT(node(plan, 0).devices_reason,
             Contains("NIC 0000:19:00.0 below the same PCIe switch as 0000:18:00.0"));
}

TEST_CASE("else one of its root complex, else of its NUMA node, and a port that is up goes first") {
  const std::string nics =
      "{kind: passthrough, select: {address: [0000:b1:00.0]}, nics: {kind: passthrough}}";
  auto inventory = host("r750xa");
  const auto reason = [&] { return node(plan_of(device_scenario(nics, one), inventory), 0).devices_reason; };
  CHECK_THAT(reason(), Contains("NIC 0000:98:00.0 on the NUMA node of 0000:b1:00.0"));
  at(inventory, "0000:98:00.1").function.root_complex = "pci0000:b0";
  CHECK_THAT(reason(),
             Contains("NIC 0000:98:00.1 below the same root complex as 0000:b1:00.0 with no port up"));
  at(inventory, "0000:98:00.1").function.root_complex = "pci0000:97";
  at(inventory, "0000:98:00.0").ports[0].state = "DOWN";
  at(inventory, "0000:98:00.1").ports[0].state = "ACTIVE";
  CHECK_THAT(reason(), Contains("NIC 0000:98:00.1 on the NUMA node of"));
}

TEST_CASE("a device whose NUMA node the firmware does not name is on no second one") {
  auto inventory = host("r750xa");
  const auto reason = [&] {
    return node(
               plan_of(device_scenario("{kind: passthrough, select: {address: [0000:17:00.0, 0000:b1:00.0]}}",
                                       "{gpus_per_node: 2}"),
                       inventory),
               0)
        .devices_reason;
  };
  CHECK_THAT(reason(), Contains("on several NUMA nodes"));
  at(inventory, "0000:b1:00.0").function.numa_node = -1;
  CHECK_THAT(reason(), Contains("on NUMA node 0 and one that the firmware does not name"));
  at(inventory, "0000:17:00.0").function.numa_node = -1;
  CHECK_THAT(reason(), Contains("on a NUMA node that the firmware does not name"));
}

TEST_CASE("virtual functions of an adapter are known before they are made") {
  const auto plan =
      plan_of(device_scenario("{kind: passthrough, select: {vendor: 0x10de}, nics: {kind: vf, select: "
                              "{address: [0000:98:00.0]}}}",
                              two_tenants),
              host("r750xa"));
  const auto& nic = node(plan, 0).devices.at(1);
  CHECK(nic.grant.kind == vmctl::GrantKind::virtual_function);
  CHECK(nic.grant.address == "0000:98:00.2");
  CHECK(nic.grant.physical_function == "0000:98:00.0");
  CHECK(nic.mac.empty());  // InfiniBand
  CHECK(node(plan, 1).devices.at(1).grant.address == "0000:98:00.3");
  CHECK_THAT(refusal(device_scenario("{kind: passthrough, nics: {kind: vf, per_node: 9, select: {address: "
                                     "[0000:98:00.0]}}}",
                                     one),
                     host("r750xa")),
             Contains("needs 9 adapters, host r750xa has 8 that devices.nics.select allows"));
}

TEST_CASE("Ethernet virtual functions have MACs of their own") {
  const auto plan =
      plan_of(device_scenario("{kind: passthrough, select: {address: [0000:78:00.0, 0000:90:00.0]}, "
                              "nics: {kind: vf, per_node: 1}}",
                              two_tenants),
              host("hgx-h200"));
  const auto& first = node(plan, 0).devices.at(1);
  std::set<std::uint32_t> taken;
  CHECK(first.mac == function_mac("hgx-h200", first.grant.address, taken));
  CHECK(first.mac.starts_with("52:54:01:"));
  CHECK(node(plan, 1).devices.at(1).mac != first.mac);
}

TEST_CASE("a virtual function has the same MAC in every plan, and others have others") {
  const auto mac = [](const char* host, const char* address) {
    std::set<std::uint32_t> taken;
    return function_mac(host, address, taken);
  };
  CHECK(mac("a", "0000:78:00.2") == mac("a", "0000:78:00.2"));
  CHECK(mac("a", "0000:78:00.2") != mac("b", "0000:78:00.2"));
  CHECK(mac("a", "0000:78:00.2") != mac("a", "0000:78:00.3"));
  // Where two meet in one case, the next is free.
  std::set<std::uint32_t> taken;
  std::set<std::string> macs;
  for (int i = 0; i < 3; ++i) { macs.insert(function_mac("a", "0000:78:00.2", taken)); }
  CHECK(macs.size() == 3);
}

TEST_CASE("devices that are in others' way go back, and the plan counts that") {
  const auto planned = [](const std::string& devices, const std::string& cases,
                          const vmctl::Inventory& inventory) {
    const auto s = decode_scenario(
        fmt::format("name: planned\nworkload: {{}}\nguest: {{memory: 4GiB, vcpus: 4}}\ndevices: {}\ncases: "
                    "[{}]\narms: [vm]\npairs: 2\n",
                    devices, cases),
        "planned.yaml");
    return plan_of(s, inventory).device_bindings;
  };
  // One function, then both: their number changes only while there is none.
  CHECK(planned("{kind: vf, select: {address: [0000:98:00.1]}}",
                "{name: a, scale: {nodes: [1, 2], gpus_per_node: 1}}", host("r750xa")) == 2 + 4);
  CHECK(planned("{kind: vf, select: {address: [0000:98:00.1]}}",
                "{name: a, scale: {nodes: [2, 1], gpus_per_node: 1}}", host("r750xa")) == 4);
  CHECK(planned("{kind: passthrough}", "{name: a, scale: {nodes: [1, 2], gpus_per_node: 1}}",
                host("r750xa")) == 4);
  // vGPUs are made for each VM, also that which both cases have.
  auto inventory = host("vendor-vfio-host");
  for (auto& device : inventory.devices) {
    for (auto& type : device.vgpu_types) {
      type.name = type.id == "1150" ? "NVIDIA L40S-1-12C" : "NVIDIA L40S-2-24C";
    }
  }
  const std::string small = "{gpus_per_node: 1, vgpu_type: L40S-1-12C}";
  const std::string large = "{gpus_per_node: 1, vgpu_type: L40S-2-24C}";
  const auto cases =
      fmt::format("{{name: a, tenants: [{0}, {1}]}}, {{name: b, tenants: [{0}, {0}]}}", small, large);
  CHECK(planned("{kind: vgpu}", cases, inventory) == 4 * (2 + 2));
}

TEST_CASE("kind vf: nodes get virtual functions of what is named, made or to be made") {
  const std::string devices = "{kind: vf, select: {address: [0000:98:00.1]}}";
  const auto plan = plan_of(device_scenario(devices, two_tenants), host("r750xa"));
  CHECK(node(plan, 0).device_addresses() == List{"0000:98:01.2"});
  CHECK(node(plan, 1).device_addresses() == List{"0000:98:01.3"});
  auto inventory = host("r750xa");
  at(inventory, "0000:98:00.1").function.virtual_functions_possible = 0;
  CHECK_THAT(refusal(device_scenario(devices, one), inventory), Contains("it has no virtual functions"));
}

TEST_CASE("the domain's NUMA cells follow the cores, and its memory comes from their nodes") {
  const auto s =
      device_scenario("{kind: passthrough, select: {address: [0000:17:00.0, 0000:b1:00.0]}, clique: all}",
                      "{gpus_per_node: 2}");
  const auto plan = plan_of(s, host("r750xa"));
  const auto spec =
      vmctl::domain_spec(node_group(plan.placements[0], arm_vm), 0, 0, {"E1", "tag"}, vmctl::VmFacts{});
  CHECK(spec.vcpu_cores == std::vector<int>{0, 2, 1, 3});
  REQUIRE(spec.numa_cells.size() == 2);
  CHECK(spec.numa_cells[0].vcpus == std::vector<int>{0, 1});
  CHECK(spec.numa_cells[1].host_node == 1);
  CHECK(spec.numa_cells[1].memory_bytes == 2ULL << 30);
  CHECK(spec.memory_by_cell);
  CHECK(spec.clique == vmctl::Clique::all);
  CHECK_FALSE(spec.numa_node);
}

TEST_CASE("an arm may hide where devices sit, bounce what they read and write, and map memory by iommufd") {
  const auto s = device_scenario(
      "{kind: passthrough, select: {address: [0000:17:00.0, 0000:b1:00.0]}}", "{gpus_per_node: 2}",
      "[vm, {name: by-node, like: vm, guest: {topology: numa}}, {name: flat, like: vm, guest: "
      "{topology: flat, memory_encryption: bounce}, devices: {vfio: iommufd}}]");
  const auto plan = plan_of(s, host("r750xa"));
  REQUIRE(plan.placements.size() == 3);
  const auto spec = [&](std::size_t placement) {
    return vmctl::domain_spec(node_group(plan.placements[placement], arm_vm), 0, 0, {"E1", "tag"},
                              vmctl::VmFacts{});
  };
  const auto buses = [&](std::size_t placement) {
    const auto there = spec(placement);
    std::vector<std::optional<int>> cells;
    for (const auto& one : vmctl::guest_layout(there.devices, vmctl::host_nodes(there)).controllers) {
      if (one.model == "pcie-expander-bus") { cells.push_back(one.numa_cell); }
    }
    return cells;
  };
  CHECK(buses(0) == std::vector<std::optional<int>>{0, 1});
  CHECK(buses(1) == std::vector<std::optional<int>>{0, 1});
  CHECK(buses(2) == std::vector<std::optional<int>>{std::nullopt});
  CHECK(spec(2).devices[1].grant.address == "0000:b1:00.0");
  CHECK(spec(0).kernel_command_line.find("swiotlb") == std::string::npos);
  CHECK(spec(2).kernel_command_line.ends_with(" swiotlb=force"));
  vmctl::VmFacts kvm;
  kvm.virtualization = Virtualization::kvm;
  const auto group = node_group(plan.placements[0], arm_vm);
  CHECK(spec(0).kernel_command_line.ends_with(" no_timer_check"));
  CHECK(vmctl::domain_spec(group, 0, 0, {"E1", "tag"}, kvm).kernel_command_line.find("no_timer_check") ==
        std::string::npos);
  CHECK(spec(2).memory_encryption == vmctl::MemoryEncryption::bounce);
  CHECK(spec(1).devices[1].vfio == vmctl::Vfio::container);
  CHECK(spec(2).devices[1].vfio == vmctl::Vfio::iommufd);
}

TEST_CASE("GPUs without cores beside them are warned of, with what the validity rule will say") {
  const auto warnings = [](std::size_t cores_near) {
    auto inventory = host("r750xa");
    std::size_t near = 0;
    std::erase_if(inventory.cores,
                  [&](const auto& core) { return core.numa_node == 0 && ++near > cores_near; });
    const auto s = device_scenario("{kind: passthrough, select: {address: [0000:17:00.0]}}", one);
    return join(plan_of(s, inventory).warnings, " ");
  };
  CHECK_THAT(warnings(4), !Contains("elsewhere"));
  CHECK_THAT(
      warnings(3),
      Contains("case a: t1n1 has its devices on NUMA node 0 and cores elsewhere, so each of its trials "
               "will be invalid by NUM-1 (use fewer vcpus)"));
}

TEST_CASE("a CPU feature that kills QEMU on some hosts is hidden from KVM's guests") {
  const auto s = device_scenario("{kind: passthrough}", "{gpus_per_node: 1}");
  const auto plan = plan_of(s, host("r750xa"));
  const auto hides = [&](Virtualization virtualization) {
    vmctl::VmFacts facts;
    facts.cpu_traits.hide_arch_capabilities = true;
    facts.virtualization = virtualization;
    return vmctl::domain_spec(node_group(plan.placements[0], arm_vm), 0, 0, {"E1", "tag"}, facts)
        .cpu_traits.hide_arch_capabilities;
  };
  CHECK(hides(Virtualization::kvm));
  CHECK(hides(Virtualization::kvm_on_emulated));
  CHECK_FALSE(hides(Virtualization::tcg));
}

TEST_CASE("a guest with devices may take longer to boot") {
  const auto s = device_scenario("{kind: passthrough}", "{gpus_per_node: 2}, {nodes: 1}");
  const auto plan = plan_of(s, host("r750xa"));
  CHECK(boot_deadline_ns(s, s.guest, node(plan, 1)) == 90'000'000'000);
  CHECK(boot_deadline_ns(s, s.guest, node(plan, 0)) == (90 + 2 * 90 + 30) * 1'000'000'000L);
}

TEST_CASE("a guest without devices has no NUMA cells") {
  const auto s = device_scenario("{kind: none}", "{nodes: 1}");
  const auto plan = plan_of(s, host("r750xa"));
  CHECK(vmctl::domain_spec(node_group(plan.placements[0], arm_vm), 0, 0, {"E1", "tag"}, vmctl::VmFacts{})
            .numa_cells.empty());
}
