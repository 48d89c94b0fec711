#include <fmt/format.h>

#include "common/error.h"
#include "harness/plan/node_group.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/plan/planning.h"
#include "tests/support/catch.h"
#include "vmctl/host/local_host.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;
using virtrain::test::EndsWith;
using virtrain::test::StartsWith;

namespace {

/// One case of a tenant of `nodes`.
Scenario limited_scenario(int nodes, const std::string& guest, const std::string& arms = "[bare_metal, vm]",
                          const std::string& memory = "1GiB") {
  return decode_scenario(
      fmt::format(
          "name: planned\nworkload: {{}}\nguest: {{memory: {}, {}}}\ncases: [{{name: a, tenants: [{{name: "
          "many, nodes: {}}}]}}]\narms: {}\npairs: 2\n",
          memory, guest, nodes, arms),
      "planned.yaml");
}

std::string xml_of_this_host(const vmctl::NodeGroupSpec& group, std::size_t tenant, std::size_t node,
                             vmctl::NodeId number) {
  static vmctl::LocalHost host("/");  // asks QEMU for its version once
  return host.planned_xml(group, tenant, node, number, false);
}

}  // namespace

TEST_CASE("pinning numa takes each VM's memory from one NUMA node, which must have it") {
  const auto words = [](const std::string& pinning, const std::string& arms = "[vm]") {
    return refusal(limited_scenario(1, "vcpus: 2, pinning: " + pinning, arms, "4GiB"), host(2, 2, 8));
  };
  CHECK(words("cores") == "(planned)");
  CHECK(words("numa") ==
        "case a: its VMs need 4.15GiB, QEMU's own included, NUMA node 0 of host testhost has 4GiB (use less "
        "memory, fewer "
        "nodes, or pinning: cores)");
  CHECK(words("numa", "[bare_metal]") == "(planned)");
}

TEST_CASE("as many huge pages as the VMs need must be free, on one NUMA node where pinning says so") {
  const auto words = [](const std::string& pinning, std::uint64_t on_first, std::uint64_t on_second,
                        const std::string& arms = "[bare_metal, vm]") {
    auto inventory = host(2, 2, 64);
    inventory.numa_nodes[0].free_hugepages_2mib = on_first;
    inventory.numa_nodes[1].free_hugepages_2mib = on_second;
    return refusal(limited_scenario(2, "vcpus: 2, hugepages: true, pinning: " + pinning, arms), inventory);
  };
  CHECK(words("cores", 512, 512) == "(planned)");
  CHECK(words("none", 1024, 0) == "(planned)");
  CHECK(words("cores", 512, 511) ==
        "case a: its VMs need 1024 huge pages of 2MiB, host testhost has 1023 free (reserve them on the "
        "kernel's "
        "command line or by vm.nr_hugepages, or leave guest.hugepages out)");
  CHECK_THAT(words("none", 0, 0), Contains("need 1024 huge pages of 2MiB, host testhost has 0 free "));
  CHECK(words("numa", 512, 512) == "(planned)");
  CHECK_THAT(words("numa", 1024, 0), StartsWith("case a: its VMs need 512 huge pages of 2MiB, NUMA node 1 of "
                                                "host testhost has 0 free "));
  CHECK(words("cores", 0, 0, "[bare_metal]") == "(planned)");
}

TEST_CASE("pinning numa passes over a NUMA node without the memory, or without the huge pages") {
  const auto numa_nodes = [](const vmctl::Inventory& inventory, const std::string& guest,
                             const std::string& memory) {
    const auto s = limited_scenario(2, "vcpus: 2, pinning: numa" + guest, "[bare_metal, vm]", memory);
    std::vector<int> nodes;
    for (const auto& node : allowed_plan(s, inventory, false).placements.at(0).tenants.at(0).nodes) {
      nodes.push_back(node.numa_node.value_or(-1));
    }
    return nodes;
  };
  using Nodes = std::vector<int>;
  // Of 16 GiB each has room for one VM of 12, though for the cores of four.
  CHECK(numa_nodes(host(2, 8, 32), "", "12GiB") == Nodes{0, 1});
  CHECK(numa_nodes(host(2, 8, 64), "", "12GiB") == Nodes{0, 0});
  auto empty = host(2, 8, 64);
  empty.numa_nodes[0].memory_bytes = 0;
  CHECK(numa_nodes(empty, "", "2GiB") == Nodes{1, 1});
  auto huge = host(2, 8, 64);
  huge.numa_nodes[0].free_hugepages_2mib = 512;
  huge.numa_nodes[1].free_hugepages_2mib = 1024;
  CHECK(numa_nodes(huge, ", hugepages: true", "1GiB") == Nodes{0, 1});
  CHECK(numa_nodes(huge, ", hugepages: true", "900MiB") == Nodes{0, 1});
  huge.numa_nodes[0].free_hugepages_2mib = 511;
  CHECK(numa_nodes(huge, ", hugepages: true", "1GiB") == Nodes{1, 1});
}

TEST_CASE("bare metal beside VMs that are kept for their case needs memory for both") {
  const auto words = [](const std::string& reuse, const std::string& arms, std::uint64_t memory_gib,
                        std::int64_t pairs = 4) {
    auto s = limited_scenario(1, "vcpus: 2", arms, "6GiB");
    s.reuse = reuse == "case" ? Reuse::experiment_case : Reuse::trial;
    s.pairs = pairs;
    return refusal(s, host(1, 4, memory_gib));
  };
  CHECK(
      words("case", "[bare_metal, vm]", 10) ==
      "case a: reuse: case keeps its VMs (6.15GiB, QEMU's own included) while bare_metal runs (6GiB), which "
      "is 12.15GiB together; host testhost has 10GiB (use less memory, or reuse: trial)");
  CHECK(words("case", "[bare_metal, vm]", 13) == "(planned)");
  CHECK(words("trial", "[bare_metal, vm]", 10) == "(planned)");
  CHECK(words("case", "[vm]", 10) == "(planned)");
  // Two pairs have bare metal first and last, and no VM in between is there with it.
  CHECK(words("case", "[bare_metal, vm]", 10, 2) == "(planned)");
}

TEST_CASE("a plan of more cores than the cgroup's quota of CPU time is warned of") {
  auto inventory = host(1, 8);
  const auto warnings = [&] {
    return allowed_plan(limited_scenario(2, "vcpus: 2"), inventory, false).warnings;
  };
  CHECK(warnings().empty());
  inventory.cpu_quota_cores = 4;
  CHECK(warnings().empty());
  inventory.cpu_quota_cores = 2.5;
  REQUIRE(warnings().size() == 1);
  CHECK_THAT(warnings()[0], StartsWith("nodes are planned on 4 cores, but the cgroup of this process grants "
                                       "CPU time for 2.5: "));
}

TEST_CASE("huge pages that another run may hold come back, and the kernel may make more of them") {
  auto inventory = host(2, 2, 64);
  const auto s = limited_scenario(1, "vcpus: 2, hugepages: true, pinning: numa");
  inventory.numa_nodes[0].free_hugepages_2mib = inventory.numa_nodes[1].free_hugepages_2mib = 500;
  inventory.surplus_hugepage_bytes = 11ULL << 21;
  CHECK_THAT(refusal(s, inventory),
             Contains("need 512 huge pages of 2MiB, NUMA node 0 of host testhost has 511 "));
  inventory.leased_cores = {3};
  CHECK_THAT(refusal(s, inventory, 75), Contains("need 512 huge pages"));
  inventory.surplus_hugepage_bytes = 12ULL << 21;
  CHECK(refusal(s, inventory) == "(planned)");
}

TEST_CASE("of a huge page that is begun all is taken") {
  const auto words = [](std::uint64_t pages) {
    auto inventory = host(1, 2, 64);
    inventory.hugepage_bytes = gib;
    inventory.numa_nodes[0].free_hugepages_1gib = pages;
    return refusal(limited_scenario(1, "vcpus: 2, hugepages: true", "[vm]", "1536MiB"), inventory);
  };
  CHECK(words(2) == "(planned)");
  CHECK_THAT(words(1), Contains("its VMs need 2 huge pages of 1GiB, host testhost has 1 free "));
}

TEST_CASE("a tenant has no more VMs than its guests' kernel command line has room for") {
  const auto large = host(1, 600, 4096);
  const auto words = [&](int nodes, const std::string& arms = "[bare_metal, vm]") {
    return refusal(limited_scenario(nodes, "vcpus: 1", arms), large);
  };
  int most = 2;
  while (most < 600 && words(most + 1) == "(planned)") { ++most; }
  CHECK(most > 100);
  CHECK_THAT(words(most + 1),
             StartsWith(fmt::format("case a: many: {} hosts make a kernel command line of 20", most + 1)) &&
                 EndsWith(" bytes, a guest's kernel takes 2047 (use fewer nodes in a tenant)"));
  CHECK(words(600, "[bare_metal, bare_metal_shared]") == "(planned)");
  const auto s = limited_scenario(most, "vcpus: 1");
  const auto plan = allowed_plan(s, large, false);
  CHECK_NOTHROW(planned_domains(plan, {}, xml_of_this_host));
}

TEST_CASE("guests from a cloud image have their peers' names from the seed, however many they are") {
  const auto s = limited_scenario(300, "vcpus: 1, image: /images/cloud.qcow2", "[vm]");
  const auto plan = allowed_plan(s, host(1, 600, 4096), false);
  CHECK_NOTHROW(planned_domains(plan, {}, xml_of_this_host));
}
