// Arms of machines that exist already: read, refused with positions, and planned.

#include <map>

#include "common/error.h"
#include "harness/job/programs.h"
#include "harness/plan/host_shares.h"
#include "harness/plan/node_group.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "harness/scenario/decode/sections.h"
#include "tests/harness/scenario/small_scenario.h"
#include "tests/support/catch.h"

namespace virtrain::harness {
namespace {

using test::Contains;

constexpr const char* cloud_and_here =
    "arms:\n"
    "  - {name: cloud, attach: [{launcher: [ssh, -T, me@vm1]}, {launcher: [kubectl, exec, -i, pod/v, --], "
    "address: "
    "192.0.2.7}]}\n"
    "  - {name: cloud-ring, like: cloud, workload: {threads: 1}}\n"
    "  - bare_metal\n";

std::string attach_refusal(const std::string& more) {
  try {
    decode_scenario(small_scenario(more), "s.yaml");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_input);
    return error.message();
  }
  return "(accepted)";
}

vmctl::Inventory two_cores() {
  vmctl::Inventory host;
  host.hostname = "here";
  host.memory_bytes = host.available_memory_bytes = 8ULL << 30;
  host.numa_nodes.push_back({0, 8ULL << 30, 0, 0});
  for (int core = 0; core < 2; ++core) { host.cores.push_back({core, 0}); }
  return host;
}

TEST_CASE("an arm attaches machines, which are named after it, and a variant has the same ones") {
  const auto scenario = decode_scenario(small_scenario(cloud_and_here), "s.yaml");
  REQUIRE(scenario.arms.size() == 3);
  const auto& cloud = scenario.arms[0];
  CHECK(cloud.base == arm_attach);
  REQUIRE(cloud.attached.size() == 2);
  CHECK(cloud.attached[0].name == "cloud:1");
  CHECK(cloud.attached[0].launcher == std::vector<std::string>{"ssh", "-T", "me@vm1"});
  CHECK(cloud.attached[1].address == "192.0.2.7");
  CHECK(scenario.arms[1].attached == cloud.attached);
  CHECK(scenario.arms[1].base == arm_attach);
  CHECK(attached_machines(scenario).size() == 2);
  CHECK_FALSE(is_all_attached(scenario));
}

TEST_CASE("nothing of this host is planned for attached machines, and the plan names them") {
  const auto scenario = decode_scenario(small_scenario(cloud_and_here), "s.yaml");
  auto plan = make_plan(scenario, two_cores(), false);
  const auto json = to_json(plan);
  const auto& node = json["trials"][0]["tenants"][0]["nodes"][0];
  CHECK(node["host"] == "cloud:1");
  CHECK(node["cores"].empty());
  CHECK(json["arms"][0]["attach"][1]["launcher"][0] == "kubectl");
  CHECK(json["trials"][2]["tenants"][0]["nodes"][0]["cores"].size() == 1);
  CHECK_THAT(to_table(plan, true), Contains("on cloud:1, which exists already"));
  CHECK(hosts_of(plan) == std::vector<std::string>{""});
  const auto address = plan.placements.back().tenants[0].nodes[0].address;
  give_addresses(plan, "20261120t083012-7f3a2b");
  CHECK(plan.placements.back().tenants[0].nodes[0].address == address);
}

TEST_CASE("a run of attached machines alone has their names for its place") {
  const auto scenario = decode_scenario(
      small_scenario("arms: [{name: a, attach: [{launcher: [x]}]}, {name: b, attach: [{launcher: [y]}]}]\n"),
      "s.yaml");
  CHECK(place_of(make_plan(scenario, two_cores(), false), {}) == "a:1, b:1");
}

constexpr const char* command_on_machines =
    "name: s\n"
    "workload:\n"
    "  command: [python3, train.py, \"--batch_size={batch_size}\"]\n"
    "  launch: torchrun\n"
    "  throughput: {pattern: '(?P<value>[0-9]+) it/s', example: 7 it/s, unit: steps/s, scope: node}\n"
    "guest: {vcpus: 2, memory: 1GiB}\n"
    "cases: [{name: two, tenants: [{nodes: 2}]}]\n"
    "arms: [{name: a, attach: [{launcher: [x]}, {launcher: [y]}]}]\n";

TEST_CASE("a command runs on attached machines, which must have its first word") {
  const auto plan = make_plan(decode_scenario(command_on_machines, "s.yaml"), two_cores(), false);
  const auto needs = needs_of_machines(plan);
  CHECK_FALSE(needs.mpirun);
  REQUIRE(needs.of_machine.size() == 2);
  CHECK(needs.of_machine.at("a:2").programs == std::vector<std::string>{"python3"});
  auto text = std::string(command_on_machines);
  text.replace(text.find("torchrun"), 8, "once");
  text.replace(text.find("scope: node"), 11, "scope: job");
  const auto once = needs_of_machines(make_plan(decode_scenario(text, "s.yaml"), two_cores(), false));
  CHECK_FALSE(once.of_machine.contains("a:2"));
  text.replace(text.find("launch: once"), 12, "launch: once\n  payload: env.sqfs");
  CHECK_THROWS_WITH(decode_scenario(text, "s.yaml"), Contains("env.sqfs") && Contains("cannot be read"));
}

TEST_CASE("attached machines need a job's payload in place of its program") {
  auto plan = make_plan(decode_scenario(command_on_machines, "s.yaml"), two_cores(), false);
  for (auto& placement : plan.placements) { placement.tenants[0].workload.job->payload = "/srv/env.sqfs"; }
  const auto needs = needs_of_machines(plan).of_machine.at("a:1");
  CHECK(needs.payloads == std::vector<std::string>{"/srv/env.sqfs"});
  CHECK(needs.programs.empty());
  CHECK(payload_paths(plan) == std::map<std::string, bool>{{"/srv/env.sqfs", false}});
  plan.placements.push_back(plan.placements.front());
  plan.placements.back().is_attached = false;
  CHECK(payload_paths(plan) == std::map<std::string, bool>{{"/srv/env.sqfs", true}});
}

TEST_CASE("machines have GPUs of their own where all arms attach") {
  const std::string text =
      "name: s\nworkload: {backend: cuda, precision: fp16}\nguest: {vcpus: 2, memory: 1GiB}\n"
      "cases: [{name: c, tenants: [{nodes: 1, gpus_per_node: 2}]}]\n";
  const std::string cloud = "{name: a, attach: [{launcher: [x]}]}";
  const auto scenario = decode_scenario(text + "arms: [" + cloud + "]\n", "s.yaml");
  const auto needs = needs_of_machines(make_plan(scenario, two_cores(), false));
  CHECK(needs.of_machine.at("a:1").gpus == 2);
  CHECK(needs.of_machine.at("a:1").programs.empty());
  CHECK(needs.mpirun);
  CHECK_THROWS_WITH(decode_scenario(text + "arms: [" + cloud + ", vm]\n", "s.yaml"),
                    Contains("gpus_per_node needs devices of a kind other than none"));
  const std::string devices = "devices: {kind: passthrough}\n";
  CHECK_NOTHROW(decode_scenario(text + devices + "arms: [" + cloud + ", vm]\n", "s.yaml"));
  CHECK_THROWS_WITH(decode_scenario(text + devices + "arms: [" + cloud + "]\n", "s.yaml"),
                    Contains("devices are those of this host"));
}

TEST_CASE("arms that attach are refused where they make no sense") {
  CHECK_THAT(attach_refusal("arms: [{name: a, attach: []}]\n"), Contains("attach"));
  CHECK_THAT(attach_refusal("arms: [{name: a, attach: [{}]}]\n"), Contains("launcher"));
  CHECK_THAT(attach_refusal("arms: [{name: a, like: vm, attach: [{launcher: [x]}]}]\n"),
             Contains("s.yaml:6:") && Contains("has only name and attach"));
  CHECK_THAT(attach_refusal("arms: [{name: a, attach: [{launcher: [x]}, {launcher: [x]}]}]\n"),
             Contains("two machines have the same launcher"));
  CHECK_THAT(attach_refusal("arms: [{name: a, attach: [{launcher: [ssh, \"{host}\"]}]}]\n"),
             Contains("write the machine's name"));
  CHECK_THAT(attach_refusal("arms: [{name: a, attach: [{launcher: [x], address: eth0}]}]\n"),
             Contains("is not an IP address"));
  CHECK_THAT(attach_refusal("  - {name: two, tenants: [{nodes: 1}, {nodes: 2}]}\n"
                            "arms: [{name: a, attach: [{launcher: [x]}, {launcher: [y]}]}]\n"),
             Contains("s.yaml:7:26: arm a attaches 2 machines, and case two has 3 nodes"));
  CHECK_THAT(attach_refusal(
                 "arms: [{name: a, attach: [{launcher: [x]}]}, {name: b, like: a, guest: {smt: apart}}]\n"),
             Contains("has no meaning on attach"));
  CHECK_THAT(attach_refusal("security: true\narms: [{name: a, attach: [{launcher: [x]}]}]\n"),
             Contains("security"));
  CHECK_THAT(
      attach_refusal("hosts: {launcher: ssh, hosts: [h]}\narms: [{name: a, attach: [{launcher: [x]}]}]\n"),
      Contains("attached machines are started from this host alone"));
}

}  // namespace
}  // namespace virtrain::harness
