// Tenants that ran next to others, beside their own runs alone.

#include "results/comparison/compare_json.h"
#include "results/reading/reading.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;

TEST_CASE("tenants stand beside their own runs alone") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  const auto add_trial = [&](const std::string& name,
                             const std::vector<std::pair<std::string, double>>& tenants,
                             const nlohmann::json& workload) {
    double all = 0;
    for (const auto& [tenant, value] : tenants) { all += value; }
    const auto trial =
        add_finished(store, "e", name, "vm", std::nullopt, all, static_cast<std::int64_t>(tenants.size()));
    for (std::size_t i = 0; i < tenants.size(); ++i) {
      store.save_tenant(trial, {.tenant_index = static_cast<std::int64_t>(i),
                                .name = tenants[i].first,
                                .workload = workload,
                                .throughput = of_images(tenants[i].second)});
    }
  };
  const nlohmann::json small = {{"batch_size", 4}};
  const nlohmann::json large = {{"batch_size", 8}};
  for (const double value : {1000.0, 1002.0, 998.0}) { add_trial("alone-a", {{"a", value}}, small); }
  for (const double value : {500.0, 505.0, 495.0}) { add_trial("alone-b", {{"b", value}}, small); }
  add_trial("alone-large", {{"a", 77}}, large);
  for (const double a : {900.0, 904.0, 896.0}) { add_trial("both", {{"a", a}, {"b", a - 420}}, small); }
  add_trial("with-stranger", {{"a", 800}, {"c", 100}, {"b", 250}}, small);

  const auto list = compare(store, {});
  const auto find = [&](const std::string& name) {
    for (const auto& one : list) {
      if (one.case_name == name) { return one; }
    }
    return list.front();
  };
  CHECK_FALSE(find("alone-a").arms.at(0).alone);
  const auto both = find("both").arms.at(0).alone.value();
  REQUIRE(both.tenants.size() == 2);
  CHECK(both.tenants[0].alone_case == "alone-a");
  CHECK(both.tenants[1].alone_case == "alone-b");
  CHECK(both.tenants[0].slowdown == Approx(1000.0 / 900));
  CHECK(both.tenants[1].slowdown == Approx(500.0 / 480));
  CHECK(both.isolation->system_throughput == Approx(0.9 + 0.96));
  CHECK(both.isolation->worst_slowdown == Approx(1000.0 / 900));
  const auto json = to_json(find("both")).at("tenants_vs_alone").at("vm");
  CHECK(json.at("tenants").at(1).at("np").get<double>() == Approx(0.96));
  CHECK(json.at("jain").get<double>() == Approx(both.isolation->jain_index));
  // A tenant without a run alone of its name stands against another one of its shape.
  const auto stranger = find("with-stranger").arms.at(0).alone.value();
  CHECK(stranger.tenants.at(1).alone_case == "alone-a");
  CHECK(to_json(find("alone-a")).at("tenants_vs_alone").is_null());
}

TEST_CASE("the slow end of a tenant's steps stands beside that of its run alone") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  // Known answer E12, over two experiments, two ranks and windows of two steps.
  const auto add_tenant = [&](std::int64_t trial, std::int64_t index, auto&& step_seconds) {
    const auto tenant = store.save_tenant(
        trial, {.tenant_index = index, .workload = {{"batch_size", 4}}, .throughput = of_images(100)});
    for (const int rank : {0, 1}) {
      const auto id = store.save_rank(tenant, {.rank = rank, .size = 2});
      std::vector<Sample> samples;
      for (int k = rank; k < 100; k += 2) {
        samples.push_back({.t_ns = k, .step = k, .images = 8, .seconds = 2 * step_seconds(k)});
      }
      store.add_samples(id, samples);
    }
  };
  const auto alone = [](int k) { return 10 + k / 100.0; };
  const auto shared = [](int k) { return 10 + k * k / 2000.0; };
  for (const std::string id : {"first", "second"}) { store.add_experiment(an_experiment(id)); }
  add_tenant(add_finished(store, "first", "one", "vm", std::nullopt, 100), 0, alone);
  const auto both = add_finished(store, "second", "both", "vm", std::nullopt, 200, 2);
  add_tenant(both, 0, shared);
  add_tenant(both, 1, alone);
  for (const auto& comparison : compare(store, {.selection = {.experiments = {"first", "second"}}})) {
    if (comparison.case_name != "both") { continue; }
    const auto json = to_json(comparison).at("tenants_vs_alone").at("vm").at("tenants");
    CHECK(json.at(0).at("alone_step_p99_seconds").get<double>() == Approx(10.980100));
    CHECK(json.at(0).at("shared_step_p99_seconds").get<double>() == Approx(14.802985));
    CHECK(json.at(0).at("p99_inflation").get<double>() == Approx(1.3481649));
    CHECK(json.at(0).at("few_samples") == false);
    CHECK(json.at(1).at("p99_inflation").get<double>() == Approx(1));
    return;
  }
  FAIL("there is no case both");
}

TEST_CASE(
    "tenants stand beside their own runs alone, also where an older experiment says less of its workload") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  for (const std::string number : {"old", "new"}) {
    store.add_experiment(an_experiment(number));
    nlohmann::json workload = {{"batch_size", 4}};
    if (number == "new") { workload["environment"] = nlohmann::json::object(); }
    for (const auto& [name, tenants] : {std::pair("alone", 1), std::pair("both", 2)}) {
      const auto trial = add_finished(store, number, name, "vm", std::nullopt, 1000 * tenants, tenants);
      for (int i = 0; i < tenants; ++i) {
        store.save_tenant(
            trial, {.tenant_index = i, .name = "a", .workload = workload, .throughput = of_images(1000)});
      }
    }
  }
  CompareRequest request;
  request.baseline = "experiment:old,arm:vm";
  request.candidate = "experiment:new,arm:vm";
  for (const auto& one : compare(store, request)) {
    if (one.case_name != "both") { continue; }
    REQUIRE(one.arms.size() == 2);
    for (const auto& arm : one.arms) { CHECK(arm.alone.has_value()); }
  }
}

TEST_CASE("where a case has pairs its tenants are those of the pairs") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  const auto add = [&](const char* arm, std::optional<std::int64_t> pair, double value) {
    store.save_tenant(add_finished(store, "e", "c", arm, pair, value), {.throughput = of_images(value)});
  };
  for (int pair = 1; pair <= 3; ++pair) {
    add("bare_metal", pair, 300);
    add("vm", pair, 290);
  }
  add("vm", std::nullopt, 900);
  const auto one = compare(store, {}).at(0);
  REQUIRE(one.unpaired_left_out == 1);
  for (const auto& arm : one.arms) {
    CHECK(arm.throughput == arm.tenants.at(0).throughput);
    CHECK(arm.tenants.at(0).runs == 3);
  }
}
