// Sides beyond arms: labels, experiments, hosts, dates; boot sessions; the family's answer.

#include <cmath>
#include <random>

#include "results/comparison/compare_json.h"
#include "results/comparison/verdict.h"
#include "results/reading/reading.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

/// An experiment whose trials all have one label, host, boot and day.
struct Series {
  std::string id;
  std::string label = {};
  std::string host = {};
  std::string boot = {};
  std::string day = "2026-11-01";
};

void add(Store& store, const Series& series) {
  auto experiment = an_experiment(series.id);
  experiment.label = series.label;
  experiment.host_name = series.host;
  experiment.boot_id = series.boot;
  experiment.started_at = series.day + "T08:00:00.000Z";
  store.add_experiment(experiment);
}

const CaseComparison& of(const std::vector<CaseComparison>& list, const std::string& name,
                         const std::string& arm) {
  for (const auto& one : list) {
    if (one.case_name == name && one.arm == arm) { return one; }
  }
  FAIL("there is no case " << name << " in arm " << arm);
  return list.front();
}

CompareRequest between(const std::string& baseline, const std::string& candidate) {
  CompareRequest request;
  request.baseline = baseline;
  request.candidate = candidate;
  return request;
}

}  // namespace

TEST_CASE("sides are read as they are written") {
  CHECK(parse_selector("vm").arm == "vm");
  CHECK_FALSE(parse_selector("arm:vm").beyond_arms());
  const auto both = parse_selector("label:before, arm:vm,host:a,host:b");
  CHECK(both.arm == "vm");
  CHECK(both.labels == std::vector<std::string>{"before"});
  CHECK(both.hosts == std::vector<std::string>{"a", "b"});
  CHECK(both.beyond_arms());
  CHECK(parse_selector("label:driver:580").labels == std::vector<std::string>{"driver:580"});
  for (const char* bad : {"", "label:", "colour:red", "vm,bare_metal", "date:yesterday", "date:..",
                          "date:2026-11-10..2026-11-01", "vm,"}) {
    CAPTURE(bad);
    const auto error = error_of([&] { parse_selector(bad); });
    CHECK(error.code() == ErrorCode::usage);
    CHECK_THAT(error.message(), Contains("allowed: an arm such as vm"));
  }
}

TEST_CASE("dates include both ends, and an end may be open") {
  ComparisonExperiment experiment;
  const auto meant = [&](const char* selector, const char* time) {
    ComparisonRow row;
    row.started_at = time;
    return selects(parse_selector(selector), experiment, row);
  };
  CHECK(meant("date:2026-11-01..2026-11-10", "2026-11-01T00:00:00.000Z"));
  CHECK(meant("date:2026-11-01..2026-11-10", "2026-11-10T23:59:59.999Z"));
  CHECK_FALSE(meant("date:2026-11-01..2026-11-10", "2026-11-11T00:00:00.000Z"));
  CHECK_FALSE(meant("date:2026-11-01..2026-11-10", "2026-10-31T23:59:59.999Z"));
  CHECK(meant("date:2026-11-05", "2026-11-05T12:00:00.000Z"));
  CHECK(meant("date:2026-11..", "2027-01-01T00:00:00.000Z"));
  CHECK(meant("date:..2026-11", "2026-11-30T00:00:00.000Z"));
  CHECK(meant("date:2026-11-05T12..2026-11-05T13", "2026-11-05T13:30:00.000Z"));
  CHECK_FALSE(meant("date:2026-11-05", ""));
  experiment.started_at = "2026-11-05T08:00:00.000Z";
  CHECK(meant("date:2026-11-05", ""));
}

TEST_CASE("two labels are compared arm by arm over the whole database") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  add(store, {.id = "old", .label = "before"});
  add(store, {.id = "new", .label = "after"});
  add(store, {.id = "latest"});
  for (int run = 1; run <= 4; ++run) {
    add_finished(store, "old", "c", "bare_metal", run, 100 + run * 0.1);
    add_finished(store, "old", "c", "vm", run, 98 + run * 0.1);
    add_finished(store, "new", "c", "bare_metal", run, 100 - run * 0.1);
    add_finished(store, "new", "c", "vm", run, 90 + run * 0.1);
    add_finished(store, "latest", "c", "vm", run, 1);
  }
  const auto list = compare(store, between("label:before", "label:after"));
  REQUIRE(list.size() == 2);
  const auto& vm = of(list, "c", "vm");
  CHECK_FALSE(vm.paired);  // pair 1 of another experiment is another pair
  CHECK(vm.unit == Unit::trial);
  CHECK(vm.n_baseline == 4);
  CHECK(vm.test->ratio == Approx(90.25 / 98.25).epsilon(1e-5));
  CHECK(vm.verdict == Verdict::worse);
  CHECK(of(list, "c", "bare_metal").verdict == Verdict::equivalent);
  const auto json = to_json(vm);
  CHECK(json.at("case") == "c");
  CHECK(json.at("arm") == "vm");
  CHECK(json.at("baseline") == "label:before");
  CHECK(json.at("candidate") == "label:after");
  CHECK_THAT(verdict_sentence(vm), Contains("label:after is worse than label:before"));

  const auto narrowed = compare(store, between("label:before,arm:bare_metal", "label:after,arm:vm"));
  REQUIRE(narrowed.size() == 1);
  CHECK(narrowed[0].test->ratio == Approx(90.25 / 100.25).epsilon(1e-5));
  // One side's arm holds for the other.
  CHECK(compare(store, between("label:before,arm:vm", "label:after")).size() == 1);
}

TEST_CASE("inside one experiment the pairs of two arms stay pairs, however it is named") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  add(store, {.id = "e", .label = "night"});
  for (int pair = 1; pair <= 4; ++pair) {
    add_finished(store, "e", "c", "bare_metal", pair, 100.0 * pair);
    add_finished(store, "e", "c", "vm", pair, (99 + 0.1 * pair) * pair);
  }
  const auto list = compare(store, between("label:night,arm:bare_metal", "experiment:e,arm:vm"));
  REQUIRE(list.size() == 1);
  CHECK(list[0].paired);
  CHECK(list[0].n == 4);
  CHECK(list[0].verdict == Verdict::equivalent);
}

TEST_CASE("hosts and dates are sides too") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  add(store, {.id = "e1", .host = "a", .day = "2026-11-01"});
  add(store, {.id = "e2", .host = "b", .day = "2026-11-12"});
  for (int run = 0; run < 3; ++run) {
    add_finished(store, "e1", "c", "vm", std::nullopt, 100 + run);
    add_finished(store, "e2", "c", "vm", std::nullopt, 50 + run);
  }
  CHECK(compare(store, between("host:a", "host:b")).at(0).test->ratio == Approx(0.505).epsilon(1e-3));
  CHECK(compare(store, between("date:2026-11-01..2026-11-10", "date:2026-11-11..")).at(0).test->ratio ==
        Approx(0.505).epsilon(1e-3));
}

TEST_CASE("a date means the facts, tenants and probes of its experiments, and of no others") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  for (const bool is_new : {false, true}) {
    auto experiment = an_experiment(is_new ? "new" : "old");
    experiment.started_at = is_new ? "2026-11-12T08:00:00.000Z" : "2026-11-01T08:00:00.000Z";
    experiment.fingerprint = {{"driver", is_new ? "580" : "470"}};
    store.add_experiment(experiment);
    for (int run = 0; run < 3; ++run) {
      const auto trial = add_finished(store, experiment.id, "c", "vm", std::nullopt, is_new ? 80 : 100);
      store.save_tenant(trial, {.throughput = of_images(is_new ? 80 : 100)});
    }
    store.add_probes(
        experiment.id,
        std::vector<Probe>{{.name = "triad", .arm = "vm", .value = is_new ? 8e9 : 10e9, .unit = "B/s"}});
  }
  auto request = between("date:..2026-11-10,arm:vm", "date:2026-11-11..,arm:vm");
  request.explain = true;
  const auto one = compare(store, request).at(0);
  // The driver that the dates differ in is part of what changed.
  CHECK(one.reason != "differs");
  CHECK(std::count(one.flags.begin(), one.flags.end(), "changed:host.driver") == 1);
  CHECK(one.arms.at(0).tenants.at(0).throughput == 100);
  CHECK(one.arms.at(1).tenants.at(0).throughput == 80);
  CHECK(one.explanation->findings.at(0).cause == "memory_bandwidth");
  CHECK(experiments_of(store, between("date:2026-11-12", "date:2026-11-12")) ==
        std::vector<std::string>{"new"});
  CHECK_THROWS_WITH(compare(store, between("date:2020", "date:2026")),
                    Contains("no experiment with trials is date:2020"));
}

TEST_CASE("sides that hold the same trials, or none, are refused") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  add(store, {.id = "e1", .label = "x", .host = "a"});
  add_finished(store, "e1", "c", "vm", 1, 100);
  CHECK_THROWS_WITH(compare(store, between("label:x", "host:a")), Contains("belong to both sides"));
  CHECK_THROWS_WITH(compare(store, between("vm", "vm")), Contains("belong to both sides"));
  const auto missing = error_of([&] { compare(store, between("label:x", "label:y")); });
  CHECK(missing.code() == ErrorCode::not_found);
  CHECK_THAT(missing.message(), Contains("label:y"));
}

TEST_CASE("across boots the unit is the boot session, and three a side are needed") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const auto boots = [&](const std::string& label, int count, double level) {
    for (int boot = 0; boot < count; ++boot) {
      const auto id = label + std::to_string(boot);
      add(store, {.id = id, .label = label, .boot = "boot-" + id});
      // Two trials of one boot agree; boots do not. Their geometric mean is level + boot.
      add_finished(store, id, "c", "vm", std::nullopt, (level + boot) * 1.001);
      add_finished(store, id, "c", "vm", std::nullopt, (level + boot) / 1.001);
    }
  };
  boots("before", 3, 100);
  boots("after", 4, 90);
  boots("few", 2, 90);
  const auto one = compare(store, between("label:before", "label:after")).at(0);
  CHECK(one.unit == Unit::boot_session);
  CHECK(one.n_baseline == 6);
  CHECK(one.n_candidate == 8);
  CHECK(one.sessions_baseline == 3);
  CHECK(one.sessions_candidate == 4);
  const std::vector<double> before = {100, 101, 102};
  const std::vector<double> after = {90, 91, 92, 93};
  const auto expected = compare_unpaired(before, after, {});
  CHECK(one.test->ratio == Approx(expected.test.ratio).epsilon(1e-12));
  CHECK(one.test->df.value() == Approx(expected.test.df.value()).epsilon(1e-9));
  CHECK(one.welch->p == Approx(expected.welch->p).epsilon(1e-9));
  CHECK_THAT(verdict_sentence(one), Contains("3 and 4 boot sessions"));
  CHECK(to_json(one).at("unit") == "boot_session");

  const auto few = compare(store, between("label:before", "label:few")).at(0);
  CHECK(few.reason == "too_few_sessions");
  CHECK(few.verdict == Verdict::inconclusive);
  CHECK(few.test->ratio < 1);
  CHECK_FALSE(few.test->ci);
  CHECK_THAT(verdict_sentence(few), Contains("boot sessions are too few") && Contains("correlated"));
}

TEST_CASE("within one boot, and without boot ids, the trial is the unit") {
  ComparisonData data;
  data.experiments = {{.id = "e", .boot_id = "one"}, {.id = "f", .boot_id = ""}};
  for (int run = 0; run < 4; ++run) {
    for (const char* arm : {"bare_metal", "vm"}) {
      ComparisonRow row;
      row.case_name = "c";
      row.arm = arm;
      row.throughput = 100 + run;
      row.virtualization = "kvm";
      data.rows.push_back(row);
    }
  }
  CHECK(compare(data, {}).at(0).unit == Unit::trial);
  // A trial without a boot id counts alone; one that says its own is of that boot.
  data.rows.back().experiment = 1;
  auto mixed = compare(data, {}).at(0);
  CHECK(mixed.unit == Unit::boot_session);
  CHECK(mixed.sessions_baseline == 1);
  CHECK(mixed.sessions_candidate == 2);
  data.rows.back().boot_id = "one";
  CHECK(compare(data, {}).at(0).unit == Unit::trial);
  data.experiments[0].boot_id = "";
  data.rows.back().boot_id = "";
  CHECK(compare(data, {}).at(0).unit == Unit::trial);
}

TEST_CASE("trials of one boot do not count as independent: the error rate holds") {
  std::mt19937_64 random(11);
  std::normal_distribution<double> of_boot(0, 0.02);
  std::normal_distribution<double> of_trial(0, 0.004);
  const int rounds = 600;
  int by_session = 0, by_trial = 0;
  for (int round = 0; round < rounds; ++round) {
    ComparisonData data;
    for (int boot = 0; boot < 8; ++boot) {
      data.experiments.push_back({.id = "e" + std::to_string(boot), .boot_id = std::to_string(boot)});
      const double level = std::log(1000) + of_boot(random);
      for (int run = 0; run < 5; ++run) {
        ComparisonRow row;
        row.experiment = boot;
        row.case_name = "c";
        row.arm = boot % 2 == 0 ? "bare_metal" : "vm";
        row.virtualization = "kvm";
        row.throughput = std::exp(level + of_trial(random));
        data.rows.push_back(row);
      }
    }
    by_session += *compare(data, {}).at(0).test->p_diff < 0.05 ? 1 : 0;
    for (auto& experiment : data.experiments) { experiment.boot_id.clear(); }
    by_trial += *compare(data, {}).at(0).test->p_diff < 0.05 ? 1 : 0;
  }
  // Four standard deviations of the binomial; Welch with four a side errs a little less than it says.
  CHECK(by_session <= 0.05 * rounds + 4 * std::sqrt(rounds * 0.05 * 0.95));
  CHECK(by_session >= 5);
  CHECK(by_trial > 0.3 * rounds);
}

TEST_CASE("with many cases, worse means worse after Holm's correction") {
  ComparisonData data;
  const auto add_case = [&](const std::string& name, double loss, double spread) {
    for (int pair = 1; pair <= 5; ++pair) {
      for (const char* arm : {"bare_metal", "vm"}) {
        ComparisonRow row;
        row.case_name = name;
        row.arm = arm;
        row.pair = pair;
        row.virtualization = "kvm";
        const double off = spread * (pair - 3);
        row.throughput = 100.0 * (row.arm == "vm" ? 1 - loss + off : 1);
        data.rows.push_back(row);
      }
    }
  };
  add_case("slightly", 0.04, 0.0105);
  for (int i = 0; i < 6; ++i) { add_case("fine-" + std::to_string(i), 0.0, 0.005); }
  const auto list = compare(data, {});
  const auto& slightly = list.at(0);
  CHECK(slightly.verdict == Verdict::worse);
  CHECK(slightly.test->p_worse.value() < 0.05);
  CHECK(slightly.p_worse_holm.value() == Approx(7 * slightly.test->p_worse.value()));
  CHECK_FALSE(worse_after_holm(slightly));
  CHECK_THAT(family_sentence(list), Contains("No case is worse after Holm's correction for 7 cases"));
  CHECK(to_json(slightly).at("worse_after_holm") == false);

  add_case("badly", 0.2, 0.005);
  const auto more = compare(data, {});
  CHECK(worse_after_holm(more.back()));
  CHECK_THAT(family_sentence(more), Contains("badly is worse after Holm's correction for 8 cases"));
  CHECK(family_sentence({more.back()}).empty());
}

TEST_CASE("force gives the verdict and says so, but never out of emulation") {
  ComparisonData data;
  for (int pair = 1; pair <= 5; ++pair) {
    for (const char* arm : {"bare_metal", "vm"}) {
      ComparisonRow row;
      row.case_name = "c";
      row.arm = arm;
      row.pair = pair;
      row.virtualization = row.arm == "vm" ? "kvm" : "none";
      row.throughput = 100 + 0.1 * pair;
      data.rows.push_back(row);
    }
  }
  data.facts = {{"c", "bare_metal", "driver", "470"}, {"c", "vm", "driver", "580"}};
  CompareRequest request;
  CHECK(compare(data, request).at(0).verdict == Verdict::not_comparable);
  request.force = true;
  const auto forced = compare(data, request).at(0);
  CHECK(forced.verdict == Verdict::equivalent);
  CHECK(forced.forced);
  CHECK(to_json(forced).at("forced") == true);
  CHECK_FALSE(to_json(forced).at("ci_low").is_null());
  CHECK(std::count(forced.flags.begin(), forced.flags.end(), "forced") == 1);
  CHECK(std::count(forced.flags.begin(), forced.flags.end(), "differs:driver") == 1);
  CHECK_THAT(verdict_sentence(forced),
             Contains("forced, although driver differs") && Contains("is equivalent"));
  const auto differences = to_json(forced).at("differences");
  REQUIRE(differences.size() == 1);
  CHECK(differences.at(0).at("field") == "driver");
  CHECK(differences.at(0).at("rule") == "must_be_equal");
  CHECK(differences.at(0).at("baseline") == nlohmann::json({"470"}));
  CHECK(differences.at(0).at("candidate") == nlohmann::json({"580"}));

  for (auto& row : data.rows) {
    if (row.arm == "vm") { row.virtualization = "tcg"; }
  }
  const auto emulated = compare(data, request).at(0);
  CHECK(emulated.verdict == Verdict::not_comparable);
  CHECK_FALSE(emulated.forced);
  CHECK(to_json(emulated).at("ci_low").is_null());

  data.facts.clear();
  for (auto& row : data.rows) { row.virtualization = "kvm"; }
  CHECK_FALSE(compare(data, request).at(0).forced);
}

TEST_CASE("a published speedup stands beside the measured one and says where it is from") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  auto published = an_experiment("paper");
  published.label = "published";
  store.add_experiment(published);
  auto other = an_experiment("elsewhere");
  other.scenario = "another";
  other.label = "published";
  store.add_experiment(other);
  store.add_experiment(an_experiment("own"));
  const auto add_scaling = [&](const std::string& id, double one, double two) {
    add_finished(store, id, "weak-scaling/1", "vm", std::nullopt, one, 1);
    add_finished(store, id, "weak-scaling/2", "vm", std::nullopt, two, 2);
  };
  add_scaling("paper", 100, 190);
  add_scaling("elsewhere", 100, 110);
  add_scaling("own", 200, 392);
  const auto list = compare(store, {.selection = {.experiments = {"own"}}});
  const auto arm = to_json(list.at(1)).at("arms").at("vm");
  CHECK(arm.at("speedup").get<double>() == Approx(1.96));
  CHECK(arm.at("ideal") == 2);
  CHECK(arm.at("published_speedup").get<double>() == Approx(1.9));
  CHECK(arm.at("published_efficiency").get<double>() == Approx(0.95));
  CHECK(arm.at("published_by") == "paper");
  // The published experiment itself has no other to stand beside.
  const auto itself = compare(store, {.selection = {.experiments = {"paper"}}});
  CHECK(to_json(itself.at(1)).at("arms").at("vm").at("published_speedup").is_null());
}

namespace {

constexpr const char* variants = R"([{"name":"bare_metal","base":"bare_metal","like":null,"changes":{}},
  {"name":"vm","base":"vm","like":null,"changes":{}},
  {"name":"vm-tuned","base":"vm","like":"vm","changes":{"workload.env.A":"1","devices.settings.power_limit":"200W"}},
  {"name":"vm-huge","base":"vm","like":"vm-tuned","changes":{"workload.env.A":"1","guest.hugepages":"true"},
   "price":{"amount":2.5,"currency":"EUR"}}])";

using Pairs = std::vector<ArmPair>;

ComparisonData three_arms() {
  ComparisonData data;
  data.experiments = {{.id = "e", .arms = variants}};
  for (int pair = 1; pair <= 5; ++pair) {
    for (const char* arm : {"bare_metal", "vm", "vm-tuned"}) {
      data.rows.push_back({.case_name = "c", .arm = arm, .pair = pair, .throughput = 100 + pair});
    }
  }
  return data;
}

}  // namespace

TEST_CASE("without a word on sides, VMs are compared with bare metal and variants with what they are like") {
  const auto records = arm_records(three_arms());
  CHECK(default_pairs({"vm", "bare_metal"}, records) == Pairs{{"bare_metal", "vm"}});
  CHECK(default_pairs({"bare_metal", "vm", "vm-tuned", "vm-huge"}, records) ==
        Pairs{{"bare_metal", "vm"}, {"vm", "vm-tuned"}, {"vm-tuned", "vm-huge"}});
  CHECK(default_pairs({"vm", "vm-huge"}, records) == Pairs{{"vm", "vm-huge"}});
  CHECK(default_pairs({"bare_metal", "vm-tuned"}, records) == Pairs{{"bare_metal", "vm-tuned"}});
  // Two variants that ran alone, in whichever order the first pair was: as the plan lists them.
  CHECK(default_pairs({"a", "b"}, {{"a", {"a", "vm", "vm", {}, {}, 2}},
                                   {"b", {"b", "vm", "vm", {}, {}, 1}}}) == Pairs{{"b", "a"}});
  CHECK(default_pairs({"a", "b"}, {{"a", {"a", "vm", "vm", {}, {}, 1}},
                                   {"b", {"b", "bare_metal", "bare_metal", {}, {}, 2}}}) ==
        Pairs{{"bare_metal", "vm"}});
  CHECK(default_pairs({"bare_metal_shared", "vm"}, {}) == Pairs{{"bare_metal_shared", "vm"}});
  CHECK(default_pairs({"vm"}, {}) == Pairs{{"bare_metal", "vm"}});
  CHECK(records.at("vm-huge").price->amount == 2.5);

  const auto list = compare(three_arms(), {});
  REQUIRE(list.size() == 2);
  CHECK(list[0].candidate == "vm");
  CHECK(list[1].baseline == "vm");
  CHECK(list[1].candidate == "vm-tuned");
  CHECK(list[0].first_of_case);
  CHECK_FALSE(list[1].first_of_case);
  CHECK(compare(three_arms(), {.candidate = "vm-tuned"}).at(0).baseline == "bare_metal");
}

TEST_CASE("an arm that nobody ran is refused with the nearest that was") {
  const auto error = error_of([] { compare(three_arms(), {.candidate = "vm-tund"}); });
  CHECK(exit_status(error.code()) == 3);
  CHECK_THAT(error.what(),
             Contains("candidate: no trial ran in an arm vm-tund") && Contains("did you mean vm-tuned?"));
  CHECK_THROWS_WITH(compare(three_arms(), {.baseline = "bare_metal", .candidate = "vmm"}),
                    Contains("allowed: bare_metal, vm, vm-tuned; did you mean vm?"));
  CHECK_NOTHROW(compare(three_arms(), {.candidate = "vm-huge"}));  // planned, but nothing of it ran
}

TEST_CASE("the guard takes what an arm changes on purpose for explained, and nothing else") {
  auto data = three_arms();
  data.facts = {{"c", "vm", "environment", "{}"},        {"c", "vm-tuned", "environment", "{\"A\":\"1\"}"},
                {"c", "vm", "power_limit", "300.00 W"},  {"c", "vm-tuned", "power_limit", "200.00 W"},
                {"c", "vm", "cpu_flags", "sse4 hyper"},  {"c", "vm-tuned", "cpu_flags", "sse4"},
                {"c", "bare_metal", "cpu_flags", "sse4"}};
  const auto list = compare(data, {});
  REQUIRE(list.size() == 2);
  CHECK(list[0].verdict == Verdict::equivalent);
  std::map<std::string, FactRule> rules;
  for (const auto& one : list[1].differences) { rules[one.field] = one.rule; }
  CHECK(rules == std::map<std::string, FactRule>{{"environment", FactRule::explained_by_the_arm},
                                                 {"power_limit", FactRule::explained_by_the_arm},
                                                 {"cpu_flags", FactRule::must_be_equal}});
  CHECK(list[1].verdict == Verdict::not_comparable);
}

TEST_CASE("days that no calendar has are refused") {
  for (const char* side :
       {"date:2026-13-01..", "date:2026-02-30", "date:..2026-01-01T24:00", "date:2025-02-29"}) {
    CHECK_THROWS_WITH(parse_selector(side), Contains("is not a date"));
  }
  for (const char* side : {"date:2024-02-29", "date:2026", "date:2026-12-31T23:59:60Z", "date:..2026-02"}) {
    CHECK_NOTHROW(parse_selector(side));
  }
}
