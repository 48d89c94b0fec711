#include <fmt/format.h>
#include <sys/resource.h>

#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/plan/planning.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

constexpr const char* start = R"(
name: s
workload: {batch_size: 8, env: {A: base, B: base}}
guest: {vcpus: 1, memory: 512MiB, pinning: cores}
)";

Scenario decoded(const std::string& more) {
  return decode_scenario(start + more, "s.yaml");
}

constexpr const char* one_case = "cases: [{name: one, tenants: [{nodes: 1}]}]\n";

std::vector<std::string> names(const Scenario& scenario) {
  std::vector<std::string> all;
  for (const auto& one : scenario.cases) { all.push_back(one.name); }
  return all;
}

}  // namespace

TEST_CASE("an arm is another with some keys laid over, and a chain of them ends at one that there is") {
  const auto s = decoded(std::string(one_case) + R"(
arms:
  - vm
  - {name: vm-huge-too, like: vm-unpinned, guest: {hugepages: true}, workload: {env: {B: huge}}}
  - {name: vm-unpinned, like: vm, guest: {pinning: none}}
  - {name: again, like: vm}
)");
  REQUIRE(s.arms.size() == 4);
  const auto& huge = s.arms[1];
  CHECK(huge.base == "vm");
  CHECK(huge.like == "vm-unpinned");
  CHECK(huge.own_changes.size() == 2);
  CHECK(huge.changes.size() == 3);
  CHECK(huge.cases.at(0).guest.pinning == Pinning::none);
  CHECK(huge.cases[0].guest.hugepages);
  CHECK(huge.cases[0].guest.memory_bytes == 512U << 20);
  CHECK(huge.cases[0].tenants[0].workload.environment ==
        std::map<std::string, std::string>{{"A", "base"}, {"B", "huge"}});
  CHECK(s.arms[2].cases[0].guest.pinning == Pinning::none);
  CHECK_FALSE(s.arms[2].cases[0].guest.hugepages);
  CHECK(s.arms[3].cases == s.arms[0].cases);
  CHECK(s.cases[0].guest.pinning == Pinning::cores);
  CHECK(has_arm(s, "vm"));
  CHECK_FALSE(has_arm(s, "bare_metal"));
}

TEST_CASE("VMs of an arm boot the image that it says, and are waited for as a cloud image needs") {
  const auto s =
      decoded(std::string(one_case) + "arms: [vm, {name: vm-old, like: vm, guest: {image: /old.qcow2}}]\n");
  CHECK(s.arms[0].cases[0].guest.is_mirror());
  CHECK(s.arms[1].cases[0].guest.image == "/old.qcow2");
  CHECK(s.boot_timeout_ns == 600'000'000'000);
  CHECK(decoded(std::string(one_case) + "arms: [vm]\n").boot_timeout_ns == 90'000'000'000);
  const auto plan = make_plan(s, host(1, 4), false);
  REQUIRE(plan.placements.size() == 2);
  CHECK(plan.placements[1].guest.image == "/old.qcow2");
  CHECK_THROWS_WITH(decoded(std::string(one_case) + "sweep: {guest.image: [mirror, /old.qcow2]}\n"),
                    Contains("guest.image cannot be swept: write an arm for each image"));
}

TEST_CASE("what an arm or a sweep says goes before what a case or a tenant says") {
  const auto s = decoded(R"(
cases: [{name: one, workload: {env: {A: case}}, tenants: [{nodes: 1, workload: {batch_size: 4, env: {B: tenant}}}]}]
arms: [vm, {name: a, like: vm, workload: {env: {B: arm}}}]
sweep: {workload.batch_size: [16, 32]}
)");
  CHECK(names(s) == std::vector<std::string>{"one@batch_size=16", "one@batch_size=32"});
  const auto& workload = s.arms.at(1).cases.at(1).tenants.at(0).workload;
  CHECK(workload.batch_size == 32);
  CHECK(workload.environment == std::map<std::string, std::string>{{"A", "case"}, {"B", "arm"}});
}

TEST_CASE("a sweep is the product of its values, or takes them one by one, and a case's own replaces it") {
  const std::string keys = "workload.batch_size: [16, 32], guest.vcpus: [1, 2]";
  CHECK(names(decoded(one_case + fmt::format("sweep: {{{}}}\n", keys))) ==
        std::vector<std::string>{"one@batch_size=16,vcpus=1", "one@batch_size=16,vcpus=2",
                                 "one@batch_size=32,vcpus=1", "one@batch_size=32,vcpus=2"});
  const std::string refused = "sweep: {zip: true, workload.env.A: ['', x], workload.batch_size: [1, 2]}\n";
  CHECK_THROWS_WITH(decoded(one_case + refused), Contains("workload.env.A") && !Contains("zip: "));
  const auto zipped = decoded(one_case + fmt::format("sweep: {{{}, zip: true}}\n", keys));
  CHECK(names(zipped) == std::vector<std::string>{"one@batch_size=16,vcpus=1", "one@batch_size=32,vcpus=2"});
  CHECK(zipped.cases[1].guest.vcpus == 2);
  const auto own = decoded(R"(
cases:
  - {name: weak, scale: {nodes: [1, 2]}, sweep: {workload.env.NCCL_ALGO: [Ring, Tree]}}
  - {name: plain, tenants: [{nodes: 1}]}
sweep: {guest.pinning: [none, cores]}
)");
  CHECK(names(own) == std::vector<std::string>{"weak@NCCL_ALGO=Ring/1", "weak@NCCL_ALGO=Ring/2",
                                               "weak@NCCL_ALGO=Tree/1", "weak@NCCL_ALGO=Tree/2",
                                               "plain@pinning=none", "plain@pinning=cores"});
  CHECK(own.cases[3].key == CaseKey{"weak", 2, {{{"NCCL_ALGO", "Tree"}}}});
  CHECK(own.cases[4].key == CaseKey{"plain", {}, {{{"pinning", "none"}}}});
  CHECK(own.cases[3].tenants[0].workload.environment.at("NCCL_ALGO") == "Tree");
}

TEST_CASE("a sweep of more than 10,000 trials needs a word") {
  const std::string text = std::string(start) + one_case + "pairs: 3000\nsweep: {guest.vcpus: [1, 2]}\n";
  CHECK_THROWS_WITH(decode_scenario(text, "s.yaml"), Contains("s.yaml:7:8: the sweep makes 12000 trials"));
  CHECK_NOTHROW(decode_scenario(text, "s.yaml", true));
}

TEST_CASE("a sweep of too many trials is refused before each point has a workload of its own") {
  const auto peak_mib = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss >> 10;
  };
  std::string large = "name: s\nguest: {vcpus: 1, memory: 512MiB}\nworkload: {env: {A: '";
  for (int i = 0; i < 2; ++i) { large += fmt::format("{}', V{}: '", std::string(4'000, 'a'), i); }
  large += std::string("'}}\n") + one_case + "sweep:\n";
  for (const char* key : {"batch_size", "steps"}) {
    large += fmt::format("  workload.{}: [", key);
    for (int i = 1; i <= 60; ++i) { large += fmt::format("{}{}", i == 1 ? "" : ", ", i); }
    large += "]\n";
  }
  const auto before = peak_mib();
  CHECK_THROWS_WITH(decode_scenario(large, "s.yaml"), Contains("the sweep makes 43200 trials"));
  CHECK(peak_mib() - before < 64);  // 3,600 points
  CHECK_THROWS_WITH(
      decode_scenario(large + "pairs: 10000\n", "s.yaml", true),
      Contains("3600 cases in 2 arms, 10000 times, are 72000000 trials (allowed: at most 50000"));
  // Mistakes elsewhere are told too.
  CHECK_THROWS_WITH(decode_scenario(large + "arms: [vm]\nreuse: never\n", "s.yaml"),
                    Contains("the sweep makes 21600 trials") && Contains("reuse"));
}

TEST_CASE("prices are of an hour of a node, and a variant costs what the arm it is like costs") {
  const auto s = decoded(std::string(one_case) + R"(
arms: [bare_metal, vm, {name: a, like: vm}, {name: b, like: a}]
price: {vm: 2.10 EUR/h, b: 3 EUR/h}
)");
  CHECK_FALSE(s.arms[0].price);
  CHECK(s.arms[1].price->amount == 2.1);
  CHECK(s.arms[2].price->amount == 2.1);
  CHECK(s.arms[3].price->amount == 3);
  CHECK(s.arms[3].price->currency == "EUR");
  CHECK(decoded(std::string(one_case) + "arms: [{name: a, like: vm}]\nprice: {vm: 2 EUR/h}\n").arms[0].price);
}

TEST_CASE("a plan says what each arm changes, and places a case again where an arm changes it") {
  const auto s = decoded(std::string(one_case) + R"(
pairs: 2
arms: [bare_metal, vm, {name: vm-unpinned, like: vm, guest: {pinning: none}}, {name: again, like: vm}]
)");
  const auto plan = make_plan(s, host(1, 4), false);
  REQUIRE(plan.placements.size() == 2);
  REQUIRE(plan.trials.size() == 8);
  CHECK(plan.trials[1].placement == 0);
  CHECK(plan.trials[2].placement == 1);
  CHECK(plan.trials[2].base == "vm");
  CHECK(plan.trials[3].placement == 0);
  CHECK(plan.vm_boots == 6);
  CHECK(plan.placements[1].guest.pinning == Pinning::none);
  CHECK(plan.placements[0].tenants[0].nodes[0].cores == plan.placements[1].tenants[0].nodes[0].cores);
  const auto table = to_table(plan, false);
  CHECK_THAT(table, Contains("  vm-unpinned is like vm, with guest.pinning none\n"));
  CHECK_THAT(table, Contains("  again is like vm, unchanged\n"));
  CHECK_THAT(table, Contains("  one  (bare_metal, vm, again)\n") && Contains("  one  (vm-unpinned)\n"));
  const auto arm = to_json(plan).at("arms").at(2);
  CHECK(arm == nlohmann::json{{"name", "vm-unpinned"},
                              {"base", "vm"},
                              {"like", "vm"},
                              {"changes", {{"guest.pinning", "none"}}}});
}
