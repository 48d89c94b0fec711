#include "harness/plan/host_shares.h"

#include <set>

#include "common/error.h"
#include "common/text/text.h"
#include "harness/plan/node_group.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/plan/planning.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

using Shares = std::vector<std::vector<std::int64_t>>;

/// A tenant of so many nodes.
Tenant tenant(std::int64_t nodes) {
  Tenant made;
  made.name = "trainer";
  made.nodes = nodes;
  return made;
}

Case case_of(std::vector<Tenant> tenants) {
  Case wanted;
  wanted.name = "case";
  wanted.tenants = std::move(tenants);
  return wanted;
}

/// A scenario of CPU nodes with two vCPUs; `cases` is its list.
Scenario scenario_of(const std::string& cases, const std::string& more = "") {
  return decode_scenario("name: hosts\nworkload: {batch_size: 4}\nguest: {vcpus: 2, memory: 1GiB}\ncases: " +
                             cases + "\narms: [bare_metal, vm]\npairs: 2\n" + more,
                         "hosts.yaml");
}

/// Hosts of two NUMA nodes with two cores each.
std::vector<PlanHost> hosts(const std::vector<std::string>& names) {
  std::vector<PlanHost> all;
  for (const auto& name : names) {
    all.push_back({name, host(2, 2), false});
    all.back().inventory.hostname = name;
  }
  return all;
}

/// "t1n1 a", "t1n2 b" of a placement.
std::vector<std::string> places(const Placement& placement) {
  std::vector<std::string> all;
  for (const auto& placed : placement.tenants) {
    for (const auto& node : placed.nodes) { all.push_back(node.hostname + " " + node.host); }
  }
  return all;
}

std::string words_of_refusal(const Scenario& scenario, const std::vector<PlanHost>& on) {
  try {
    make_plan(scenario, on);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
    return error.message();
  }
  return "";
}

TEST_CASE("nodes go to hosts as evenly as it goes, and those that the case has used least come first") {
  CHECK(share_nodes(case_of({tenant(1)}), {"a", "b", "c"}).nodes == Shares{{1}, {0}, {0}});
  CHECK(share_nodes(case_of({tenant(3)}), {"a", "b", "c"}).nodes == Shares{{1}, {1}, {1}});
  CHECK(share_nodes(case_of({tenant(8)}), {"a", "b", "c"}).nodes == Shares{{3}, {3}, {2}});
  CHECK(share_nodes(case_of({tenant(1), tenant(1)}), {"a", "b"}).nodes == Shares{{1, 0}, {0, 1}});
  CHECK(share_nodes(case_of({tenant(2), tenant(1)}), {"a", "b", "c"}).nodes ==
        Shares{{1, 0}, {1, 0}, {0, 1}});
}

TEST_CASE("so many nodes to each host, or all to one") {
  auto packed = tenant(5);
  packed.per_host = 2;
  CHECK(share_nodes(case_of({packed}), {"a", "b", "c"}).nodes == Shares{{2}, {2}, {1}});
  const auto few = share_nodes(case_of({packed}), {"a", "b"});
  REQUIRE(few.problems.size() == 1);
  CHECK(few.problems[0] ==
        "case case: tenant trainer: 5 nodes with 2 on each host need 3 hosts, there are 2");
  auto named = tenant(2);
  named.on = "b";
  CHECK(share_nodes(case_of({named}), {"a", "b"}).nodes == Shares{{0}, {2}});
  named.on = "x";
  CHECK_THAT(share_nodes(case_of({named}), {"a", "b"}).problems.at(0),
             Contains("there is no host x (allowed: a, b)"));
}

TEST_CASE("a plan over hosts numbers a tenant's nodes over all of them, and each host has its own cores") {
  const auto plan = make_plan(scenario_of("[{name: weak, scale: {nodes: [1, 2, 3], per_host: 1}}]"),
                              hosts({"a", "b", "c"}));
  REQUIRE(plan.placements.size() == 3);
  CHECK(places(plan.placements[0]) == std::vector<std::string>{"t1n1 a"});
  CHECK(places(plan.placements[2]) == std::vector<std::string>{"t1n1 a", "t1n2 b", "t1n3 c"});
  for (const auto& node : plan.placements[2].tenants[0].nodes) { CHECK(node.cores == std::vector{0, 1}); }
  CHECK(hosts_of(plan) == std::vector<std::string>{"a", "b", "c"});
  CHECK(crosses_hosts(plan));
  const auto resources = resources_of(plan);
  REQUIRE(resources.size() == 3);
  for (const auto& [host, names] : resources) {
    CHECK(names == std::vector<std::string>{"core:0", "core:1"});
  }
  const auto json = to_json(plan);
  CHECK(json["trials"].back()["tenants"][0]["nodes"][1]["host"] == "b");
  CHECK_THAT(to_table(plan, false), Contains("tenant-1 t1n2 on b: "));
}

TEST_CASE("the same device address on two hosts is two devices") {
  auto two = hosts({"a", "b"});
  for (auto& room : two) {
    vmctl::HostDevice device;
    device.function.address = "0000:65:00.0";
    device.function.vendor = "0x10de";
    device.function.iommu_group = 1;
    device.function.iommu_group_members = {"0000:65:00.0"};
    device.device_class = vmctl::DeviceClass::gpu;
    device.mechanism = vmctl::Mechanism::passthrough;
    room.inventory.devices = {device};
  }
  const auto scenario = scenario_of("[{name: two, tenants: [{nodes: 2, gpus_per_node: 1}]}]",
                                    "devices: {kind: passthrough, select: {vendor: 0x10de}}\n");
  const auto plan = make_plan(scenario, two);
  const auto grants = grants_of(plan.placements.at(0), "");
  REQUIRE(grants.size() == 2);
  CHECK(grants.at("a") == grants.at("b"));
  CHECK(resources_of(plan).at("b").back() == "device:0000:65:00.0");
  CHECK(plan.device_bindings == 2 * make_plan(scenario_of("[{name: one, tenants: [{nodes: 1, gpus_per_node: "
                                                          "1}]}]",
                                                          "devices: {kind: passthrough, select: {vendor: "
                                                          "0x10de}}\n"),
                                              {two[0]})
                                        .device_bindings);
}

TEST_CASE("what a host lacks is said of it, and of each host") {
  auto two = hosts({"a", "b"});
  two[1].inventory.cores.resize(1);
  CHECK_THAT(words_of_refusal(scenario_of("[{name: two, tenants: [{nodes: 2}]}]"), two),
             Contains("host b has 1"));
  two[0].inventory.cores.resize(1);
  two[1].inventory.hostname = two[0].inventory.hostname = "localhost";  // as clones of one image have it
  const auto words = words_of_refusal(scenario_of("[{name: two, tenants: [{nodes: 2}]}]"), two);
  CHECK_THAT(words, Contains("host a has 1") && Contains("host b has 1"));
  CHECK_THAT(words_of_refusal(scenario_of("[{name: two, tenants: [{nodes: 2, on: x}]}]"), hosts({"a", "b"})),
             Contains("tenant tenant-1: there is no host x"));
}

TEST_CASE("bare metal on the hosts' own NICs has a slice on each host, in place of its nodes") {
  auto shared = scenario_of("[{name: three, tenants: [{nodes: 3}]}]");
  shared.arms[0].base = arm_bare_metal_shared;
  const auto plan = make_plan(shared, hosts({"a", "b"}));
  const auto group = node_group(plan.placements.at(0), plan.trials.at(0).base);
  CHECK(group.kind == vmctl::NodeKind::shared_slice);
  std::vector<std::string> places;
  for (const auto& node : group.tenants.at(0)) { places.push_back(node.host); }
  CHECK(places == std::vector<std::string>{"a", "a", "b"});  // so that each slice's ranks are adjacent
}

TEST_CASE("what one host has only is refused over several") {
  auto secure = scenario_of("[{name: two, tenants: [{nodes: 2}]}]", "security: true\n");
  CHECK_THAT(words_of_refusal(secure, hosts({"a", "b"})), Contains("leak searches are of one host"));
  CHECK(words_of_refusal(secure, hosts({"a"})).empty());
}

TEST_CASE("a host's part of a plan has its nodes and no others") {
  const auto plan =
      make_plan(scenario_of("[{name: two, tenants: [{nodes: 2}, {nodes: 1, on: b}]}]"), hosts({"a", "b"}));
  const auto part = part_of_host(plan, "a");
  REQUIRE(part.placements.at(0).tenants.size() == 1);
  CHECK(places(part.placements[0]) == std::vector<std::string>{"t1n1 a"});
  CHECK(part_of_host(plan, "b").placements.at(0).nodes() == 2);
}

TEST_CASE("addresses between hosts are those of the experiment, and on one host they stay") {
  auto plan = make_plan(scenario_of("[{name: two, tenants: [{nodes: 2}, {nodes: 2}]}]"), hosts({"a", "b"}));
  auto other = plan;
  give_addresses(plan, "20261120t083012-7f3a2b");
  give_addresses(other, "20261120t083013-1d2c3b");
  std::set<std::string> addresses, macs;
  for (const auto* each : {&plan, &other}) {
    for (const auto& placed : each->placements.at(0).tenants) {
      std::set<std::string> networks;
      for (const auto& node : placed.nodes) {
        CHECK(node.address.ends_with("/22"));
        CHECK(addresses.insert(node.address).second);
        CHECK(macs.insert(node.mac).second);
        networks.insert(node.address.substr(0, node.address.rfind('.')));
      }
      CHECK(networks.size() == 1);
    }
  }
  CHECK(addresses.size() == 8);
  auto alone = make_plan(scenario_of("[{name: two, tenants: [{nodes: 2}]}]"), hosts({"a"}));
  const auto before = alone.placements[0].tenants[0].nodes[1].address;
  give_addresses(alone, "20261120t083012-7f3a2b");
  CHECK(alone.placements[0].tenants[0].nodes[1].address == before);
}

TEST_CASE("a tenant says in one way where its nodes are") {
  const auto refusal = [](const std::string& keys) {
    try {
      scenario_of("[{name: two, tenants: [{nodes: 2, " + keys + "}]}]");
    } catch (const Error& error) { return error.message(); }
    return std::string();
  };
  CHECK_THAT(refusal("on: a, per_host: 1"), Contains("hosts.yaml:4:") && Contains("remove on, or per_host"));
  CHECK_THAT(refusal("on: a, spread: hosts"), Contains("remove on, or spread"));
  CHECK_THAT(refusal("per_host: 1, spread: hosts"), Contains("remove it, or per_host"));
  CHECK_THAT(refusal("per_host: 0"), Contains("per_host"));
  CHECK_THAT(refusal("spread: racks"), Contains("allowed: hosts"));
  CHECK(refusal("spread: hosts").empty());
}

}  // namespace
