// What forbids a verdict, and what does not: looks of several experiments, what an arm explains.

#include "results/comparison/guard/comparability.h"
#include "results/comparison/selector.h"
#include "results/comparison/verdict.h"
#include "results/reading/reading.h"
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
                             .throughput = arm == std::string("vm") ? 99.2 + 0.1 * pair : 100.0});
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
  CHECK_FALSE(list[1].further_pairs);  // none can be added to it
  CHECK(list[2].n == 10);
  CHECK(list[2].verdict == Verdict::inconclusive);
  CHECK(list[2].reason == "pooled_looks");
  CHECK_THAT(verdict_remark(list[2]), Contains("one by one (--experiment)"));
  CHECK_THAT(verdict_sentence(list[2]), Contains("; no verdict: pairs of experiments that were looked at"));
  CHECK_FALSE(list[2].test->ci);  // of what stopped by what it saw nothing has a level
  CHECK_FALSE(list[2].test->p_diff);
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
  for (const char* key :
       {"devices.clique", "guest.topology", "guest.nccl_topology", "devices.nics.per_node"}) {
    CHECK(found("transport", "P2P", "SHM", key) == explained_by_the_arm);
  }
  CHECK(found("driver", "550", "580", "guest.image") == explained_by_the_arm);
  CHECK(found("nccl", "2.20", "2.21", "guest.image") == must_be_equal);  // the job's libraries are no image's
  CHECK(found("driver", "550", "580", "guest.image_of_another_name") == must_be_equal);
}

namespace {

/// Six trials an arm, whose drivers are told by a string such as "aaabbb"; '?' is one that nobody knows.
CaseComparison with_drivers(bool paired, const std::string& baseline, const std::string& candidate) {
  ComparisonData data;
  std::map<std::pair<std::string, char>, std::vector<std::int64_t>> seen;
  for (const auto& [arm, drivers] : {std::pair("bare_metal", baseline), std::pair("vm", candidate)}) {
    for (std::size_t i = 0; i < drivers.size(); ++i) {
      data.rows.push_back({.case_name = "c",
                           .arm = arm,
                           .pair = paired ? std::optional<std::int64_t>(i) : std::nullopt,
                           .virtualization = "kvm",
                           .trial = std::ssize(data.rows) + 1,
                           .throughput = 100 + 0.1 * static_cast<double>(i)});
      if (drivers[i] != '?') { seen[{arm, drivers[i]}].push_back(data.rows.back().trial); }
    }
  }
  for (const auto& [what, trials] : seen) {
    data.facts.push_back({.case_name = "c",
                          .arm = what.first,
                          .key = "driver",
                          .value = std::string(1, what.second),
                          .trials = nlohmann::json(trials).dump()});
  }
  return compare(data, {}).at(0);
}

}  // namespace

TEST_CASE("each pair is held against itself, and unpaired trials by the shares of their values") {
  CHECK(with_drivers(true, "ababab", "ababab").verdict == Verdict::equivalent);
  CHECK(with_drivers(true, "ababab", "a?a?a?").reason == "differs");
  CHECK(with_drivers(true, "aaaaaa", "a?aaa?").verdict == Verdict::equivalent);
  const auto swapped = with_drivers(true, "ababab", "bababa");
  CHECK(swapped.verdict == Verdict::not_comparable);
  CHECK(swapped.notes.back().starts_with("driver differs: in 6 of 6 pairs (it must be equal"));
  CHECK_THAT(with_drivers(true, "aaaaaa", "aaaaab").notes.back(),
             Contains("a in bare_metal, b in vm, in 1 of 6 pairs"));

  CHECK(with_drivers(false, "aaabbb", "bababa").verdict == Verdict::equivalent);
  CHECK(with_drivers(false, "aaabbb", "abab").verdict == Verdict::equivalent);
  CHECK(with_drivers(false, "aaaaaa", "?a?aaa").verdict == Verdict::equivalent);
  const auto shifted = with_drivers(false, "aaaaab", "bbbbba");
  CHECK(shifted.verdict == Verdict::not_comparable);
  CHECK_THAT(shifted.notes.back(), Contains("driver differs: a in 5 of 6 trials against 1 of 6"));
}

TEST_CASE("pairs of other numbers of nodes are not comparable, though both sides have all of them") {
  ComparisonData data;
  for (int pair = 1; pair <= 4; ++pair) {
    for (const bool is_vm : {false, true}) {
      data.rows.push_back({.case_name = "c",
                           .arm = is_vm ? "vm" : "bare_metal",
                           .pair = pair,
                           .nodes = (pair % 2 == 0) == is_vm ? 1 : 2,
                           .throughput = 100 + pair});
    }
  }
  CHECK(compare(data, {}).at(0).flags == std::vector<std::string>{"zero_variance", "differs:nodes"});
}

TEST_CASE("between two runs of one arm nothing is explained by the arm") {
  const Facts before = {{"microcode", {"1"}}, {"temperature", {"40"}}};
  const Facts after = {{"microcode", {"2"}}, {"temperature", {"50"}}};
  for (const bool one_arm : {false, true}) {
    const auto found = differences(before, after, one_arm);
    REQUIRE(found.size() == 2);
    CHECK(forbids(found[0]) == one_arm);
    CHECK_FALSE(forbids(found[1]));
  }
}

TEST_CASE("long lists of facts are shown by what they do not share") {
  std::string ours = "a b c d e f g h i j k avx512";
  std::string theirs = "a b c d e f g h i j k hypervisor";
  const auto found = differences({{"cpu_flags", {ours}}}, {{"cpu_flags", {theirs}}});
  REQUIRE(found.size() == 1);
  CHECK_THAT(to_sentence(found[0], "bare_metal", "vm"),
             Contains("only the first has avx512, only the second hypervisor"));
  const auto short_ones = differences({{"driver", {"1"}}}, {{"driver", {"2"}}});
  CHECK_THAT(to_sentence(short_ones[0], "bare_metal", "vm"), Contains("1 in bare_metal, 2 in vm"));
}

TEST_CASE("of several variants that ran alone each is compared with the first of the plan") {
  ArmRecords records;
  for (const char* name : {"vm-b", "vm-a", "vm-c"}) {
    records[name] = {.name = name, .base = "vm", .like = "vm", .position = records.size() + 1};
  }
  CHECK(default_pairs({"vm-c", "vm-a", "vm-b"}, records) ==
        std::vector<ArmPair>{{"vm-b", "vm-a"}, {"vm-b", "vm-c"}});
}
