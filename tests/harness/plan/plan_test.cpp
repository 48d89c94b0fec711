#include "harness/plan/plan.h"

#include <fmt/format.h>

#include <set>

#include "common/error.h"
#include "common/text/text.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/plan/planning.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

vmctl::HostDevice gpu(const std::string& address, const std::string& vendor, int numa_node,
                      const std::vector<std::string>& nvlink_peers = {}) {
  vmctl::HostDevice device;
  device.function.address = address;
  device.function.vendor = vendor;
  device.function.numa_node = numa_node;
  device.mechanism = vmctl::Mechanism::passthrough;
  device.nvlink_peers = nvlink_peers;
  device.name = vendor == "0x10de" ? "NVIDIA A100-PCIE-40GB" : "Navi 21";
  device.uuid = "GPU-" + address;
  return device;
}

/// Four GPUs in two NVLink pairs as in the study's server, and a card of another vendor between them.
vmctl::Inventory gpu_host() {
  auto inventory = host(2, 32);
  inventory.devices = {gpu("0000:17:00.0", "0x10de", 0, {"0000:65:00.0"}), gpu("0000:3d:00.0", "0x1002", 0),
                       gpu("0000:65:00.0", "0x10de", 0, {"0000:17:00.0"}),
                       gpu("0000:ca:00.0", "0x10de", 1, {"0000:e3:00.0"}),
                       gpu("0000:e3:00.0", "0x10de", 1, {"0000:ca:00.0"})};
  return inventory;
}

Scenario scenario(const std::string& cases, const std::string& more = "",
                  const std::string& guest = "vcpus: 2", const std::string& workload = "backend: cpu") {
  return decode_scenario(
      fmt::format("name: planned\nworkload: {{{}}}\nguest: {{memory: 1GiB, {}}}\ncases: [{}]\n{}", workload,
                  guest, cases, more),
      "planned.yaml");
}

Scenario gpu_scenario(const std::string& cases, const std::string& devices, const std::string& more = "") {
  return scenario(cases, "devices: " + devices + "\n" + more, "vcpus: 4", "backend: cuda");
}

const std::string one_node = "{name: one, tenants: [{nodes: 1}]}";
const std::string two_gpus = "{name: gpus, tenants: [{nodes: 1, gpus_per_node: 2}]}";

std::vector<std::string> arms_of(const Plan& plan) {
  std::vector<std::string> arms;
  for (const auto& trial : plan.trials) { arms.push_back(trial.arm); }
  return arms;
}

const NodePlacement& node(const Plan& plan, std::size_t placement, std::size_t tenant, std::size_t n) {
  return plan.placements.at(placement).tenants.at(tenant).nodes.at(n);
}

}  // namespace

TEST_CASE("arms alternate ABBA, pair by pair and case by case") {
  const auto plan = allowed_plan(
      scenario("{name: a, tenants: [{nodes: 1}]}, {name: b, scale: {nodes: [1, 2]}}", "pairs: 4\n"),
      host(1, 8), false);
  const std::vector<std::string> abba{"bare_metal", "vm", "vm", "bare_metal",
                                      "bare_metal", "vm", "vm", "bare_metal"};
  auto all = abba;
  for (int i = 0; i < 2; ++i) { all.insert(all.end(), abba.begin(), abba.end()); }
  CHECK(arms_of(plan) == all);
  for (std::size_t i = 0; i < plan.trials.size(); ++i) {
    CHECK(plan.trials[i].order == static_cast<std::int64_t>(i) + 1);
    CHECK(plan.trials[i].pair == static_cast<std::int64_t>(i % 8 / 2) + 1);
    CHECK(plan.trials[i].placement == i / 8);
  }
  CHECK(plan.placements[1].case_name == "b/1");
  CHECK(plan.placements[2].case_name == "b/2");
  CHECK(plan.vm_boots == 16);  // four pairs of one, one and two nodes
}

TEST_CASE("three arms are reversed in every second pair") {
  const auto plan = allowed_plan(scenario(one_node, "pairs: 2\narms: [vm, bare_metal, bare_metal_shared]\n"),
                                 host(1, 8), false);
  CHECK(arms_of(plan) == std::vector<std::string>{"vm", "bare_metal", "bare_metal_shared",
                                                  "bare_metal_shared", "bare_metal", "vm"});
}

TEST_CASE("with a seed the arms of each two pairs are shuffled and then reversed, the same each time") {
  auto seeded = scenario(one_node, "pairs: 40\n");
  seeded.order_seed = 7;
  const auto plan = allowed_plan(seeded, host(1, 8), false);
  const auto arms = arms_of(plan);
  std::size_t vm_first = 0;
  for (std::size_t i = 0; i < arms.size(); i += 4) {
    CHECK(arms[i] == arms[i + 3]);
    CHECK(arms[i + 1] == arms[i + 2]);
    vm_first += arms[i] == "vm" ? 1 : 0;
  }
  CHECK(vm_first > 4);
  CHECK(vm_first < 16);
  CHECK(arms_of(allowed_plan(seeded, host(1, 8), false)) == arms);
  CHECK(to_json(plan)["order_seed"] == 7);
  seeded.order_seed = 8;
  CHECK(arms_of(allowed_plan(seeded, host(1, 8), false)) != arms);
}

TEST_CASE("nodes get cores of their own, and what is left runs QEMU's helpers") {
  const auto plan =
      allowed_plan(scenario("{name: a, tenants: [{nodes: 2}, {name: other, nodes: 1}]}"), host(1, 8), false);
  CHECK(node(plan, 0, 0, 0).cores == std::vector<int>{0, 1});
  CHECK(node(plan, 0, 0, 1).cores == std::vector<int>{2, 3});
  CHECK(node(plan, 0, 1, 0).cores == std::vector<int>{4, 5});
  for (std::size_t n : {0u, 1u}) { CHECK(node(plan, 0, 0, n).emulator_cores == std::vector<int>{6, 7}); }
  CHECK(node(plan, 0, 0, 0).memory_bytes == gib);
  CHECK_FALSE(plan.placements[0].oversubscribed);
  CHECK(node(plan, 0, 0, 1).hostname == "t1n2");
  CHECK(node(plan, 0, 1, 0).hostname == "t2n1");
  // Each tenant has a bridge of its own: addresses repeat, MACs and host names do not.
  CHECK(node(plan, 0, 0, 0).address == "10.77.0.1/16");
  CHECK(node(plan, 0, 0, 1).address == "10.77.0.2/16");
  CHECK(node(plan, 0, 1, 0).address == "10.77.0.1/16");
  CHECK(node(plan, 0, 0, 0).mac == "52:54:00:00:00:00");
  CHECK(node(plan, 0, 1, 0).mac == "52:54:00:00:00:02");
}

TEST_CASE("QEMU's helpers run beside no vCPU on one physical core, as long as there are others") {
  // As load_machine() orders four physical cores of threads 0 and 1, 2 and 3, …
  auto smt = host(1, 0);
  for (const int thread : {0, 1}) {
    for (int first = 0; first < 8; first += 2) { smt.cores.push_back({first + thread, 0, first}); }
  }
  const auto one = allowed_plan(scenario(one_node), smt, false);
  CHECK(node(one, 0, 0, 0).cores == std::vector<int>{0, 2});
  CHECK(node(one, 0, 0, 0).emulator_cores == std::vector<int>{4, 6, 5, 7});
  const auto two = allowed_plan(scenario("{name: a, tenants: [{nodes: 2}]}"), smt, false);
  CHECK(node(two, 0, 0, 1).cores == std::vector<int>{4, 6});
  CHECK(node(two, 0, 0, 0).emulator_cores == std::vector<int>{1, 3, 5, 7});  // no whole core is left
  smt.leased_cores = {4};
  CHECK(node(allowed_plan(scenario(one_node), smt, false), 0, 0, 0).emulator_cores == std::vector<int>{6, 7});
}

TEST_CASE("no core to spare: helpers share the node's own") {
  const auto plan = allowed_plan(scenario(one_node), host(1, 2), false);
  CHECK(node(plan, 0, 0, 0).emulator_cores.empty());
}

TEST_CASE("pinning numa keeps a node's cores on one NUMA node as long as any has room") {
  const std::string three = "{name: a, tenants: [{nodes: 3}]}";
  const auto by_numa = allowed_plan(scenario(three, "", "vcpus: 3, pinning: numa"), host(2, 5), false);
  CHECK(node(by_numa, 0, 0, 0).cores == std::vector<int>{0, 1, 2});
  CHECK(node(by_numa, 0, 0, 0).numa_node == 0);
  CHECK(node(by_numa, 0, 0, 1).cores == std::vector<int>{5, 6, 7});
  CHECK(node(by_numa, 0, 0, 1).numa_node == 1);
  // Neither has three left, so the third spans both and says so.
  CHECK(node(by_numa, 0, 0, 2).cores == std::vector<int>{3, 4, 8});
  CHECK_FALSE(node(by_numa, 0, 0, 2).numa_node);
  CHECK(node(by_numa, 0, 0, 0).emulator_cores == std::vector<int>{9});

  const auto in_order = allowed_plan(scenario(three, "", "vcpus: 3, pinning: cores"), host(2, 5), false);
  CHECK(node(in_order, 0, 0, 1).cores == std::vector<int>{3, 4, 5});
  CHECK_FALSE(node(in_order, 0, 0, 1).numa_node);
}

TEST_CASE("too few cores are refused, and shared where the scenario allows it") {
  const std::string three = "{name: crowd, tenants: [{nodes: 3}]}";
  CHECK(
      refusal(scenario(three), host(1, 4)) ==
      "case crowd: 3 nodes of 2 vCPUs need 6 cores, host testhost has 4 (use fewer, or oversubscribe: true)");
  const auto plan = allowed_plan(scenario(three, "oversubscribe: true\n"), host(1, 4), false);
  CHECK(plan.placements[0].oversubscribed);
  CHECK(node(plan, 0, 0, 0).cores == std::vector<int>{0, 1});
  CHECK(node(plan, 0, 0, 1).cores == std::vector<int>{2, 3});
  CHECK(node(plan, 0, 0, 2).cores == std::vector<int>{0, 1});
  CHECK(to_json(plan)["trials"][0]["oversubscribed"] == true);
  CHECK_THAT(to_table(plan, false), Contains("crowd  (oversubscribed: more vCPUs than cores)"));
  // Only the case that needs it is marked.
  const auto both =
      allowed_plan(scenario(one_node + ", " + three, "oversubscribe: true\n"), host(1, 4), false);
  CHECK_FALSE(both.placements[0].oversubscribed);
  CHECK(both.placements[1].oversubscribed);
}

TEST_CASE("a core that some vCPU shares is no spare core") {
  // Three nodes of three on four cores: the second has the free one first, and what the fewest nodes have.
  const auto plan = allowed_plan(
      scenario("{name: a, tenants: [{nodes: 3}]}", "oversubscribe: true\n", "vcpus: 3"), host(1, 4), false);
  CHECK(node(plan, 0, 0, 0).cores == std::vector<int>{0, 1, 2});
  CHECK(node(plan, 0, 0, 1).cores == std::vector<int>{3, 0, 1});
  CHECK(node(plan, 0, 0, 2).cores == std::vector<int>{2, 3, 0});
  CHECK(node(plan, 0, 0, 0).emulator_cores.empty());
}

TEST_CASE("more ranks than a node's vCPUs oversubscribe it, however large the host") {
  const std::string crowded = "{name: a, tenants: [{nodes: 1, ranks_per_node: 3}]}";
  CHECK_THROWS_WITH(scenario(crowded), Contains("case a: nodes with 2 vCPUs have 3 ranks"));
  CHECK(allowed_plan(scenario(crowded, "oversubscribe: true\n"), host(1, 64), false)
            .placements[0]
            .oversubscribed);
}

TEST_CASE("threads of a rank: the node's cores shared by its ranks, or as the scenario says") {
  const auto threads = [](const std::string& tenant, const std::string& workload) {
    return allowed_plan(scenario("{name: a, tenants: [" + tenant + "]}", "", "vcpus: 7", workload),
                        host(1, 8), false)
        .placements[0]
        .tenants[0]
        .threads_per_rank;
  };
  CHECK(threads("{nodes: 1}", "backend: cpu") == 7);
  CHECK(threads("{nodes: 1, ranks_per_node: 2}", "backend: cpu") == 3);
  CHECK(threads("{nodes: 1, ranks_per_node: 2}", "backend: cpu, threads: 5") == 5);
}

TEST_CASE("memory: the nodes and QEMU's own must fit, which emulation needs more of") {
  const auto five = scenario("{name: five, tenants: [{nodes: 5}]}");
  // 5 GiB + 5 x 150 MiB = 5.73 GiB; 5 GiB + 5 x 350 MiB = 6.71 GiB
  CHECK(refusal(five, host(1, 16, 6)) == "(planned)");
  CHECK(refusal(five, host(1, 16, 6), 4, true) ==
        "case five: 5 nodes of 1GiB and QEMU's own 350MiB each need 6.71GiB, host testhost has 6GiB");
  CHECK(refusal(five, host(1, 16, 7), 4, true) == "(planned)");
  const auto on_metal = scenario("{name: five, tenants: [{nodes: 5}]}", "arms: [bare_metal]\n");
  CHECK(refusal(on_metal, host(1, 16, 6), 4, true) == "(planned)");
  CHECK_THAT(refusal(on_metal, host(1, 16, 4), 4, true), Contains("5 nodes of 1GiB each need 5GiB"));
}

TEST_CASE("a host without a usable core is refused in words") {
  CHECK_THAT(refusal(scenario(one_node, "oversubscribe: true\n"), host(0, 0)),
             Contains("no core of this host may be used"));
}

TEST_CASE("every reason is told at once, one a line") {
  const auto all =
      refusal(gpu_scenario("{name: a, tenants: [{nodes: 3, gpus_per_node: 1}]}", "{kind: passthrough}"),
              host(1, 2, 1));
  CHECK_THAT(all, Contains("need 12 cores") && Contains("need 3.44GiB") &&
                      Contains("needs 3 GPUs, host testhost has 0"));
  CHECK(std::count(all.begin(), all.end(), '\n') == 2);
}

TEST_CASE("of cases that lack the same the largest demand is told, and how many others there are") {
  const auto all = refusal(
      gpu_scenario("{name: a, tenants: [{nodes: 3, gpus_per_node: 1}]}, {name: b, tenants: [{nodes: 5, "
                   "gpus_per_node: 1}]}, {name: c, tenants: [{nodes: 4, gpus_per_node: 1}]}",
                   "{kind: passthrough}"),
      host(1, 2, 1));
  CHECK_THAT(all, Contains("case b: 5 nodes of 4 vCPUs need 20 cores, host testhost has 2 (use fewer, or "
                           "oversubscribe: true); 2 smaller demands for cores are not met either\n"));
  CHECK_THAT(all, Contains("case b: needs 5 GPUs, host testhost has 0") && !Contains("case a") &&
                      !Contains("case c"));
  CHECK(std::count(all.begin(), all.end(), '\n') == 2);
}

TEST_CASE("a plan has a line a case, with its arms, pairs and the range of its time, or a line a trial") {
  const auto plan = allowed_plan(scenario(one_node + ", {name: two, tenants: [{nodes: 2}]}", "pairs: 3\n"),
                                 host(1, 8), true);
  const auto cases = to_table(plan, false), trials = to_table(plan, true);
  const auto lines_with = [](const std::string& text, const std::string& words) {
    const auto lines = virtrain::split(text, '\n');
    return std::ranges::count_if(lines,
                                 [&](const auto& line) { return line.find(words) != std::string::npos; });
  };
  CHECK(lines_with(cases, "bare_metal, vm      3       6  ") == 2);
  CHECK(lines_with(trials, " vm  ") == 6);
  CHECK(lines_with(trials, " bare_metal ") == 6);
  CHECK(plan.likely.low < plan.estimate_seconds);
  CHECK(plan.likely.high > plan.estimate_seconds);
}

TEST_CASE("trials that ran here before correct the estimates of those like them") {
  auto plan = allowed_plan(scenario(one_node, "pairs: 2\n"), host(1, 2), true);
  const auto before = plan;
  const auto& name = plan.placements[0].case_name;
  learn(plan, {{{name, "vm"}, 1000}, {{"another", "bare_metal"}, 5000}});
  for (std::size_t i = 0; i < plan.trials.size(); ++i) {
    const bool vm = plan.trials[i].arm == "vm";
    CHECK(plan.trials[i].estimate_seconds == Approx(vm ? 1000 : before.trials[i].estimate_seconds));
    if (vm) { CHECK((plan.trials[i].likely.low > 800 && plan.trials[i].likely.high < 1300)); }
  }
  const auto unchanged = before.trials[0].estimate_seconds + before.trials[3].estimate_seconds;
  CHECK(plan.estimate_seconds == Approx(2000 + unchanged));
}

TEST_CASE("a plan with VMs has time for the guest image, on a line of its own, unless it is there") {
  auto plan = allowed_plan(scenario(one_node, "pairs: 1\n"), host(1, 2), true);
  const auto with_image = plan.likely;
  CHECK_THAT(to_table(plan, false), Contains("\nguest image: up to 60 s of these, once"));
  leave_out_image(plan);
  CHECK(plan.likely.low == Approx(with_image.low));
  CHECK(plan.likely.high == Approx(with_image.high - 60));
  CHECK_THAT(to_table(plan, false), !Contains("guest image"));
  const auto metal = allowed_plan(scenario(one_node, "pairs: 1\narms: [bare_metal]\n"), host(1, 2), true);
  CHECK(metal.image.high == 0);
}

TEST_CASE("a range of seconds is said as exactly as a guess is") {
  CHECK(to_words({3, 8}) == "10 s");
  CHECK(to_words({21, 85}) == "30 to 90 s");
  CHECK(to_words({50, 230}) == "50 s to 4 min");
  CHECK(to_words({61, 62}) == "70 s");
  CHECK(to_words({100, 8000}) == "2 min to 3 h");
  CHECK(to_words({300, 600}) == "5 to 10 min");
}

TEST_CASE("GPUs are chosen by vendor, address and count") {
  const auto devices = [](const std::string& select) {
    return node(allowed_plan(gpu_scenario(two_gpus, "{kind: passthrough" + select + "}"), gpu_host(), false),
                0, 0, 0)
        .device_addresses();
  };
  using List = std::vector<std::string>;
  CHECK(devices("") == List{"0000:17:00.0", "0000:65:00.0"});
  CHECK(devices(", select: {name: A100, count: 2}") == List{"0000:17:00.0", "0000:65:00.0"});
  CHECK(devices(", select: {uuid: ['GPU-0000:65:00.0', 'GPU-0000:e3:00.0']}") ==
        List{"0000:65:00.0", "0000:e3:00.0"});
  CHECK(devices(", select: {vendor: 0x10de}") == List{"0000:17:00.0", "0000:65:00.0"});
  CHECK(devices(", select: {vendor: 0x10DE}") == List{"0000:17:00.0", "0000:65:00.0"});
  CHECK(devices(", select: {address: [0000:ca:00.0, 0000:e3:00.0]}") == List{"0000:ca:00.0", "0000:e3:00.0"});
  const auto refused = [](const std::string& select) {
    return refusal(gpu_scenario(two_gpus, "{kind: passthrough, select: " + select + "}"), gpu_host());
  };
  CHECK(refused("{vendor: 0x1002}") ==
        "case gpus: needs 2 GPUs, host testhost has 1 that devices.select allows (virtrain doctor --devices "
        "says "
        "more)");
  CHECK_THAT(refused("{vendor: 0x10de, count: 1}"), Contains("needs 2 GPUs, host testhost has 1"));
  CHECK_THAT(refused("{vendor: 0x1002, address: [0000:17:00.0]}"),
             Contains("needs 2 devices, host testhost has 0"));
}

TEST_CASE("GPUs of one node are NVLink neighbours, with cores of their NUMA node") {
  const auto plan = allowed_plan(
      gpu_scenario("{name: a, tenants: [{nodes: 1, gpus_per_node: 2}, {nodes: 1, gpus_per_node: 2}]}",
                   "{kind: passthrough, select: {vendor: 0x10de}}"),
      gpu_host(), false);
  using List = std::vector<std::string>;
  const auto& first = node(plan, 0, 0, 0);
  const auto& second = node(plan, 0, 1, 0);
  CHECK(first.device_addresses() == List{"0000:17:00.0", "0000:65:00.0"});
  CHECK(first.devices_reason == "joined by NVLink, on NUMA node 0");
  CHECK(first.numa_node == 0);
  CHECK(second.device_addresses() == List{"0000:ca:00.0", "0000:e3:00.0"});
  CHECK(second.numa_node == 1);
  CHECK(second.cores == std::vector<int>{32, 33, 34, 35});
  CHECK_THAT(to_table(plan, false), Contains("joined by NVLink"));
}

TEST_CASE("a node of one GPU leaves the pairs to others, and single ones spread over sockets") {
  using List = std::vector<std::string>;
  const auto mixed = allowed_plan(
      gpu_scenario("{name: a, tenants: [{nodes: 1, gpus_per_node: 1}, {nodes: 1, gpus_per_node: 2}]}",
                   "{kind: passthrough, select: {vendor: 0x10de}}"),
      gpu_host(), false);
  CHECK(node(mixed, 0, 1, 0).device_addresses() == List{"0000:17:00.0", "0000:65:00.0"});
  CHECK(node(mixed, 0, 0, 0).device_addresses() == List{"0000:ca:00.0"});
  const auto single = allowed_plan(gpu_scenario("{name: a, tenants: [{nodes: 2, gpus_per_node: 1}]}",
                                                "{kind: passthrough, select: {vendor: 0x10de}}"),
                                   gpu_host(), false);
  CHECK(node(single, 0, 0, 0).numa_node == 0);
  CHECK(node(single, 0, 0, 1).numa_node == 1);
}

TEST_CASE("GPUs that could be joined by NVLink and are not are warned of") {
  const auto plan = allowed_plan(
      gpu_scenario(two_gpus, "{kind: passthrough, select: {address: [0000:17:00.0, 0000:ca:00.0]}}"),
      gpu_host(), false);
  CHECK_THAT(join(plan.warnings, " "), Contains("not all joined by NVLink"));
  const auto& apart = node(plan, 0, 0, 0);
  CHECK(apart.devices_reason == "on several NUMA nodes");
  CHECK(apart.cores == std::vector<int>{0, 1, 32, 33});  // two cores beside each
  CHECK(apart.core_numa_nodes == std::vector<int>{0, 0, 1, 1});
}

TEST_CASE("a GPU that the host cannot pass is not chosen") {
  auto inventory = gpu_host();
  for (auto& device : inventory.devices) { device.mechanism = vmctl::Mechanism::none; }
  CHECK_THAT(refusal(gpu_scenario(two_gpus, "{kind: passthrough}"), inventory),
             Contains("host testhost has 0"));
}

TEST_CASE("no GPU is given twice, and a rank drives each") {
  const auto plan = allowed_plan(
      gpu_scenario("{name: a, tenants: [{nodes: 1, gpus_per_node: 2}, {nodes: 2, gpus_per_node: 1}]}",
                   "{kind: passthrough, select: {vendor: 0x10de}}"),
      gpu_host(), false);
  std::set<std::string> given;
  for (const auto& tenant : plan.placements[0].tenants) {
    for (const auto& n : tenant.nodes) {
      for (const auto& address : n.device_addresses()) { CHECK(given.insert(address).second); }
    }
  }
  CHECK(given.size() == 4);
  CHECK(plan.placements[0].tenants[0].ranks() == 2);
  CHECK(plan.placements[0].tenants[1].ranks() == 2);
}

TEST_CASE("device bindings: neighbours of one arm share a binding") {
  const auto bindings = [](const std::string& arms_and_pairs) {
    return allowed_plan(gpu_scenario(two_gpus, "{kind: passthrough}", arms_and_pairs), gpu_host(), false)
        .device_bindings;
  };
  // B V | V B | B V | V B: to the VM and back, twice, two GPUs each
  CHECK(bindings("pairs: 4\n") == 8);
  CHECK(bindings("pairs: 1\n") == 4);
  CHECK(bindings("pairs: 3\narms: [vm]\n") == 4);
  CHECK(bindings("pairs: 3\narms: [bare_metal]\n") == 0);
  CHECK(allowed_plan(scenario(one_node), host(1, 2), false).device_bindings == 0);
}

TEST_CASE("the estimate grows with the work, and emulation and settling cost time") {
  const auto seconds = [](const std::string& workload, bool emulated, const std::string& more = "") {
    return allowed_plan(scenario(one_node, "arms: [vm]\npairs: 2\n" + more, "vcpus: 2", workload), host(1, 2),
                        emulated)
        .estimate_seconds;
  };
  const std::string small = "backend: cpu, image_size: 32, steps: 10, batch_size: 4";
  CHECK(seconds("backend: cpu, image_size: 64, steps: 10, batch_size: 4", true) > seconds(small, true));
  CHECK(seconds(small, true) > seconds(small, false));
  CHECK(seconds(small, false, "settle: 10s\n") == Approx(seconds(small, false) + 20));
  const auto plan = allowed_plan(scenario(one_node), host(1, 2), false);
  double sum = 0;
  for (const auto& trial : plan.trials) { sum += trial.estimate_seconds; }
  CHECK(plan.estimate_seconds == Approx(sum));
  // Binding is beside the trials.
  const auto with_gpus = allowed_plan(gpu_scenario(two_gpus, "{kind: passthrough}"), gpu_host(), false);
  sum = 0;
  for (const auto& trial : with_gpus.trials) { sum += trial.estimate_seconds; }
  CHECK(with_gpus.estimate_seconds > sum + static_cast<double>(with_gpus.device_bindings));
  // More nanoseconds than 64 bits hold.
  const auto long_one = allowed_plan(
      scenario(one_node, "arms: [vm]\n", "vcpus: 2", "backend: cpu, steps: 1000000, batch_size: 4096"),
      host(1, 2), true);
  CHECK_THAT(to_table(long_one, false), Contains(" to 1157360455 h\n"));
}

TEST_CASE("emulation is expected without /dev/kvm or without vmx and svm") {
  auto inventory = host(1, 2);
  CHECK(expects_emulation(inventory));
  inventory.has_kvm_device = true;
  CHECK(expects_emulation(inventory));
  inventory.cpu_flags = {"sse2", "svm"};
  CHECK_FALSE(expects_emulation(inventory));
  inventory.cpu_flags = {"vmx"};
  CHECK_FALSE(expects_emulation(inventory));
  inventory.has_kvm_device = false;
  CHECK(expects_emulation(inventory));
}

TEST_CASE("JSON has the fields that outside tests rely on") {
  const auto plan = allowed_plan(
      gpu_scenario(
          "{name: two, tenants: [{name: a, nodes: 1, gpus_per_node: 1}, {nodes: 1, gpus_per_node: 1}]}",
          "{kind: passthrough, select: {vendor: 0x10de}}", "pairs: 1\n"),
      gpu_host(), false);
  const auto json = to_json(plan);
  CHECK(json["scenario"] == "planned");
  REQUIRE(json["trials"].size() == 2);
  const auto& trial = json["trials"][1];
  CHECK(trial["order"] == 2);
  CHECK(trial["case"] == "two");
  CHECK(trial["arm"] == "vm");
  CHECK(trial["pair"] == 1);
  CHECK(trial["nodes"] == 2);
  CHECK(trial["oversubscribed"] == false);
  CHECK(trial["estimate_seconds"].is_number());
  CHECK(trial["guest"]["vcpus"] == 4);
  CHECK(trial["guest"]["pinning"] == "cores");
  CHECK(trial["guest"]["network"].is_object());
  const auto& tenant = trial["tenants"][0];
  CHECK(tenant["name"] == "a");
  CHECK(tenant["gpus_per_node"] == 1);
  CHECK(tenant["workload"]["backend"] == "cuda");
  const auto& first = tenant["nodes"][0];
  CHECK(first["hostname"] == "t1n1");
  CHECK(first["cores"] == nlohmann::json({0, 1, 2, 3}));
  CHECK(first["numa_node"] == 0);
  CHECK(first["memory_bytes"] == gib);
  CHECK(first["devices"] == nlohmann::json({"0000:17:00.0"}));
  CHECK(first["network"]["address"] == "10.77.0.1/16");
  CHECK(first["network"]["mac"] == "52:54:00:00:00:00");
  CHECK(json["vm_boots"] == 2);
  CHECK(json["device_bindings"] == 4);
  CHECK(json["warnings"].empty());  // one pair cannot have its orders in balance, and the reader knows
  CHECK_THAT(to_table(plan, false), Contains("2 trials, 2 VM boots, 4 device rebinds"));
}

TEST_CASE("the same input gives the same plan") {
  const auto s = gpu_scenario("{name: a, scale: {nodes: [1, 2, 4], gpus_per_node: 1}}",
                              "{kind: passthrough, select: {vendor: 0x10de}}");
  CHECK(to_json(allowed_plan(s, gpu_host(), true)).dump() ==
        to_json(allowed_plan(s, gpu_host(), true)).dump());
}

TEST_CASE("a thousand tenants: each core, name and MAC is given once") {
  std::string tenants;
  for (int i = 0; i < 1000; ++i) { tenants += "{nodes: 1},"; }
  const auto plan = allowed_plan(scenario("{name: a, tenants: [" + tenants + "]}", "", "vcpus: 1"),
                                 host(8, 125, 4096), false);
  std::set<int> cores;
  std::set<std::string> hostnames, macs, names;
  REQUIRE(plan.placements[0].tenants.size() == 1000);
  for (const auto& tenant : plan.placements[0].tenants) {
    names.insert(tenant.name);
    cores.insert(tenant.nodes.at(0).cores.at(0));
    hostnames.insert(tenant.nodes[0].hostname);
    macs.insert(tenant.nodes[0].mac);
  }
  CHECK(cores.size() == 1000);
  CHECK(hostnames.size() == 1000);
  CHECK(macs.size() == 1000);
  CHECK(names.size() == 1000);
  CHECK(plan.trials.size() == 12);
  CHECK(plan.placements[0].nodes() == 1000);
}

TEST_CASE("a tenant of many nodes keeps its addresses apart") {
  const auto plan =
      allowed_plan(scenario("{name: a, tenants: [{nodes: 600}]}", "arms: [bare_metal]\n", "vcpus: 1"),
                   host(1, 600, 4096), false);
  std::set<std::string> addresses;
  for (const auto& n : plan.placements[0].tenants[0].nodes) { addresses.insert(n.address); }
  CHECK(addresses.size() == 600);
  CHECK(node(plan, 0, 0, 249).address == "10.77.0.250/16");
  CHECK(node(plan, 0, 0, 250).address == "10.77.1.1/16");
}

TEST_CASE("cores of another live run are left alone where enough others are there") {
  auto inventory = host(2, 2);
  inventory.leased_cores = {0, 2, 77};
  const auto cores = [&](const std::string& nodes, const std::string& more = "") {
    std::vector<int> found;
    const auto plan = allowed_plan(scenario("{name: a, tenants: [{nodes: " + nodes + "}]}", more, "vcpus: 1"),
                                   inventory, false);
    for (const auto& node : plan.placements[0].tenants[0].nodes) {
      found.insert(found.end(), node.cores.begin(), node.cores.end());
    }
    return found;
  };
  CHECK(cores("1") == std::vector<int>{1});
  CHECK(cores("2") == std::vector<int>{1, 3});
  CHECK(cores("3") == std::vector<int>{0, 1, 2});  // which is then refused as busy
}

TEST_CASE("VMs that are kept for their case boot once") {
  const auto boots = [](const std::string& more) {
    return allowed_plan(scenario("{name: a, scale: {nodes: [1, 2]}}", "pairs: 4\n" + more), host(1, 8), false)
        .vm_boots;
  };
  CHECK(boots("") == 12);
  CHECK(boots("reuse: case\n") == 3);
}

TEST_CASE("a node too small for its ranks is warned of") {
  const auto warnings = [](const std::string& ranks) {
    return allowed_plan(
               scenario("{name: a, tenants: [{nodes: 1, ranks_per_node: " + ranks + "}]}", "", "vcpus: 4"),
               host(1, 8), false)
        .warnings;
  };
  CHECK(warnings("2").empty());
  REQUIRE(warnings("4").size() == 1);
  CHECK_THAT(warnings("4")[0], Contains("4 ranks in a node of 1GiB"));
}
