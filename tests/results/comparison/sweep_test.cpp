#include "results/comparison/sweep.h"

#include <cmath>
#include <random>

#include "results/comparison/compare_json.h"
#include "results/reading/reading.h"
#include "results/tables/tables.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

void add_point(ComparisonData& data, const CaseKey& key, ComparisonRow row) {
  row.case_name = printed(key);
  row.case_key = key;
  data.rows.push_back(std::move(row));
}

/// Five pairs of an arm at each of four batch sizes: 32 and 64 level, 16 a tenth slower, 128 with one run.
ComparisonData swept() {
  const double noise[] = {0.2, -0.1, 0.1, -0.2, 0};
  ComparisonData data;
  data.experiments = {
      {.id = "e", .arms = R"([{"name":"vm","base":"vm","price":{"amount":2.0,"currency":"EUR"}}])"}};
  const auto add = [&](const char* batch, double mean, int runs) {
    for (int i = 0; i < runs; ++i) {
      add_point(
          data, {"one", 2, {{{"batch_size", batch}}}},
          {.arm = "vm", .pair = i + 1, .nodes = 2, .virtualization = "kvm", .throughput = mean + noise[i]});
    }
  };
  add("16", 90, 5);
  add("32", 100, 5);
  add("64", 100.2, 5);
  add("128", 99, 1);
  return data;
}

}  // namespace

TEST_CASE("the points of a sweep have the name of their case and size in common") {
  const CaseKey key{"weak", 4, {{{"batch_size", "32"}, {"vcpus", "2"}}}};
  CHECK(printed(key) == "weak@batch_size=32,vcpus=2/4");
  CHECK(swept_name(key) == "weak/4");
  CHECK(printed(resized(key, {})) == "weak@batch_size=32,vcpus=2");
}

TEST_CASE("a case whose name looks like a point is none") {
  auto data = swept();
  for (auto& row : data.rows) { row.case_key = {}; }
  const auto list = compare(data, {});
  CHECK(sweep_sentences(list).empty());
  CHECK(to_json(list.at(0)).at("sweep").is_null());
}

TEST_CASE("points that are as good as the one with the largest mean are named with it") {
  const auto list = compare(swept(), {});
  REQUIRE(list.size() == 4);
  std::vector<Standing> standings;
  for (const auto& one : list) { standings.push_back(one.arms.at(0).sweep->standing); }
  CHECK(standings ==
        std::vector<Standing>{Standing::worse, Standing::as_good, Standing::best, Standing::undecided});
  // t(0.975, 4) = 2.776, s = 0.1581: 0.1963 to each side.
  CHECK(list[1].arms[0].sweep->ci->low == Approx(99.8037).margin(1e-4));
  CHECK(list[1].arms[0].sweep->ci->high == Approx(100.1963).margin(1e-4));
  CHECK_FALSE(list[3].arms[0].sweep->ci);
  const auto sentences = sweep_sentences(list);
  REQUIRE(sentences.size() == 1);
  CHECK_THAT(sentences[0], Contains("Sweep of one/2 in vm: largest mean at batch_size=64, 100.2 images/s") &&
                               Contains("As good within 2 %: batch_size=32.") &&
                               Contains("Worse by more than 2 %: batch_size=16.") &&
                               Contains("Not decided: batch_size=128."));
  const auto json = to_json(list[2]).at("sweep");
  CHECK(json.at("family") == "one/2");
  CHECK(json.at("at").at("batch_size") == "64");
  CHECK(json.at("arms").at("vm").at("standing") == "best");
}

TEST_CASE("of many equal points hardly ever one is called worse") {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0, 0.03);
  int called = 0;
  constexpr int sweeps = 200;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    ComparisonData data;
    for (int point = 0; point < 12; ++point) {
      for (int pair = 1; pair <= 6; ++pair) {
        add_point(data, {"one", {}, {{{"batch_size", std::to_string(point + 1)}}}},
                  {.arm = "bare_metal", .pair = pair, .throughput = 100 * std::exp(noise(random))});
      }
    }
    const auto list = compare(data, {});
    called += std::ranges::any_of(
        list, [](const auto& one) { return one.arms.at(0).sweep->standing == Standing::worse; });
  }
  CHECK(called <= 0.06 * sweeps);  // 18 % by the tests of the single points
}

TEST_CASE("a sweep of power limits says whether a tenth to a fifth less power costs less than 5 %") {
  ComparisonData data;
  const auto add = [&](const std::string& limit, double mean) {
    for (int i = 0; i < 4; ++i) {
      add_point(data, {"one", {}, {{{"power_limit", limit}}}},
                {.arm = "bare_metal", .pair = i + 1, .throughput = mean + 0.1 * i});
    }
  };
  add("300W", 100);
  add("270W", 97);
  add("240W", 90);
  add("200W", 80);
  const auto sentences = sweep_sentences(compare(data, {}));
  REQUIRE(sentences.size() == 3);
  CHECK_THAT(
      sentences[1],
      Contains(
          "power_limit=270W has 10 % less power than power_limit=300W, and cost 3 % of the throughput") &&
          Contains("is shown"));
  CHECK_THAT(sentences[2],
             Contains("20 % less power than power_limit=300W, and cost 10 % of the throughput") &&
                 Contains("is refuted"));
  CHECK(sweeps_power({"one", {}, {{{"power_limit", "250W"}, {"batch_size", "2"}}}}));
  CHECK_FALSE(sweeps_power({"one", {}, {{{"batch_size", "2"}}}}));
}

TEST_CASE("a price gives images for a unit of its currency") {
  // 100 images/s for an hour on two nodes of 2 EUR/h each.
  const auto json = to_json(compare(swept(), {}).at(1)).at("images_per_currency_unit").at("vm");
  CHECK(json.at("images").get<double>() == Approx(90'000));
  CHECK(json.at("currency") == "EUR");
  CHECK_THAT(render(compare(swept(), {}), Format::csv), Contains(",,,,,,EUR\r\n"));
}

TEST_CASE("sides of a sweep have curves of their own, by arm") {
  ComparisonData data;
  data.experiments = {{.id = "a", .label = "before"}, {.id = "b", .label = "after"}};
  const auto add = [&](std::int64_t experiment, const char* arm, const char* batch, double mean) {
    for (int i = 0; i < 4; ++i) {
      add_point(data, {"one", {}, {{{"batch_size", batch}}}},
                {.experiment = experiment,
                 .arm = arm,
                 .nodes = 1,
                 .virtualization = arm == std::string("vm") ? "kvm" : "none",
                 .throughput = mean + 0.1 * i});
    }
  };
  for (const std::int64_t experiment : {0, 1}) {
    add(experiment, "bare_metal", "16", 200), add(experiment, "bare_metal", "32", 220);
    add(experiment, "vm", "16", 100), add(experiment, "vm", "32", 110);
  }
  CompareRequest request;
  request.baseline = "label:before";
  request.candidate = "label:after";
  const auto list = compare(data, request);
  REQUIRE(list.size() == 4);
  for (const auto& one : list) {
    const auto wanted = one.case_name.ends_with("32") ? Standing::best : Standing::worse;
    for (const auto& arm : one.arms) { CHECK(arm.sweep->standing == wanted); }
  }
  const auto sentences = sweep_sentences(list);
  REQUIRE(sentences.size() == 4);
  CHECK_THAT(sentences[2], Contains("Sweep of one in vm of label:before: largest mean at batch_size=32"));
}

TEST_CASE("points of a sweep from two boots have no verdict by the runs of each") {
  auto data = swept();
  for (auto& row : data.rows) { row.boot_id = row.case_name.find("=16") != std::string::npos ? "b1" : "b2"; }
  const auto list = compare(data, {});
  CHECK(list.at(0).arms.at(0).sweep->standing == Standing::undecided);  // worse within one boot
  CHECK(list.at(1).arms.at(0).sweep->standing == Standing::as_good);
}

TEST_CASE("when a case was looked at early does not decide where its point stands") {
  auto data = swept();
  data.experiments[0].looks = R"({"at_most":30,"every":1,"first":3})";
  CHECK(compare(data, {}).at(0).arms.at(0).sweep->standing == Standing::worse);
}

TEST_CASE("a sweep of emulated VMs says so, whatever emulated them") {
  auto data = swept();
  for (auto& row : data.rows) { row.virtualization = "kvm_on_emulated"; }
  CHECK_THAT(sweep_sentences(compare(data, {})).at(0), Contains("The virtual machines were emulated"));
}

TEST_CASE("experiments that do not agree on a price have none, and a price that cannot be is none") {
  auto data = swept();
  data.experiments.push_back(
      {.id = "f", .arms = R"([{"name":"vm","base":"vm","price":{"amount":4.0,"currency":"USD"}}])"});
  CHECK(to_json(compare(data, {}).at(1)).at("images_per_currency_unit").is_null());
  for (const char* price : {R"({"amount":1e-308,"currency":"EUR"})", R"({"amount":2.0,"currency":"euro"})"}) {
    auto one = swept();
    one.experiments[0].arms = std::string(R"([{"name":"vm","base":"vm","price":)") + price + "}]";
    CHECK(to_json(compare(one, {}).at(1)).at("images_per_currency_unit").is_null());
  }
}

TEST_CASE(
    "the best of equal points has an interval that holds its true mean, though it was chosen for its luck") {
  std::mt19937_64 random(11);
  std::normal_distribution<double> noise(0, 0.03);
  int covered = 0;
  constexpr int sweeps = 300;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    ComparisonData data;
    for (int point = 0; point < 8; ++point) {
      for (int pair = 1; pair <= 6; ++pair) {
        add_point(data, {"one", {}, {{{"batch_size", std::to_string(point + 1)}}}},
                  {.arm = "bare_metal", .pair = pair, .throughput = 100 * (1 + noise(random))});
      }
    }
    for (const auto& one : compare(data, {})) {
      const auto& point = *one.arms.at(0).sweep;
      if (point.standing == Standing::best) {
        covered += point.ci->low <= 100 && 100 <= point.ci->high ? 1 : 0;
      }
    }
  }
  CHECK(covered >= 0.93 * sweeps);  // 85 % by the interval of the point alone
}

TEST_CASE("of points that lie on the margin hardly ever one is called as good") {
  std::mt19937_64 random(13);
  std::normal_distribution<double> noise(0, 0.01);
  int called = 0;
  constexpr int sweeps = 300;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    ComparisonData data;
    for (int point = 0; point < 7; ++point) {
      for (int pair = 1; pair <= 6; ++pair) {
        add_point(data, {"one", {}, {{{"batch_size", std::to_string(point + 1)}}}},
                  {.arm = "bare_metal",
                   .pair = pair,
                   .throughput = (point == 0 ? 100 : 98) * std::exp(noise(random))});
      }
    }
    const auto list = compare(data, {});
    called += std::ranges::any_of(
        list, [](const auto& one) { return one.arms.at(0).sweep->standing == Standing::as_good; });
  }
  CHECK(called <= 0.07 * sweeps);  // 12 % by the tests of the single points
}

TEST_CASE("a price is of what the throughput counts") {
  auto data = swept();
  for (const char* counted : {"tokens", "currency"}) {  // the other key has that name, too
    for (auto& row : data.rows) { row.unit = counted + std::string("/s"); }
    const auto price = to_json(compare(data, {}).at(1)).at("images_per_currency_unit").at("vm");
    CHECK(price.at("images").is_null());
    CHECK(price.at("unit") == counted);
    CHECK(price.at("work") == Approx(100.0 * 3600 / (2.0 * 2)).epsilon(0.01));
    CHECK(price.at("currency").is_string());
  }
}
