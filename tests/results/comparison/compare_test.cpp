#include <fstream>
#include <set>

#include "common/text/text.h"
#include "results/comparison/compare_json.h"
#include "results/comparison/verdict.h"
#include "results/exchange/exchange.h"
#include "results/reading/reading.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

ComparisonRow row(const std::string& case_name, const std::string& arm, std::optional<std::int64_t> pair,
                  std::optional<double> images_per_second, std::int64_t nodes = 1) {
  ComparisonRow result;
  result.case_name = case_name;
  result.arm = arm;
  result.pair = pair;
  result.throughput = images_per_second;
  result.nodes = nodes;
  result.virtualization = arm == "vm" ? "kvm" : "none";
  return result;
}

/// K2 of the known answers, as pairs (or not).
ComparisonData k2(bool paired) {
  const double baseline[] = {100, 101, 99.5, 100.5, 100.2};
  const double candidate[] = {98.9, 99.6, 98.7, 99.2, 99.1};
  ComparisonData data;
  for (int i = 0; i < 5; ++i) {
    const auto pair = paired ? std::optional<std::int64_t>(i + 1) : std::nullopt;
    data.rows.push_back(row("c", "bare_metal", pair, baseline[i]));
    data.rows.push_back(row("c", "vm", pair, candidate[i]));
  }
  return data;
}

CaseComparison only(const ComparisonData& data, const CompareRequest& request = {}) {
  const auto list = compare(data, request);
  REQUIRE(list.size() == 1);
  return list.front();
}

}  // namespace

TEST_CASE("paired trials are compared pair by pair, whatever their order in the file") {
  auto data = k2(true);
  std::swap(data.rows.front(), data.rows.back());
  std::swap(data.rows[3], data.rows[6]);
  const auto result = only(data);
  CHECK(result.paired);
  CHECK(result.n == 5);
  CHECK(result.dropped_pairs == 0);
  CHECK(result.test->ratio == Approx(0.98863498).epsilon(1e-7));
  CHECK(result.verdict == Verdict::equivalent);
  CHECK(result.flags.empty());
  CHECK_THAT(verdict_sentence(result), Contains("equivalent to bare_metal within 2 %") &&
                                           Contains("1.14 % below") &&
                                           Contains("90 % interval 0.9865 … 0.9908") && Contains("5 pairs"));
}

TEST_CASE("the JSON of a case has the names of the contract, and null where nothing applies") {
  const auto paired = to_json(only(k2(true)));
  const std::set<std::string> contract = {
      "case",          "baseline",     "candidate", "paired",         "n",
      "dropped_pairs", "ratio",        "ci_low",    "ci_high",        "ci_tost_low",
      "ci_tost_high",  "p_lower",      "p_upper",   "tost_p",         "p_diff",
      "verdict",       "reason",       "flags",     "further_pairs",  "log_df",
      "welch_t",       "welch_df",     "welch_p",   "ratio_of_means", "fieller_low",
      "fieller_high",  "fieller_kind", "arms",      "throughput"};
  for (const auto& name : contract) {
    CAPTURE(name);
    CHECK(paired.contains(name));
  }
  CHECK(paired.at("ci_low").get<double>() == Approx(0.98586121).epsilon(1e-7));
  CHECK(paired.at("verdict") == "equivalent");
  CHECK(paired.at("further_pairs") == 0);
  CHECK(paired.at("throughput").at("vm").at("runs") == 5);
  CHECK(paired.at("throughput").at("bare_metal").at("images_per_second").get<double>() > 0);
  for (const char* name :
       {"reason", "log_df", "welch_t", "welch_p", "ratio_of_means", "fieller_low", "fieller_kind", "arms"}) {
    CAPTURE(name);
    CHECK(paired.at(name).is_null());
  }
  const auto unpaired = to_json(only(k2(false)));
  CHECK(unpaired.at("paired") == false);
  CHECK(unpaired.at("log_df").get<double>() == Approx(6.6331542).epsilon(1e-7));
  CHECK(unpaired.at("welch_t").get<double>() == Approx(-3.8964398).epsilon(1e-7));
  CHECK(unpaired.at("ratio_of_means").get<double>() == Approx(0.98862729).epsilon(1e-7));
  CHECK(unpaired.at("fieller_low").get<double>() == Approx(0.98174080).epsilon(1e-7));
  CHECK(unpaired.at("fieller_kind") == "bounded");
  for (const char* name : {"n", "dropped_pairs", "further_pairs"}) { CHECK(unpaired.at(name).is_null()); }
}

TEST_CASE("missing, failed and invalid trials drop their pair") {
  auto data = k2(true);
  data.rows[0].throughput.reset();
  data.rows[3].status = Status::failed;
  data.rows[4].valid = false;
  const auto result = only(data);
  CHECK(result.n == 2);
  CHECK(result.dropped_pairs == 3);
  CHECK(result.reason == "too_few_pairs");
  CHECK(result.flags == std::vector<std::string>{"invalid_left_out"});
  CHECK_THAT(verdict_sentence(result), Contains("2 pairs are too few"));
}

TEST_CASE("levels and ratios are said in as few digits as tell them from 100 % and from nothing") {
  CHECK(level_words(0.05) == "90 %");
  CHECK(level_words(0.0005567) == "99.89 %");
  CHECK(level_words(1e-5) == "99.998 %");
  CHECK(level_words(1e-9) == "99.9999998 %");
  CHECK(ratio_words(0.98681) == "0.9868");
  CHECK(ratio_words(3.149e-5) == "3.15e-05");
}

TEST_CASE("unpaired rows are left out and counted where a case has pairs") {
  auto data = k2(true);
  data.rows.push_back(row("c", "vm", std::nullopt, 5000));
  data.rows.push_back(row("c", "vm", std::nullopt, 6000));
  const auto result = only(data);
  CHECK(result.n == 5);
  CHECK(result.unpaired_left_out == 2);
  CHECK(result.flags == std::vector<std::string>{"unpaired_left_out"});
  CHECK(result.arms.at(1).throughput.value() == Approx(99.1));
}

TEST_CASE("a pair belongs to its experiment") {
  auto data = k2(true);
  auto more = k2(true).rows;
  for (auto& one : more) { one.experiment = 1; }
  data.rows.insert(data.rows.end(), more.begin(), more.end());
  CHECK(only(data).n == 10);
}

TEST_CASE("an emulated arm gives a ratio and no verdict") {
  for (const char* kind : {"tcg", "kvm_on_emulated"}) {
    auto data = k2(true);
    for (auto& one : data.rows) {
      if (one.arm == "vm") { one.virtualization = kind; }
    }
    const auto result = only(data);
    CHECK(result.verdict == Verdict::not_comparable);
    CHECK(result.reason == "emulated");
    const auto json = to_json(result);
    CHECK(json.at("ratio").get<double>() == Approx(0.98863498).epsilon(1e-7));
    for (const char* name : {"ci_low", "ci_tost_high", "p_lower", "tost_p", "p_diff", "further_pairs"}) {
      CAPTURE(name);
      CHECK(json.at(name).is_null());
    }
    CHECK_THAT(verdict_sentence(result),
               Contains("not comparable") && Contains("0.9886") && Contains("emulated"));
    auto unpaired = data;
    for (auto& one : unpaired.rows) { one.pair.reset(); }
    CHECK(to_json(only(unpaired)).at("welch_p").is_null());
  }
}

TEST_CASE("nested KVM is a mark, not an obstacle") {
  auto data = k2(true);
  for (auto& one : data.rows) {
    if (one.arm == "vm") { one.virtualization = "kvm_nested"; }
  }
  const auto result = only(data);
  CHECK(result.verdict == Verdict::equivalent);
  CHECK(result.flags == std::vector<std::string>{"nested"});
  CHECK_THAT(virtualization_sentence({result}), Contains("inside another virtual machine"));
}

TEST_CASE("a case with one arm only says what is missing") {
  ComparisonData data;
  data.rows.push_back(row("c", "vm", 1, 100));
  const auto result = only(data);
  CHECK_FALSE(result.test);
  CHECK(result.reason == "no_data");
  CHECK(to_json(result).at("ratio").is_null());
  CHECK(to_json(result).at("verdict") == "inconclusive");
  CHECK_THAT(verdict_sentence(result), Contains("arm bare_metal"));

  data.rows.push_back(row("c", "bare_metal", 2, 100));
  CHECK(only(data).reason == "too_few_pairs");
  CHECK(only(data).dropped_pairs == 2);
}

TEST_CASE("cases come in plan order") {
  ComparisonData data;
  const std::pair<const char*, std::int64_t> trials[] = {
      {"weak-scaling/4", 9}, {"b", 1}, {"a", 5}, {"b", 10}};
  for (const auto& [name, order] : trials) {
    data.rows.push_back(row(name, "vm", std::nullopt, 10));
    data.rows.back().order = order;
  }
  std::vector<std::string> names;
  for (const auto& one : compare(data, {})) { names.push_back(one.case_name); }
  CHECK(names == std::vector<std::string>{"b", "a", "weak-scaling/4"});
}

TEST_CASE("weak scaling speedups stand under each arm") {
  ComparisonData data;
  const auto add = [&](const char* arm, std::int64_t nodes, const std::vector<double>& values) {
    const CaseKey key{"weak-scaling", nodes, {}};
    for (const double value : values) {
      data.rows.push_back(row(printed(key), arm, std::nullopt, value, nodes));
      data.rows.back().case_key = key;
    }
  };
  add("vm", 1, {1000, 1004, 996});
  add("vm", 2, {1960, 1975, 1950});
  add("bare_metal", 2, {2000, 2000, 2000});
  const auto list = compare(data, {});
  const auto one = to_json(list.at(0)).at("arms").at("vm");
  CHECK(one.at("speedup") == 1);
  CHECK(one.at("speedup_ci_low") == 1);
  CHECK(one.at("efficiency_ci_high") == 1);
  const auto arms = to_json(list.at(1)).at("arms");
  CHECK_FALSE(arms.contains("bare_metal"));
  CHECK(arms.at("vm").at("speedup").get<double>() == Approx(1.9616667).epsilon(1e-7));
  CHECK(arms.at("vm").at("speedup_ci_low").get<double>() == Approx(1.9361335).epsilon(1e-7));
  CHECK(arms.at("vm").at("efficiency_ci_high").get<double>() == Approx(0.99376829).epsilon(1e-7));
  // A host twice as fast, whose single nodes all failed, says nothing about scaling.
  for (const double value : {3900, 3920, 3940}) {
    add("vm", 2, {value});
    data.rows.back().experiment = 1;
  }
  data.experiments.resize(2);
  CHECK(to_json(compare(data, {}).at(1)).at("arms").at("vm").at("speedup").get<double>() ==
        Approx(1.9616667).epsilon(1e-7));
}

TEST_CASE("whatever the arms are called, what VMs cost is a family of its own") {
  std::vector<CaseComparison> list(3);
  for (std::size_t i = 0; i < 2; ++i) {
    list[i].case_name = i == 0 ? "a" : "b";
    list[i].baseline = "bare_metal", list[i].candidate = "vm";
    list[i].p_worse_holm = 1;
  }
  list[2] = list[1];
  list[2].baseline = "vm", list[2].candidate = "vm-unpinned";
  list[2].verdict = Verdict::worse;
  list[2].p_worse_holm = 1e-8;
  const auto words = [](const std::string& arm) { return "<" + arm + ">"; };
  CHECK(family_sentence(list, words) ==
        "No case is worse after Holm's correction for 2 cases (smallest adjusted p = 1)");
  list[0] = list[1] = list[2];
  CHECK_THAT(family_sentence(list, words), StartsWith("b in <vm-unpinned>"));
}

TEST_CASE("other arms can be compared, one case alone, with another margin") {
  auto data = k2(true);
  for (auto& one : data.rows) { one.arm = one.arm == "vm" ? "vm-unpinned" : "bare_metal_shared"; }
  data.rows.push_back(row("other", "vm", 1, 1));
  CompareRequest request{.case_name = "c", .baseline = "bare_metal_shared", .candidate = "vm-unpinned"};
  CHECK(only(data, request).verdict == Verdict::equivalent);
  request.settings.margin = 0.005;
  CHECK(only(data, request).verdict == Verdict::worse);
  request.settings.margin = 1.5;
  CHECK_THROWS_WITH(compare(data, request), Contains("margin"));
}

// One test a row of the guard's table: the section names the field.
TEST_CASE("the comparability guard holds for every field of its table") {
  std::set<std::string> seen;
  for (const auto& [field, rule, why, of_work] : field_rules()) {
    DYNAMIC_SECTION(field << " " << to_string(rule)) {
      CHECK(seen.insert(std::string(field)).second);
      CHECK_FALSE(why.empty());
      auto data = k2(true);
      data.facts = {{"c", "bare_metal", std::string(field), "7"}, {"c", "vm", std::string(field), "8"}};
      const auto result = only(data);
      const bool allowed = rule != FactRule::must_be_equal;
      CHECK(result.verdict == (allowed ? Verdict::equivalent : Verdict::not_comparable));
      CHECK(result.reason == (allowed ? "" : "differs"));
      const auto listed = to_json(result).at("differences");
      REQUIRE(listed.size() == 1);
      CHECK(listed[0].at("field") == field);
      CHECK(listed[0].at("rule") == to_string(rule));
      CHECK(listed[0].at("why") == why);
      CHECK_THAT(result.notes.back(), Contains(std::string(field) + " differs: ") &&
                                          Contains("7 in bare_metal") && Contains("8 in vm"));
      if (!allowed) {
        CHECK_THAT(verdict_sentence(result), Contains(std::string(field) + " differs"));
        CHECK(result.flags == std::vector<std::string>{"differs:" + std::string(field)});
      }
      data.facts = {{"c", "bare_metal", "host." + std::string(field), "7"},
                    {"c", "vm", "host." + std::string(field), "8"}};
      CHECK((only(data).verdict == Verdict::equivalent) == (rule == FactRule::informative));
      data.facts = {{"c", "bare_metal", std::string(field), "7"}};
      CHECK((only(data).verdict == Verdict::equivalent || data.rows[0].nodes == 1));
      // Between two labels a fact of the system is part of what changed; another work stays another work.
      for (const auto* prefix : {"", "host."}) {
        std::vector<FactDifference> change{
            {prefix + std::string(field), FactRule::must_be_equal, {"7"}, {"8"}}};
        read_as_change(change, {});
        CHECK(change[0].rule == (of_work ? FactRule::must_be_equal : FactRule::part_of_the_change));
        change[0].rule = FactRule::must_be_equal;
        read_as_change(change, {std::string(field)});
        CHECK(change[0].rule == (of_work ? FactRule::must_be_equal : FactRule::explained_by_the_arm));
      }
    }
  }
}

TEST_CASE("another image size, model, accumulation or environment is another workload, more steps are none") {
  const auto verdict_of = [](const char* baseline, const char* candidate) {
    auto data = k2(true);
    for (const auto& [arm, workload] : {std::pair("bare_metal", baseline), std::pair("vm", candidate)}) {
      data.tenants.push_back({.case_name = "c", .arm = arm, .throughput = 1, .workload = workload});
    }
    const auto result = only(data);
    return result.flags.empty() ? std::string(to_string(result.verdict)) : join(result.flags, " ");
  };
  const char* ours =
      R"({"model":"resnet50","image_size":224,"accumulate_steps":1,"steps":9,"environment":{}})";
  CHECK(verdict_of(ours, ours) == "equivalent");
  CHECK(verdict_of(ours, R"({"model":"resnet50","image_size":64,"steps":9})") == "differs:image_size");
  CHECK(verdict_of(ours, R"({"model":"resnet101","accumulate_steps":2})") ==
        "differs:model differs:accumulate_steps");
  CHECK(verdict_of(ours, R"({"environment":{"NCCL_P2P_DISABLE":"1"}})") == "differs:environment");
  CHECK(verdict_of(ours, R"({"steps":100,"warmup_steps":7})") == "equivalent");
  CHECK(verdict_of(ours, "") == "equivalent");  // imported: nothing is known of it

  auto pooled = k2(true);  // of several experiments: each counts, not only the first
  for (const auto& [arm, size] :
       {std::pair("bare_metal", 224), std::pair("bare_metal", 64), std::pair("vm", 224)}) {
    pooled.tenants.push_back({.case_name = "c",
                              .arm = arm,
                              .throughput = 1,
                              .workload = nlohmann::json{{"image_size", size}}.dump()});
  }
  CHECK(only(pooled).flags == std::vector<std::string>{"differs:image_size"});
}

TEST_CASE("facts of nodes, ranks, hosts and imported records reach the guard") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  Experiment experiment = an_experiment("e1");
  experiment.fingerprint = {{"kernel", "6.1"}};
  store.add_experiment(experiment);
  for (const std::string arm : {"bare_metal", "vm"}) {
    for (int pair = 1; pair <= 3; ++pair) {
      const auto trial = add_finished(store, "e1", "c", arm, pair, 100 + pair);
      Tenant tenant;
      tenant.transport = arm == "vm" ? "tcp" : "shm";
      tenant.throughput = of_images(100 + pair);
      Node node;
      node.name = "n";
      node.kind = arm == "vm" ? "vm" : "slice";
      node.fingerprint = {{"kernel", "6.1"}};
      const auto row = store.save_tenant(trial, tenant);
      store.save_node(row, node);
      store.save_rank(row, {.rank = 0, .size = 1, .threads = arm == "vm" ? 2 : 4});
    }
  }
  // What a trial that does not count has seen forbids nothing.
  Trial invalid = a_trial("e1", "c", "vm", 4);
  invalid.status = Status::finished;
  invalid.throughput = of_images(50);
  invalid.valid = false;
  invalid.virtualization = "kvm";
  invalid.environment = {{"driver", "470"}};
  Node other_kernel;
  other_kernel.name = "n";
  other_kernel.kind = "vm";
  other_kernel.fingerprint = {{"kernel", "5.10"}};
  const auto left_out = store.save_tenant(store.import_trial(invalid), {.transport = "rdma"});
  store.save_node(left_out, other_kernel);
  store.save_rank(left_out, {.rank = 0, .size = 1, .isa = "avx2", .threads = 1});
  const auto list = compare(store, {});
  REQUIRE(list.size() == 1);
  CHECK(list[0].flags == std::vector<std::string>{"zero_variance", "invalid_left_out", "differs:transport",
                                                  "differs:threads_per_rank"});
  CHECK(list[0].unit == Unit::pair);
  CHECK(list[0].arms.at(0).tenants.at(0).throughput.value() == Approx(102));
  CHECK_THROWS_WITH(compare(store, {.case_name = "nope"}), Contains("nope"));
}

TEST_CASE("facts of imported records may be switches and lists, and each is its own trial's") {
  const auto reason_with = [](const nlohmann::json& on_metal, const nlohmann::json& in_vms) {
    const TemporaryFolder folder;
    Store store(folder.path / "results.db");
    store.add_experiment(an_experiment("e"));
    for (int pair = 1; pair <= 4; ++pair) {
      for (const std::string arm : {"bare_metal", "vm"}) {
        auto trial = a_trial("e", "c", arm, pair);
        // The last pair failed in a VM, with another driver.
        trial.status = pair == 4 && arm == "vm" ? Status::failed : Status::finished;
        if (trial.status == Status::finished) { trial.throughput = of_images(100 + pair); }
        trial.environment = arm == "vm" ? in_vms : on_metal;
        trial.environment["driver"] = trial.status == Status::failed ? "470" : pair == 1 ? "570" : "580";
        store.import_trial(trial);
      }
    }
    const auto one = compare(store, {}).at(0);
    return one.reason.empty() ? std::string(to_string(one.verdict)) : join(one.flags, " ");
  };
  CHECK(reason_with({}, {}) == "equivalent");
  CHECK(reason_with({{"ecc", true}}, {{"ecc", "on"}}) == "equivalent");
  CHECK(reason_with({{"ecc", true}}, {{"ecc", false}}) == "zero_variance differs:ecc");
  CHECK(reason_with({{"gpu_uuid", {"A", "B"}}}, {{"gpu_uuid", "B, A"}}) == "equivalent");
  const auto no_flags = nlohmann::json::array();
  CHECK(reason_with({{"workload_flags", no_flags}}, {{"workload_flags", no_flags}}) == "equivalent");
  CHECK(reason_with({{"workload_flags", no_flags}}, {{"workload_flags", {"--xla"}}}) ==
        "zero_variance differs:workload_flags");
}

TEST_CASE("the cards of an arm are the same whether its nodes hold one of them each or all") {
  const auto verdict_with = [](const std::string& field, const std::vector<std::string>& shared,
                               const std::vector<std::string>& vms) {
    auto data = k2(true);
    for (const auto& value : shared) { data.facts.push_back({"c", "bare_metal", field, value}); }
    for (const auto& value : vms) { data.facts.push_back({"c", "vm", field, value}); }
    return only(data).verdict;
  };
  CHECK(verdict_with("gpu_uuid", {"GPU-1, GPU-2"}, {"GPU-1", "GPU-2"}) == Verdict::equivalent);
  CHECK(verdict_with("gpu_uuid", {"GPU-1", "GPU-2"}, {"GPU-2", "GPU-1"}) == Verdict::equivalent);
  CHECK(verdict_with("gpu_uuid", {"GPU-1, GPU-2"}, {"GPU-1"}) == Verdict::not_comparable);
  CHECK(verdict_with("gpu_uuid", {"GPU-1, GPU-2"}, {"GPU-1", "GPU-3"}) == Verdict::not_comparable);
  CHECK(verdict_with("ecc", {"off, on"}, {"on"}) == Verdict::not_comparable);
  // Lists of other facts are one value each: what two transports carry together is no other's.
  CHECK(verdict_with("transport", {"shm, tcp"}, {"shm", "tcp"}) == Verdict::not_comparable);
}

// As a passed-through card and bare metal differ where all is well: only in what the arm explains.
TEST_CASE("one card on bare metal and in a VM is comparable") {
  auto data = k2(true);
  for (const std::string arm : {"bare_metal", "vm"}) {
    const bool is_vm = arm == "vm";
    for (const auto& [field, value] :
         std::map<std::string, std::string>{{"gpu_uuid", "GPU-1"},
                                            {"gpu_name", "NVIDIA A100-PCIE-40GB"},
                                            {"fusion", "full"},
                                            {"gpu_virtualization", is_vm ? "passthrough" : "none"},
                                            {"gpu_pcie_generation", is_vm ? "3" : "4"},
                                            {"gpu_pcie_width", is_vm ? "x8" : "x16"},
                                            {"repeatable", is_vm ? "no" : "yes"}}) {
      data.facts.push_back({"c", arm, field, value});
    }
  }
  data.facts.push_back({"c", "bare_metal", "power_limit", "250 W"});  // a vGPU does not tell it
  CHECK(only(data).verdict == Verdict::equivalent);
  data.facts.push_back({"c", "vm", "fusion", "none"});
  CHECK(only(data).verdict == Verdict::not_comparable);
}

TEST_CASE("the published study compares as published") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  std::ifstream file(VIRTRAIN_SOURCE_DIR "/scenarios/published/dell-r750xa.jsonl");
  REQUIRE(import_jsonl(store, file, "dell-r750xa.jsonl").trials == 7);
  const auto list = compare(store, {});
  REQUIRE(list.size() == 6);
  const auto& two = list.at(4);
  const auto& four = list.at(5);
  CHECK(two.arms.at(0).scaling->speedup == Approx(1.9555).margin(5e-5));
  CHECK(two.arms.at(0).scaling->efficiency == Approx(0.9778).margin(5e-5));
  CHECK(four.arms.at(0).scaling->speedup == Approx(3.8717).margin(5e-5));
  CHECK(four.arms.at(0).scaling->efficiency == Approx(0.9679).margin(5e-5));
  CHECK(four.test->ratio == Approx(0.98679).margin(5e-6));
  CHECK(verdict_sentence(four) == "vm is 1.32 % below bare_metal; no interval: single published values");
  CHECK(list.at(1).arms.at(0).tenants.size() == 2);
  CHECK_THAT(four.notes.at(0), Contains("published data"));
}
