// Victims beside neighbours: which arms a scenario gets, where they sit, in what order they run.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/error.h"
#include "common/text/text.h"
#include "harness/job/programs.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/plan/planning.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

Scenario isolation(const std::string& more, const std::string& arms = "[vm]", int pairs = 3) {
  return decode_scenario(
      fmt::format("name: isolated\nworkload: {{backend: cpu}}\n"
                  "guest: {{memory: 1GiB, vcpus: 1}}\n"
                  "isolation:\n  victims: [{{name: trainer, nodes: 1}}]\n"
                  "  aggressors: [cpu, net]\n  levels: [25%, 100%]\n{}arms: {}\npairs: {}\n",
                  more, arms, pairs),
      "isolated.yaml");
}

/// Two sockets of two cores with two threads each; cores of a socket share a cache.
vmctl::Inventory two_sockets() {
  vmctl::Inventory inventory;
  inventory.hostname = "host";
  for (int core = 0; core < 4; ++core) { inventory.cores.push_back({core, core / 2, core, core / 2 * 2}); }
  for (int core = 0; core < 4; ++core) {
    inventory.cores.push_back({core + 4, core / 2, core, core / 2 * 2});
  }
  inventory.numa_nodes = {{0, 32ULL << 30, 0, 0}, {1, 32ULL << 30, 0, 0}};
  inventory.memory_bytes = inventory.available_memory_bytes = 64ULL << 30;
  return inventory;
}

Plan isolation_plan_of(const Scenario& scenario, const vmctl::Inventory& inventory) {
  return allowed_plan(scenario, inventory, true);
}

std::vector<std::string> round_of(const Plan& plan, std::int64_t pair) {
  std::vector<std::string> arms;
  for (const auto& trial : plan.trials) {
    if (trial.pair == pair) { arms.push_back(trial.arm); }
  }
  return arms;
}

const Placement& placement_of(const Plan& plan, const std::string& arm) {
  const auto found = std::find_if(plan.trials.begin(), plan.trials.end(),
                                  [&](const PlannedTrial& trial) { return trial.arm == arm; });
  REQUIRE(found != plan.trials.end());
  return plan.placements[found->placement];
}

/// The core of the victim and that of its neighbour beside the aggressor cpu.
std::pair<int, int> cores_with(const std::string& share, vmctl::Inventory inventory = two_sockets()) {
  const auto plan = isolation_plan_of(isolation("  share: " + share + "\n"), inventory);
  const auto& tenants = placement_of(plan, "vm+cpu@25%").tenants;
  return {tenants.at(0).nodes.at(0).cores.at(0), tenants.at(1).nodes.at(0).cores.at(0)};
}

std::string refusal(const std::string& share, const vmctl::Inventory& inventory,
                    ErrorCode code = ErrorCode::host_unable) {
  try {
    isolation_plan_of(isolation("  share: " + share + "\n"), inventory);
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "not refused";
}

using List = std::vector<std::string>;

/// A shipped scenario; vGPUs are of the type.
Scenario shipped(const std::string& name, const std::string& vgpu_type = "") {
  auto text = load_scenario(std::string(VIRTRAIN_SOURCE_DIR) + "/scenarios/" + name).text;
  const std::string of_file = "A100-20C";
  if (!vgpu_type.empty()) { text.replace(text.find(of_file), of_file.size(), vgpu_type); }
  return decode_scenario(text, name);
}

/// A victim with GPUs next to a neighbour that has as many.
Scenario with_gpus(const std::string& share, const std::string& devices = "{kind: passthrough}", int gpus = 1,
                   const std::string& aggressors = "[gemm]") {
  return decode_scenario(
      fmt::format("name: shared\nworkload: {{backend: cuda}}\nguest: {{memory: 4GiB, vcpus: 2, pinning: "
                  "numa}}\ndevices: {}\nisolation:\n  victims: [{{name: trainer, gpus_per_node: {}}}]\n"
                  "  aggressors: {}\n  share: {}\npairs: 2\n",
                  devices, gpus, aggressors, share),
      "shared.yaml");
}

std::string only(const std::string& addresses) {
  return "{kind: passthrough, select: {address: [" + addresses + "]}}";
}

vmctl::HostDevice& gpu_at(vmctl::Inventory& inventory, const std::string& address) {
  const auto found = std::find_if(inventory.devices.begin(), inventory.devices.end(),
                                  [&](const auto& device) { return device.function.address == address; });
  REQUIRE(found != inventory.devices.end());
  return *found;
}

/// The study's machine with the GPUs of a pair below one root port.
vmctl::Inventory with_switches(const std::vector<std::pair<std::string, std::string>>& pairs) {
  auto inventory = host("r750xa");
  for (const auto& [first, second] : pairs) {
    gpu_at(inventory, second).function.bridges = gpu_at(inventory, first).function.bridges;
  }
  return inventory;
}

/// Of the victim, then of the neighbour's nodes, beside this aggressor; the victim has the same in all arms.
std::vector<List> devices_beside(const Plan& plan, const std::string& condition) {
  const auto of_victim = [](const Placement& placement) {
    return placement.tenants.at(0).nodes.at(0).device_addresses();
  };
  for (const auto& placement : plan.placements) {
    CHECK(of_victim(placement) == of_victim(plan.placements[0]));
  }
  std::vector<List> devices;
  for (const auto& tenant : placement_of(plan, "vm+" + condition).tenants) {
    for (const auto& node : tenant.nodes) { devices.push_back(node.device_addresses()); }
  }
  return devices;
}

std::vector<List> devices_of(const Scenario& scenario, const vmctl::Inventory& inventory,
                             const std::string& condition = "gemm@100%") {
  return devices_beside(allowed_plan(scenario, inventory, false), condition);
}

}  // namespace

TEST_CASE("each arm runs under every condition, whatever the arm is called") {
  const auto scenario = isolation("", "[vm, {name: vm-free, like: vm, guest: {pinning: none}}]");
  std::vector<std::string> names;
  for (const auto& arm : scenario.arms) {
    names.push_back(arm.name);
    CHECK(arm.base == "vm");
  }
  CHECK(scenario.arms.at(2).key() == ArmKey{"vm", "cpu", 0.25});
  CHECK(names == std::vector<std::string>{"vm", "vm+idle", "vm+cpu@25%", "vm+cpu@100%", "vm+net@25%",
                                          "vm+net@100%", "vm-free", "vm-free+idle", "vm-free+cpu@25%",
                                          "vm-free+cpu@100%", "vm-free+net@25%", "vm-free+net@100%"});
  CHECK(scenario.arms[2].like == "vm");
  CHECK(scenario.cases.size() == 1);
  const auto& beside = scenario.arms[7].cases.at(0);
  CHECK(beside.guest.pinning == Pinning::none);
  REQUIRE(beside.tenants.size() == 2);
  CHECK(beside.tenants[1].neighbour->is_idle());
  CHECK(isolation("", "[vm]").arms.size() == 6);
  CHECK(isolation("  baselines: [idle_neighbour]\n").arms.at(0).name == "vm+idle");
}

TEST_CASE("what an arm is like is in the plan even where that only runs beside neighbours") {
  const std::string arms = "[vm, {name: vm-free, like: vm, guest: {pinning: none}}]";
  const auto scenario = isolation("  baselines: [idle_neighbour]\n", arms);
  std::map<std::string, std::string> likes;
  const auto plan = isolation_plan_of(scenario, two_sockets());
  for (const auto& arm : plan.arms) { likes[arm.name] = arm.like; }
  CHECK(likes.at("vm-free+idle") == "vm-free");
  CHECK(likes.at("vm-free") == "vm");
  CHECK(likes.at("vm") == "");
}

TEST_CASE("rounds have all conditions once, in an order by the stored seed") {
  const auto plan = isolation_plan_of(isolation("  seed: 7\n", "[vm]", 20), two_sockets());
  const auto first = round_of(plan, 1);
  std::set<std::string> conditions(first.begin(), first.end());
  CHECK(conditions.size() == 6);
  std::set<std::vector<std::string>> orders;
  for (std::int64_t pair = 1; pair <= 20; ++pair) {
    const auto round = round_of(plan, pair);
    CHECK(std::set<std::string>(round.begin(), round.end()) == conditions);
    CHECK(round.size() == 6);
    orders.insert(round);
  }
  CHECK(orders.size() > 15);
  CHECK(round_of(isolation_plan_of(isolation("  seed: 7\n", "[vm]", 20), two_sockets()), 1) == first);
  CHECK(to_json(plan)["isolation"]["seed"] == 7);
  CHECK(to_json(plan)["isolation"]["margin"] == 0.05);
}

TEST_CASE("a neighbour shares what was asked for") {
  CHECK(cores_with("core") == std::pair(0, 4));  // the other thread of the victim's core
  CHECK(cores_with("llc") == std::pair(0, 1));
  CHECK(cores_with("node") == std::pair(0, 1));
  CHECK(cores_with("host") == std::pair(0, 1));
  auto single_threaded = two_sockets();
  for (auto& core : single_threaded.cores) { core.first_sibling = -1; }
  CHECK(cores_with("core", single_threaded) == std::pair(0, 0));
  const auto plan = isolation_plan_of(isolation("  share: core\n"), two_sockets());
  CHECK(placement_of(plan, "vm").tenants.size() == 1);
  CHECK(placement_of(plan, "vm").tenants[0].nodes[0].cores ==
        placement_of(plan, "vm+idle").tenants[0].nodes[0].cores);
  CHECK(placement_of(plan, "vm+net@25%").tenants[1].nodes.size() == 2);  // one sends to the other
  CHECK(placement_of(plan, "vm+net@25%").training_nodes() == 1);
  CHECK(placement_of(plan, "vm+cpu@25%").tenants[1].ranks() == 0);
  CHECK(needed_programs(isolation(""), plan) ==
        std::vector<std::string>{"virtrain-resnet50-cpu", "virtrain-stress"});
}

TEST_CASE("a share that the host has no place for is refused") {
  auto unknown_caches = two_sockets();
  for (auto& core : unknown_caches.cores) { core.last_level_cache = -1; }
  CHECK_THAT(refusal("llc", unknown_caches),
             Contains("isolated.yaml:8:10: case trainer: share llc: host lacks 1 free core with the victim's "
                      "last-level cache"));
  auto narrow = two_sockets();
  narrow.cores = {{0, 0}, {1, 1}, {2, 1}};
  CHECK_THAT(refusal("node", narrow), Contains("on the victim's NUMA node"));
}

TEST_CASE("share node is refused where the victim is on several NUMA nodes") {
  auto alternating = two_sockets();
  alternating.cores.clear();
  for (int core = 0; core < 12; ++core) { alternating.cores.push_back({core, core % 2}); }
  auto wide = isolation("  share: node\n");
  for (auto& arm : wide.arms) {
    for (auto& one : arm.cases) { one.guest.vcpus = 2; }
  }
  CHECK_THROWS_WITH(isolation_plan_of(wide, alternating),
                    Contains("case trainer: share node: the victim's cores are on several NUMA nodes (use "
                             "guest.pinning: numa, fewer vcpus, or share: host)"));
  for (auto& arm : wide.arms) {
    for (auto& one : arm.cases) { one.guest.pinning = Pinning::numa; }
  }
  CHECK_NOTHROW(isolation_plan_of(wide, alternating));
}

TEST_CASE("what only another run's cores are in the way of is busy") {
  auto leased = two_sockets();
  leased.leased_cores = {1, 2, 3, 4, 5};
  for (const char* share : {"llc", "node"}) {
    CHECK_THAT(refusal(share, leased, ErrorCode::busy),
               Contains(std::string("share ") + share) && Contains("; another run holds 5 cores"));
  }
  auto unknown_caches = leased;
  for (auto& core : unknown_caches.cores) { core.last_level_cache = -1; }
  CHECK_THAT(refusal("llc", unknown_caches), Contains("share llc") && !Contains("another run"));
  const auto with_smt = [&](const std::string& guest, ErrorCode code) {
    const auto scenario =
        decode_scenario("name: smt\nworkload: {backend: cpu}\nguest: {memory: 1GiB, " + guest +
                            "}\ncases: [{name: one, tenants: [{nodes: 1}]}]\narms: [vm]\npairs: 1\n",
                        "smt.yaml");
    try {
      isolation_plan_of(scenario, leased);
    } catch (const Error& error) {
      CHECK(error.code() == code);
      return true;
    }
    return false;
  };
  // CPUs 0 and 4 are threads of one core, 2 and 6 of another, 3 and 7 too: of each the other run has one.
  CHECK(with_smt("vcpus: 2, smt: apart", ErrorCode::busy));
  CHECK(with_smt("vcpus: 2, smt: siblings", ErrorCode::busy));
  CHECK(with_smt("vcpus: 5, smt: apart", ErrorCode::host_unable));
}

TEST_CASE("an arm bounds the neighbour and not the victim, or both") {
  const auto scenario = isolation("  neighbour: {limits: {disk_write_iops: 100}}\n", R"(
  - vm
  - {name: vm-capped, like: vm, neighbour: {limits: {cpu: 25%, network_out: 10MiB/s}}}
  - {name: vm-both, like: vm-capped, guest: {limits: {cpu: 0.5 cores, disk_read: 1MiB/s}}}
)");
  const auto plan = isolation_plan_of(scenario, two_sockets());
  const auto limits = [&](const std::string& arm, std::size_t tenant) {
    return vmctl::limits_text(placement_of(plan, arm).tenants.at(tenant).nodes[0].limits);
  };
  CHECK(limits("vm", 0).empty());
  CHECK(limits("vm+cpu@100%", 0).empty());
  CHECK(limits("vm+cpu@100%", 1) == "disk_write_iops 100");
  CHECK(limits("vm-capped", 0).empty());
  CHECK(limits("vm-capped+cpu@100%", 0).empty());
  CHECK(limits("vm-capped+cpu@100%", 1) == "cpu 0.25 cores, disk_write_iops 100, network_out 10MiB/s");
  CHECK(limits("vm-both", 0) == "cpu 0.5 cores, disk_read 1MiB/s");
  CHECK(limits("vm-both+idle", 1) ==
        "cpu 0.25 cores, disk_read 1MiB/s, disk_write_iops 100, network_out 10MiB/s");
  // A mitigation that changes only the neighbour leaves the victim alone as it was.
  CHECK(to_table(plan, false).find("vm-capped is like vm, with neighbour.limits.cpu 25%") !=
        std::string::npos);
  CHECK(to_table(plan, false).find("; at most cpu 0.25 cores, disk_write_iops 100") != std::string::npos);
}

TEST_CASE("beside the aggressor disk each neighbour has a disk of its own, the idle one, too") {
  const auto sizes = [](const std::string& aggressors, const std::string& arm) {
    const auto scenario = decode_scenario(
        "name: isolated\nworkload: {backend: cpu}\nguest: {memory: 1GiB, vcpus: 1}\nisolation:\n"
        "  victims: [{name: trainer, nodes: 1}]\n  aggressors: " +
            aggressors + "\narms: [vm]\n",
        "isolated.yaml");
    const auto plan = isolation_plan_of(scenario, two_sockets());
    std::vector<std::uint64_t> found;
    for (const auto& tenant : placement_of(plan, arm).tenants) {
      found.push_back(tenant.nodes[0].scratch_bytes);
    }
    return found;
  };
  using Sizes = std::vector<std::uint64_t>;
  constexpr std::uint64_t size = 1ULL << 30;
  CHECK(sizes("[cpu, disk]", "vm") == Sizes{0});
  for (const auto* arm : {"vm+idle", "vm+cpu@100%", "vm+disk@100%"}) {
    CHECK(sizes("[cpu, disk]", arm) == Sizes{0, size});
  }
  CHECK(sizes("[cpu]", "vm+idle") == Sizes{0, 0});
}

TEST_CASE("a tenant's own limits go before those of the guest, key by key") {
  const auto scenario = decode_scenario(
      "name: limited\nworkload: {backend: cpu}\n"
      "guest: {memory: 1GiB, vcpus: 2, limits: {cpu: 50%, network_in: 100MiB/s}, emulator_threads: "
      "on_vcpus}\n"
      "cases:\n"
      "  - {name: two, tenants: [{nodes: 1, limits: {cpu: 1.5 cores}}, {nodes: 1}]}\n"
      "  - {name: scaled, scale: {nodes: [1, 2]}}\n",
      "limited.yaml");
  const auto& tenants = scenario.cases.at(0).tenants;
  CHECK(tenants.at(0).limits.cpu_cores == 1.5);
  CHECK(tenants.at(0).limits.network_in == 100ULL << 20);
  CHECK(tenants.at(1).limits.cpu_cores == 1.0);
  CHECK(scenario.cases.at(2).tenants.at(0).limits == tenants.at(1).limits);
  CHECK(scenario.guest.emulator_threads == vmctl::EmulatorThreads::on_vcpus);
}

TEST_CASE("what an arm or a sweep says of limits goes before a tenant's own") {
  const auto scenario = decode_scenario(
      "name: limited\nworkload: {backend: cpu}\n"
      "guest: {memory: 1GiB, vcpus: 2}\n"
      "cases: [{name: one, tenants: [{nodes: 1, limits: {cpu: 90%, network_in: 100MiB/s}}]}]\n"
      "arms: [vm, {name: slow, like: vm, guest: {limits: {cpu: 25%}}}]\n"
      "sweep: {guest.limits.disk_read: [10MiB/s, 20MiB/s]}\n",
      "limited.yaml");
  const auto limits = [](const Case& one) { return one.tenants.at(0).limits; };
  REQUIRE(scenario.cases.size() == 2);
  CHECK(scenario.cases[0].name == "one@disk_read=10MiB_s");
  CHECK(limits(scenario.cases[0]).disk_read == 10ULL << 20);
  CHECK(limits(scenario.cases[1]).disk_read == 20ULL << 20);
  CHECK(limits(scenario.cases[0]).cpu_cores == 1.8);
  const auto& slow = scenario.arms.at(1).cases;
  CHECK(limits(slow.at(1)).cpu_cores == 0.5);
  CHECK(limits(slow.at(1)).disk_read == 20ULL << 20);
  CHECK(limits(slow.at(1)).network_in == 100ULL << 20);
}

TEST_CASE("vCPUs get whole cores, apart or with their siblings, or no plan is made") {
  const auto cores_with = [](const std::string& guest, int nodes) {
    const auto scenario = decode_scenario(
        fmt::format("name: smt\nworkload: {{backend: cpu}}\nguest: {{memory: 1GiB, {}}}\n"
                    "cases: [{{name: one, tenants: [{{nodes: {}}}]}}]\narms: [vm]\npairs: 1\n",
                    guest, nodes),
        "smt.yaml");
    const auto plan = isolation_plan_of(scenario, two_sockets());
    std::vector<std::vector<int>> cores;
    for (const auto& node : plan.placements.at(0).tenants.at(0).nodes) { cores.push_back(node.cores); }
    return cores;
  };
  using Cores = std::vector<std::vector<int>>;
  // Threads 0 and 4 are of one core, 1 and 5 of the next; the first four are what the kernel counts first.
  CHECK(cores_with("vcpus: 4", 1) == Cores{{0, 1, 2, 3}});
  CHECK(cores_with("vcpus: 4, smt: siblings", 1) == Cores{{0, 4, 1, 5}});
  CHECK(cores_with("vcpus: 2, smt: siblings", 2) == Cores{{0, 4}, {1, 5}});
  CHECK(cores_with("vcpus: 2, smt: apart", 2) == Cores{{0, 1}, {2, 3}});
  CHECK(cores_with("vcpus: 2, smt: siblings, pinning: numa", 1) == Cores{{0, 4}});
  CHECK_THROWS_WITH(cores_with("vcpus: 3, smt: apart", 2),
                    Contains("smt: apart: host lacks 3 whole cores for t1n2 (use fewer vcpus or nodes, or "
                             "smt: any)"));
  auto without = two_sockets();
  for (auto& core : without.cores) { core.first_sibling = -1; }
  const auto siblings = decode_scenario(
      "name: smt\nworkload: {backend: cpu}\nguest: {memory: 1GiB, vcpus: 2, smt: siblings}\n"
      "cases: [{name: one, tenants: [{nodes: 1}]}]\narms: [vm]\npairs: 1\n",
      "smt.yaml");
  CHECK_THROWS_WITH(isolation_plan_of(siblings, without), Contains("lacks 2 threads of whole cores"));
}

TEST_CASE("the shipped scenario with whole GPUs has both on one NUMA node") {
  for (const auto& [name, victim, neighbour] : {std::tuple("r750xa", "0000:17:00.0", "0000:31:00.0"),
                                                std::tuple("hgx-h200", "0000:18:00.0", "0000:30:00.0")}) {
    const auto plan = allowed_plan(shipped("isolation-passthrough.yaml"), host(name), false);
    CHECK(plan.warnings == List{});
    CHECK(devices_beside(plan, "h2d+d2h@100%") == std::vector<List>{{victim}, {neighbour}});
    for (const auto& tenant : placement_of(plan, "vm+h2d+d2h@100%").tenants) {
      CHECK(tenant.nodes.at(0).numa_node == 0);
      CHECK(tenant.nodes[0].devices.at(0).numa_node == 0);
    }
  }
}

TEST_CASE("the shipped scenario with vGPUs has both on one card") {
  const auto mdev = allowed_plan(shipped("isolation-vgpu.yaml", "T4-4C"), host("mdev-host"), false);
  CHECK(mdev.warnings == List{});
  CHECK(devices_beside(mdev, "hbm@50%") == std::vector<List>{{"0000:3b:00.0"}, {"0000:3b:00.0"}});
  const auto vfio = allowed_plan(shipped("isolation-vgpu.yaml", "L40S-24C"), host("vendor-vfio-host"), false);
  CHECK(vfio.warnings == List{});
  CHECK(devices_beside(vfio, "hbm@50%") == std::vector<List>{{"0000:41:00.5"}, {"0000:41:00.6"}});
  for (const auto& tenant : placement_of(vfio, "vm+hbm@50%").tenants) {
    CHECK(tenant.nodes.at(0).devices.at(0).grant.physical_function == "0000:41:00.0");
  }
}

TEST_CASE("share card keeps to one card where parts are spread, and passes by one that has no room") {
  auto inventory = host("mdev-host");
  auto second = gpu_at(inventory, "0000:3b:00.0");
  second.function.address = "0000:4b:00.0";
  inventory.devices.push_back(second);
  CHECK(devices_of(with_gpus("card", "{kind: vgpu, type: T4-4C, spread: true}"), inventory) ==
        std::vector<List>{{"0000:3b:00.0"}, {"0000:3b:00.0"}});
  for (auto& type : gpu_at(inventory, "0000:3b:00.0").vgpu_types) { type.available_instances = 1; }
  for (const char* spread : {"true", "false"}) {
    const auto devices = fmt::format("{{kind: vgpu, type: T4-4C, spread: {}}}", spread);
    CHECK(devices_of(with_gpus("card", devices), inventory) ==
          std::vector<List>{{"0000:4b:00.0"}, {"0000:4b:00.0"}});
  }
  for (auto& type : gpu_at(inventory, "0000:4b:00.0").vgpu_types) { type.available_instances = 1; }
  CHECK_THAT(refusal(with_gpus("card", "{kind: vgpu, type: T4-4C}"), inventory),
             Contains("shared.yaml:8:10: case trainer: share card: mdev-host lacks 1 free device for the "
                      "neighbour on the victim's card, whichever the victim gets"));
}

TEST_CASE("share switch takes the pair that is below one, and is refused only where there is none") {
  const auto pair = with_switches({{"0000:b1:00.0", "0000:ca:00.0"}});
  CHECK(devices_of(with_gpus("switch"), pair) == std::vector<List>{{"0000:b1:00.0"}, {"0000:ca:00.0"}});
  // The second node of "net" only receives.
  CHECK(devices_of(with_gpus("switch", "{kind: passthrough}", 1, "[net, gemm]"), pair, "net@100%") ==
        std::vector<List>{{"0000:b1:00.0"}, {"0000:ca:00.0"}, {"0000:17:00.0"}});
  CHECK_THAT(refusal(with_gpus("switch"), host("r750xa")),
             Contains("shared.yaml:8:10: case trainer: share switch: r750xa lacks 1 free device for the "
                      "neighbour below a PCIe bridge of the victim's, whichever the victim gets (use share: "
                      "host, or let devices.select allow more)"));
}

TEST_CASE("of two GPUs each has one of the neighbour's below its switch") {
  const auto pairs = with_switches({{"0000:17:00.0", "0000:31:00.0"}, {"0000:b1:00.0", "0000:ca:00.0"}});
  CHECK(devices_of(with_gpus("switch", "{kind: passthrough}", 2), pairs) ==
        std::vector<List>{{"0000:17:00.0", "0000:b1:00.0"}, {"0000:31:00.0", "0000:ca:00.0"}});
}

TEST_CASE("with core, llc and node the neighbour's GPU is on the victim's NUMA node, or there is no plan") {
  auto inventory = host("r750xa");
  for (auto& core : inventory.cores) { core.last_level_cache = core.numa_node; }
  for (const char* share : {"core", "llc", "node"}) {
    const auto plan = allowed_plan(with_gpus(share), inventory, false);
    CHECK(plan.warnings == List{});
    CHECK(devices_beside(plan, "gemm@100%") == std::vector<List>{{"0000:17:00.0"}, {"0000:31:00.0"}});
    CHECK(devices_of(with_gpus(share, only("0000:17:00.0, 0000:b1:00.0, 0000:ca:00.0")), inventory) ==
          std::vector<List>{{"0000:b1:00.0"}, {"0000:ca:00.0"}});
    CHECK_THAT(refusal(with_gpus(share, only("0000:17:00.0, 0000:b1:00.0")), inventory),
               Contains(fmt::format("share {}: r750xa lacks 1 free device for the neighbour on the victim's "
                                    "NUMA node",
                                    share)));
  }
  const auto net = with_gpus("node", "{kind: passthrough}", 1, "[net, gemm]");
  CHECK_THAT(refusal(net, inventory), Contains("lacks 2 free devices for the neighbour"));
  CHECK(devices_of(net, host("hgx-h200"), "net@100%") ==
        std::vector<List>{{"0000:18:00.0"}, {"0000:30:00.0"}, {"0000:48:00.0"}});
  CHECK(devices_of(with_gpus("host"), inventory) == std::vector<List>{{"0000:17:00.0"}, {"0000:b1:00.0"}});
}

TEST_CASE("a NUMA node that the firmware does not name is the victim's where the host has only one") {
  auto inventory = host("r750xa");
  for (auto& device : inventory.devices) { device.function.numa_node = -1; }
  CHECK_THAT(refusal(with_gpus("node"), inventory), Contains("on the victim's NUMA node"));
  std::erase_if(inventory.numa_nodes, [](const auto& node) { return node.id != 0; });
  std::erase_if(inventory.cores, [](const auto& core) { return core.numa_node != 0; });
  CHECK(devices_of(with_gpus("node"), inventory) == std::vector<List>{{"0000:17:00.0"}, {"0000:31:00.0"}});
}

TEST_CASE("a GPU that is only in use leaves nothing to share for now") {
  auto inventory = host("r750xa");
  gpu_at(inventory, "0000:31:00.0").users = {{4242, "python3", "/dev/nvidia1"}};
  const auto scenario = with_gpus("node", only("0000:17:00.0, 0000:31:00.0, 0000:b1:00.0"));
  CHECK_THAT(refusal(scenario, inventory, 75), Contains("share node: r750xa lacks 1 free device") &&
                                                   Contains("0000:31:00.0") && Contains("in use"));
}

TEST_CASE("any level above 0 is planned, and a very small one warned of") {
  const auto of_level = [](const std::string& level) {
    return isolation_plan_of(
        decode_scenario("name: tiny\nworkload: {backend: cpu}\nguest: {memory: 1GiB, vcpus: 1}\nisolation: "
                        "{victims: [{name: trainer}], aggressors: [cpu], levels: [" +
                            level + "]}\npairs: 2\n",
                        "tiny.yaml"),
        two_sockets());
  };
  const auto tiny = of_level("0.05%");
  CHECK(tiny.arms.at(2).name == "vm+cpu@0.05%");
  CHECK_THAT(join(tiny.warnings, " "), Contains("levels below 0.1%"));
  CHECK(of_level("0.1%").warnings == List{});
}
