// What forbids a verdict, and what does not: looks of several experiments, what an arm explains.

#include "results/comparison/arms.h"
#include "results/comparison/compare.h"
#include "results/comparison/guard/comparability.h"
#include "results/comparison/verdict.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

TEST_CASE("an experiment that was looked at has the level of its look beside others, and pooled none") {
  ComparisonData data;
  const char* looks = R"({"at_most":30,"every":1,"first":3})";
  data.experiments = {{.id = "e0"}, {.id = "e1", .looks = looks}, {.id = "e2", .looks = looks}};
  const auto add = [&](std::int64_t experiment, const char* name) {
    for (int pair = 1; pair <= 5; ++pair) {
      for (const char* arm : {"bare_metal", "vm"}) {
        data.rows.push_back({.experiment = experiment,
                             .case_name = name,
                             .arm = arm,
                             .pair = pair,
                             .virtualization = arm == std::string("vm") ? "kvm" : "none",
                             .images_per_second = arm == std::string("vm") ? 99.2 + 0.1 * pair : 100.0});
      }
    }
  };
  add(0, "fixed"), add(1, "looked"), add(1, "pooled"), add(2, "pooled");
  const auto list = compare(data, {});
  REQUIRE(list.size() == 3);
  CHECK(list[0].verdict == Verdict::equivalent);
  CHECK_FALSE(list[0].looks);
  CHECK(list[1].looks);
  CHECK(list[1].settings.alpha < 1e-4);
  CHECK(list[1].verdict == Verdict::inconclusive);
  CHECK(list[2].n == 10);
  CHECK(list[2].verdict == Verdict::inconclusive);
  CHECK(list[2].reason == "pooled_looks");
  CHECK_THAT(verdict_remark(list[2]), Contains("one by one (--experiment)"));
}

TEST_CASE("an arm explains what it changes, and nothing else") {
  const auto found = [](const char* field, const char* ours, const char* theirs, const char* key) {
    const auto all = differences({{field, {ours}}}, {{field, {theirs}}}, false, {key});
    REQUIRE(all.size() == 1);
    return all[0].rule;
  };
  using enum FactRule;
  CHECK(found("environment", R"({"B":"1"})", R"({"A":"1","B":"1"})", "workload.env.A") ==
        explained_by_the_arm);
  CHECK(found("environment", R"({"B":"1"})", R"({"A":"1","B":"2"})", "workload.env.A") == must_be_equal);
  CHECK(found("transport", "P2P", "SHM", "workload.env.FOO") == must_be_equal);
  CHECK(found("transport", "P2P", "SHM", "workload.env.NCCL_P2P_DISABLE") == explained_by_the_arm);
  CHECK(found("isa", "avx2", "avx512", "workload.env.ONEDNN_MAX_CPU_ISA") == explained_by_the_arm);
  for (const char* key : {"devices.clique", "guest.topology", "guest.nccl_topology"}) {
    CHECK(found("transport", "P2P", "SHM", key) == explained_by_the_arm);
  }
}

TEST_CASE("of several variants that ran alone each is compared with the first of the plan") {
  ArmRecords records;
  for (const char* name : {"vm-b", "vm-a", "vm-c"}) {
    records[name] = {.name = name, .base = "vm", .like = "vm", .position = records.size() + 1};
  }
  CHECK(default_pairs({"vm-c", "vm-a", "vm-b"}, records) ==
        std::vector<ArmPair>{{"vm-b", "vm-a"}, {"vm-b", "vm-c"}});
}
