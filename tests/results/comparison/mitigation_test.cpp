// What helps how much. The answers are computed by hand: the data have no noise but what the cases say.
#include <cmath>
#include <random>

#include "common/text/text.h"
#include "results/reading/reading.h"
#include "results/tables/isolation_table.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

constexpr const char* plan_arms = R"([
  {"name": "vm", "base": "vm", "like": null, "changes": {}},
  {"name": "vm+cpu@100%", "base": "vm", "like": "vm", "changes": {"neighbour": "cpu@100%"}},
  {"name": "capped", "base": "vm", "like": "vm", "changes": {"neighbour.limits.cpu": "25%"}},
  {"name": "capped+cpu@100%", "base": "vm", "like": "capped", "changes":
    {"neighbour.limits.cpu": "25%", "neighbour": "cpu@100%"}},
  {"name": "tight", "base": "vm", "like": "capped", "changes":
    {"neighbour.limits.cpu": "10%", "guest.pinning": "none"}}
])";

const std::map<std::string, ArmKey> arm_keys = {{"vm+cpu@100%", {"vm", "cpu", 1.0}},
                                                {"capped+cpu@100%", {"capped", "cpu", 1.0}},
                                                {"tight+cpu@100%", {"tight", "cpu", 1.0}},
                                                {"vm+idle", {"vm", "idle", {}}},
                                                {"tight+idle", {"tight", "idle", {}}}};

/// By arm, images/s in each round; drift of a round hits all of its trials alike.
ComparisonData data_of(const std::map<std::string, std::vector<double>>& throughput,
                       const std::map<std::string, std::vector<double>>& rates = {}) {
  ComparisonData data;
  data.experiments.push_back({"e", "s", "", "", "", "", plan_arms, 0.05, 7});
  for (const auto& [arm, values] : throughput) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      ComparisonRow row;
      row.case_name = "trainer";
      row.arm = arm;
      if (arm_keys.contains(arm)) { row.arm_key = arm_keys.at(arm); }
      row.pair = static_cast<std::int64_t>(i) + 1;
      row.virtualization = "tcg";
      row.throughput = values[i];
      data.rows.push_back(row);
    }
  }
  for (const auto& [arm, values] : rates) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      data.neighbour_rates.push_back({0, "trainer", arm, static_cast<std::int64_t>(i) + 1, values[i]});
    }
  }
  return data;
}

std::vector<Mitigation> found_in(const ComparisonData& data) {
  return mitigations(data, isolation_matrices(data));
}

}  // namespace

TEST_CASE("a cap at a quarter of the core gives half of the loss back and costs the aggressor half") {
  // Alone 100; beside the aggressor 50 without the cap, 75 with it. It does 1000 without and 500 with.
  const auto all = found_in(
      data_of({{"vm", {100, 110, 90, 100}},
               {"vm+cpu@100%", {50, 55, 45, 50}},
               {"capped", {98, 107.8, 88.2, 98}},
               {"capped+cpu@100%", {73.5, 80.85, 66.15, 73.5}}},
              {{"vm+cpu@100%", {1000, 1100, 900, 1000}}, {"capped+cpu@100%", {500, 550, 450, 500}}}));
  REQUIRE(all.size() == 1);
  const auto& one = all[0];
  CHECK(one.arm == "capped");
  CHECK(one.like == "vm");
  CHECK(one.changes == "neighbour.limits.cpu 25%");
  CHECK(one.neighbour == "cpu@100%");
  CHECK(one.without->loss == Approx(0.5));
  CHECK(one.with->loss == Approx(0.25));
  CHECK(one.relief.value() == Approx(1.5));  // 0.75 / 0.5
  CHECK(one.rounds == 4);
  CHECK(one.verdict == Help::helps);
  CHECK(one.cost_alone->loss == Approx(0.02));  // 98 / 100
  CHECK(one.cost_aggressor->loss == Approx(0.5));
  CHECK(one.cost_aggressor->rounds == 4);
}

TEST_CASE("the interval of what helps is of rounds, in which drift cancels out") {
  // Kept without: 0.5, 0.4, 0.5; with: 0.6, 0.6, 0.5. Ratios 1.2, 1.5, 1: mean of logarithms 0.195929, their
  // standard deviation 0.203075, with t(0.95; 2) = 2.919986 half a width of 0.342355.
  const auto all = found_in(data_of({{"vm", {100, 200, 50}},
                                     {"vm+cpu@100%", {50, 80, 25}},
                                     {"capped", {100, 200, 50}},
                                     {"capped+cpu@100%", {60, 120, 25}}}));
  REQUIRE(all.size() == 1);
  CHECK(all[0].relief.value() == Approx(1.2164404).epsilon(1e-6));
  REQUIRE(all[0].relief_ci);
  CHECK(all[0].relief_ci->low == Approx(std::exp(0.195929 - 0.342355)).epsilon(1e-4));
  CHECK(all[0].relief_ci->high == Approx(std::exp(0.195929 + 0.342355)).epsilon(1e-4));
  CHECK(all[0].verdict == Help::inconclusive);
  CHECK_FALSE(all[0].cost_aggressor);  // nobody said how fast it worked
}

TEST_CASE("a mitigation is held against the nearest arm that was measured, without neighbours against none") {
  // `tight` is like `capped`, which did not run, which is like `vm`; there is no trial alone.
  const auto all = found_in(data_of({{"vm+idle", {100, 100, 100}},
                                     {"vm+cpu@100%", {50, 50.1, 49.9}},
                                     {"tight+idle", {100, 100, 100}},
                                     {"tight+cpu@100%", {50, 50.1, 49.9}}}));
  REQUIRE(all.size() == 1);  // the idle neighbour has nothing to mitigate
  CHECK(all[0].like == "vm");
  CHECK(all[0].changes == "guest.pinning none, neighbour.limits.cpu 10%");
  CHECK(all[0].without->loss == Approx(0.5).margin(0.001));
  CHECK(all[0].verdict == Help::no_effect);
  CHECK_FALSE(all[0].cost_alone);
  CHECK(found_in(data_of({{"vm", {1, 1}}, {"vm+cpu@100%", {1, 1}}})).empty());
}

TEST_CASE("unequal virtualization has no verdict, and spoilt rounds do not count") {
  auto data = data_of({{"vm", {100, 100, 100}},
                       {"vm+cpu@100%", {50, 50.1, 49.9}},
                       {"capped", {100, 100, 100}},
                       {"capped+cpu@100%", {75, 75.1, 74.9}}});
  for (auto& row : data.rows) {
    if (row.arm == "capped+cpu@100%" && row.pair == 1) { row.valid = false; }
  }
  CHECK(found_in(data).at(0).rounds == 2);
  for (auto& row : data.rows) {
    if (row.arm.starts_with("capped")) { row.virtualization = "kvm"; }
  }
  CHECK(found_in(data).at(0).verdict == Help::not_comparable);
}

TEST_CASE("a mitigation whose arms differ by more than what they change has no verdict, and says why") {
  const auto data_with = [](const std::string& key, const std::string& without, const std::string& with,
                            const std::string& with_alone) {
    auto data = data_of({{"vm", {100, 100, 100}},
                         {"vm+cpu@100%", {50, 50.1, 49.9}},
                         {"capped", {100, 100, 100}},
                         {"capped+cpu@100%", {75, 75.1, 74.9}}});
    for (const auto& [arm, value] : {std::pair{"vm", without}, std::pair{"vm+cpu@100%", without},
                                     std::pair{"capped", with_alone}, std::pair{"capped+cpu@100%", with}}) {
      data.facts.push_back({.case_name = "trainer", .arm = arm, .key = key, .value = value});
    }
    return data;
  };
  CHECK(found_in(data_with("driver", "535.1", "535.1", "535.1")).at(0).verdict == Help::helps);
  const auto data = data_with("driver", "535.1", "580.1", "580.1");
  const auto other = found_in(data).at(0);
  CHECK(other.verdict == Help::not_comparable);
  CHECK_THAT(other.reason, Contains("driver differs: 535.1 in vm, 580.1 in capped") &&
                               Contains("580.1 in capped+cpu@100%"));
  // The figures stay: what was measured is shown, and is no verdict.
  CHECK(other.relief.value() == Approx(1.5));
  const auto text = render(mitigation_table(found_in(data)), Format::table, Screen{});
  CHECK_THAT(text, Contains("capped next to cpu@100% is not comparable: driver differs"));
  CHECK_THAT(render(mitigation_table(found_in(data)), Format::csv, Screen{}), Contains("driver differs"));
  // Where the victim's own runs differ, alone and beside, neither side has a loss to compare.
  const auto inner = found_in(data_with("driver", "535.1", "580.1", "535.1")).at(0);
  CHECK(inner.verdict == Help::not_comparable);
  CHECK_THAT(inner.reason, Contains("driver differs: 535.1 in capped, 580.1 in capped+cpu@100%"));
  // What the arm changes on purpose is explained, and nothing else.
  auto explained = data_with("cpu_model", "A", "B", "B");
  CHECK(found_in(explained).at(0).verdict == Help::not_comparable);
  const std::string own = R"("neighbour.limits.cpu": "25%")";
  std::string arms = plan_arms;
  for (std::size_t at = 0; (at = arms.find(own, at)) != std::string::npos;) {
    const std::string with_model = own + R"(, "guest.cpu_model": "qemu64")";
    arms.replace(at, own.size(), with_model);
    at += with_model.size();
  }
  explained.experiments[0].arms = arms;
  CHECK(found_in(explained).at(0).verdict == Help::helps);
}

TEST_CASE("planted mitigations are found at their size within their interval, and A/A ones do not help") {
  int covered = 0, helped = 0, falsely = 0;
  constexpr int runs = 60;
  for (int seed = 1; seed <= runs; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    std::normal_distribution<double> of_trial(0, 0.015), of_round(0, 0.05);
    std::map<std::string, std::vector<double>> planted, same;
    for (int round = 0; round < 6; ++round) {
      const double drift = of_round(random);
      const auto trial = [&](double kept) { return 100 * kept * std::exp(drift + of_trial(random)); };
      for (const auto& [arm, kept] : {std::pair("vm", 1.0), std::pair("vm+cpu@100%", 0.5),
                                      std::pair("capped", 1.0), std::pair("capped+cpu@100%", 0.8)}) {
        planted[arm].push_back(trial(kept));
        same[arm].push_back(trial(std::string(arm).ends_with('%') ? 0.5 : 1.0));
      }
    }
    const auto one = found_in(data_of(planted)).at(0);
    helped += one.verdict == Help::helps ? 1 : 0;
    covered += one.relief_ci->low <= 1.6 && 1.6 <= one.relief_ci->high ? 1 : 0;
    falsely += found_in(data_of(same)).at(0).verdict == Help::helps ? 1 : 0;
  }
  CHECK(helped == runs);
  CHECK(covered >= 0.8 * runs);  // the interval is of 90 %
  CHECK(falsely <= 0.05 * runs);
}

TEST_CASE(
    "the table of what helps says the verdict, both losses and both costs, and programs get all of it") {
  const auto table = mitigation_table(
      found_in(data_of({{"vm", {100, 101, 99}},
                        {"vm+cpu@100%", {50, 50, 50}},
                        {"capped", {100, 101, 99}},
                        {"capped+cpu@100%", {75, 75, 75}}},
                       {{"vm+cpu@100%", {1000, 1000, 1000}}, {"capped+cpu@100%", {500, 501, 499}}})));
  const auto text = render(table, Format::table);
  INFO(text);
  CHECK_THAT(text, Contains("What helps how much"));
  CHECK_THAT(text, Contains("capped  cpu@100%   50 % (49 to 51)  helps 25 % (24 to 26)    0 %      50 %"));
  for (const auto& line : split(text, '\n')) { CHECK(line.size() <= 80); }
  CHECK_THAT(text, Contains("capped is vm with neighbour.limits.cpu 25%"));
  const auto json = nlohmann::json::parse(render(table, Format::json)).at(0);
  CHECK(json["verdict"] == "helps");
  CHECK(json["like"] == "vm");
  CHECK(json["loss_without"].get<double>() == Approx(0.5).margin(0.001));
  CHECK(json["cost_aggressor_high"].get<double>() == Approx(0.5).margin(0.01));
  CHECK(json["relief"].get<double>() == Approx(1.5).margin(0.001));
}
