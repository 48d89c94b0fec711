// Nodes whose network is a virtual function, over hosts as `doctor --record` writes them.

#include <set>

#include "common/error.h"
#include "harness/plan/device_demand.h"
#include "harness/plan/devices/device_slots.h"
#include "harness/plan/host_shares.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/plan/planning.h"
#include "tests/support/catch.h"
#include "vmctl/devices/device_users.h"

namespace virtrain::harness {
namespace {

using virtrain::test::Contains;
using vmctl::HostNetwork;
using vmctl::HostNetworkKind;

constexpr const char* experiment = "20261120t083012-7f3a2b";

/// With those who use its devices.
vmctl::Inventory nic_host() {
  auto inventory = host("sriov-nic-host");
  const auto root = std::filesystem::path(VIRTRAIN_BINARY_DIR) / "hosts/sriov-nic-host";
  for (auto* list : {&inventory.devices, &inventory.other_devices}) { vmctl::find_users(root, *list); }
  return inventory;
}

/// `free`: functions 1 to `free` are as the first one is.
std::vector<PlanHost> two_hosts(const std::string& nic = "ens1f0", int free = 1) {
  std::vector<PlanHost> hosts;
  for (const auto* name : {"a", "b"}) {
    hosts.push_back({name, nic_host(), false, HostNetwork{HostNetworkKind::vf, nic}});
    hosts.back().inventory.hostname = name;
    int number = 0;
    for (auto& device : hosts.back().inventory.other_devices) {
      if (device.function.physical_function.empty() || ++number > free) { continue; }
      device.function.driver = "igbvf";
      device.interfaces = {"ens1f0v" + std::to_string(number - 1)};
      device.users.clear();
    }
  }
  return hosts;
}

Scenario scenario_of(std::int64_t nodes, const std::string& arms = "[bare_metal, vm]",
                     const std::string& guest = "vcpus: 1, memory: 1GiB", const std::string& more = "") {
  return decode_scenario("name: vf\nworkload: {batch_size: 4}\nguest: {" + guest +
                             "}\ncases: [{name: both, tenants: [{nodes: " + std::to_string(nodes) +
                             "}]}]\narms: " + arms + "\npairs: 1\n" + more,
                         "vf.yaml");
}

std::string refusal(const Scenario& scenario, const std::vector<PlanHost>& hosts, ErrorCode code) {
  try {
    make_plan(scenario, hosts);
  } catch (const Error& error) {
    CHECK(to_string(error.code()) == to_string(code));
    return error.message();
  }
  return "(planned)";
}

TEST_CASE("each node has a virtual function of its host's NIC, the same in both arms, and leases it") {
  const auto hosts = two_hosts("ens1f0", 2);
  auto plan = make_plan(scenario_of(4), hosts);
  REQUIRE(plan.placements.size() == 1);
  std::set<std::string> functions;
  for (const auto& node : plan.placements[0].tenants[0].nodes) {
    REQUIRE(node.network_function);
    CHECK(node.devices.empty());
    CHECK(node.network_function->grant.kind == vmctl::GrantKind::virtual_function);
    CHECK(node.network_function->grant.physical_function == "0000:03:00.0");
    functions.insert(node.host + " " + node.network_function->grant.address);
  }
  CHECK(functions ==
        std::set<std::string>{"a 0000:03:10.0", "a 0000:03:10.2", "b 0000:03:10.0", "b 0000:03:10.2"});
  CHECK(resources_of(plan).at("b") ==
        std::vector<std::string>{"core:0", "core:1", "device:0000:03:10.0", "device:0000:03:10.2"});
  CHECK(grants_of(plan.placements[0], experiment).at("a").size() == 2);
  const auto demands = device_demands(plan, scenario_of(4));
  REQUIRE(demands.size() == 1);
  CHECK(demands[0].devices().size() == 4);
  CHECK_THAT(to_table(plan, false), Contains("network by 0000:03:10.2"));
  CHECK(to_json(plan)["trials"][0]["tenants"][0]["nodes"][0]["network"]["function"]["address"] ==
        "0000:03:10.0");
  give_addresses(plan, experiment);
  // Each host would allow its part.
  for (const auto& one : hosts) {
    vmctl::RunSpec run{.experiment = experiment};
    run.host = one.name;
    run.network = one.network;
    const auto resources = resources_of(plan).at(one.name);
    const auto grants = grants_of(plan.placements[0], experiment).at(one.name);
    for (const auto* base : {"bare_metal", "vm"}) {
      CHECK_NOTHROW(vmctl::judge_nodes(one.inventory, resources, node_group(plan.placements[0], base), run));
    }
    CHECK_NOTHROW(vmctl::judge_lending(one.inventory, resources, grants));
    CHECK_NOTHROW(vmctl::judge_demands(one.inventory, demands));
  }
}

TEST_CASE("a function that somebody uses is not free, and neither is one without what an arm needs") {
  const auto inventory = nic_host();
  const auto offer = [&](bool for_vms, bool for_slices, const char* nic = "ens1f0") {
    return offered_network_functions(nic, inventory, for_vms, for_slices);
  };
  const auto ids = [](const Offer& of) {
    std::vector<std::string> all;
    for (const auto& slot : of.slots) { all.push_back(slot.id); }
    return all;
  };
  CHECK(ids(offer(true, true)) == std::vector<std::string>{"0000:03:10.0"});
  CHECK(ids(offer(false, true)) == std::vector<std::string>{"0000:03:10.0"});
  // A VM needs no driver of the host's.
  CHECK(ids(offer(true, false)) == std::vector<std::string>{"0000:03:10.0", "0000:03:10.2"});
  const auto said = fmt::format("{}", fmt::join(offer(true, false).reasons, "; "));
  CHECK_THAT(said, Contains("0000:03:10.4 (") &&
                       Contains(": in use: its interface is in another network namespace"));
  CHECK_THAT(said,
             Contains("0000:03:10.6 (") && Contains(": in use: qemu-system-x86 (pid 4242) has /dev/vfio/23"));
  CHECK_THAT(said, Contains("0000:03:11.0 (") && Contains(": in use: ens1f0v4 has a route"));
  CHECK(offer(true, false).in_use == 3);
  CHECK(offer(true, true, "ens1f1").slots.empty());
  CHECK_THAT(offer(true, true, "ens1f0v0").reasons.at(0), Contains("is a virtual function itself"));
  CHECK_THAT(offer(true, true, "br-data").reasons.at(0),
             Contains("br-data is not an interface of a PCI NIC"));
}

TEST_CASE("too few virtual functions are refused with their number and the command that makes them") {
  CHECK_THAT(
      refusal(scenario_of(2), two_hosts("ens1f1"), ErrorCode::host_unable),
      Contains("case both: 1 node on a need a virtual function of ens1f1 each, 0 can be had (make them: "
               "echo 1 > /sys/class/net/ens1f1/device/sriov_numvfs)"));
  const auto scenario = scenario_of(14, "[vm]");
  CHECK_THAT(
      refusal(scenario, two_hosts("ens1f0", 5), ErrorCode::host_unable),
      Contains("7 nodes on a need a virtual function of ens1f0 each, 5 can be had (make them: echo 0 > "
               "/sys/class/net/ens1f0/device/sriov_numvfs; echo 7 > "
               "/sys/class/net/ens1f0/device/sriov_numvfs)"));
  CHECK_THAT(refusal(scenario_of(16, "[vm]"), two_hosts("ens1f0", 5), ErrorCode::host_unable),
             Contains("8 nodes on a") && Contains("it can have 7 at most: use fewer nodes on this host"));
  // Those in use may become free.
  CHECK_THAT(refusal(scenario_of(6, "[vm]"), two_hosts(), ErrorCode::busy), Contains("2 can be had"));
}

TEST_CASE("without an IOMMU VMs get no virtual function, and slices do") {
  auto hosts = two_hosts("ens1f0", 2);
  for (auto& one : hosts) {
    for (auto& device : one.inventory.other_devices) {
      device.function.iommu_group.reset();
      device.mechanism = vmctl::Mechanism::none;
      device.mechanism_reason = "it is in no IOMMU group (doctor's IOM-1: switch the IOMMU on)";
    }
  }
  CHECK_THAT(refusal(scenario_of(2), hosts, ErrorCode::host_unable),
             Contains("0 can be had") && Contains("it is in no IOMMU group"));
  CHECK(make_plan(scenario_of(2, "[bare_metal]"), hosts).placements[0].tenants[0].nodes[0].network_function);
}

TEST_CASE("ranks on the hosts' own NIC need no virtual function, nor does a host that is the only one") {
  const auto shared = make_plan(scenario_of(2, "[bare_metal_shared]"), two_hosts("ens1f1"));
  CHECK_FALSE(shared.placements[0].tenants[0].nodes[0].network_function);
  const auto alone = make_plan(scenario_of(2), {two_hosts("ens1f1").front()});
  CHECK_FALSE(alone.placements[0].tenants[0].nodes[0].network_function);
}

TEST_CASE("what only virtio NICs have is refused where nodes have virtual functions") {
  const auto hosts = two_hosts();
  CHECK_THAT(refusal(scenario_of(2, "[vm]", "vcpus: 1, memory: 1GiB, network: {queues: 2}"), hosts,
                     ErrorCode::host_unable),
             Contains("guest.network: vhost and queues are of virtio NICs"));
  CHECK_THAT(refusal(scenario_of(2, "[vm]", "vcpus: 1, memory: 1GiB, limits: {network_out: 1MiB/s}"), hosts,
                     ErrorCode::host_unable),
             Contains("limits: what a node sends past the host"));
  CHECK(impossible_over_functions(scenario_of(2), HostNetworkKind::vf).empty());
}

}  // namespace
}  // namespace virtrain::harness
