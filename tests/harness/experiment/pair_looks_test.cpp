#include "harness/experiment/pair_looks.h"

#include <cmath>

#include "harness/scenario/decode/decode.h"
#include "results/reading/reading.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

std::string with_pairs(const std::string& pairs) {
  return "name: early\n"
         "workload: {model: resnet50}\n"
         "guest: {vcpus: 1, memory: 512MiB}\n"
         "cases:\n"
         "  - {name: one, tenants: [{nodes: 1}]}\n"
         "pairs: " +
         pairs + "\n";
}

std::string refusal(const std::string& pairs) {
  return results::error_of([&] { decode_scenario(with_pairs(pairs), "x.yaml"); }).message();
}

/// An experiment whose pairs are all there from the start, with these log ratios.
struct Stored {
  explicit Stored(const Scenario& scenario, const std::vector<double>& log_ratios,
                  const std::string& of_vms = "kvm")
      : store(folder.path / "r.db") {
    auto experiment = results::an_experiment("e1");
    experiment.plan = {{"looks", {{"at_most", scenario.pairs}, {"every", 1}, {"first", 3}}}};
    store.add_experiment(experiment);
    for (std::size_t i = 0; i < log_ratios.size(); ++i) {
      const auto pair = static_cast<std::int64_t>(i) + 1;
      results::add_finished(store, "e1", "one", "bare_metal", pair, 100);
      results::add_finished(store, "e1", "one", "vm", pair, 100 * std::exp(log_ratios[i]), 1, of_vms);
    }
  }
  TemporaryFolder folder;
  results::Store store;
};

std::vector<double> around(double mean, double spread, int n) {
  std::vector<double> values;
  for (int i = 0; i < n; ++i) { values.push_back(mean + (i % 2 == 0 ? spread : -spread)); }
  return values;
}

}  // namespace

TEST_CASE("pairs until a verdict are read, and what contradicts is refused at its place") {
  const auto scenario =
      decode_scenario(with_pairs("{at_most: 30, until: verdict, budget: 2h, every: 2}"), "x.yaml");
  CHECK(scenario.pairs == 30);
  REQUIRE(scenario.until);
  CHECK(scenario.until->verdict);
  CHECK(scenario.until->looks.every == 2);
  CHECK(scenario.until->budget_ns == 7'200'000'000'000);
  CHECK_FALSE(decode_scenario(with_pairs("6"), "x.yaml").until);
  CHECK_THAT(refusal("{at_most: 30}"), Contains("x.yaml:6:8: pairs: at_most needs until or budget"));
  CHECK_THAT(refusal("{at_most: 2, until: verdict}"), Contains("x.yaml:6:18: at_most"));
  CHECK_THAT(refusal("{at_most: 30, until: tomorrow}"), Contains("verdict"));
  CHECK_THAT(refusal("{until: verdict}"), Contains("at_most"));
}

TEST_CASE("a case ends with the first look that shows a verdict, and its comparison uses that look's level") {
  const auto scenario = decode_scenario(with_pairs("{at_most: 20, until: verdict}"), "x.yaml");
  const Stored clear(scenario, around(0, 0.001, 8));
  PairLooks looks(scenario, clear.store, "e1");
  CHECK(looks.reason_against("one", 1).empty());
  CHECK_THAT(looks.reason_against("one", 9), Contains("8 pairs are enough for a verdict"));
  CHECK_FALSE(looks.reason_against("one", 10).empty());

  const auto comparison = results::compare(clear.store, results::CompareRequest{}).at(0);
  CHECK(comparison.settings.alpha == results::SequentialTest({20, 1, 3}, {}).level(8));
  CHECK(comparison.settings.alpha < 0.02);
  CHECK(comparison.verdict == results::Verdict::equivalent);
  CHECK(std::find(comparison.flags.begin(), comparison.flags.end(), "looked_early") !=
        comparison.flags.end());
}

TEST_CASE("a case goes on while nothing is clear, and ends where nothing is in sight") {
  const auto scenario = decode_scenario(with_pairs("{at_most: 20, until: verdict}"), "x.yaml");
  const Stored open(scenario, around(-0.008, 0.03, 8));
  CHECK(PairLooks(scenario, open.store, "e1").reason_against("one", 9).empty());
  const Stored hopeless(scenario, around(std::log(0.98), 0.02, 16));
  CHECK_THAT(PairLooks(scenario, hopeless.store, "e1").reason_against("one", 17),
             Contains("no verdict is in sight"));
}

TEST_CASE("a case that can have no verdict ends with its first look, which says why") {
  auto scenario = decode_scenario(with_pairs("{at_most: 20, until: verdict}"), "x.yaml");
  const Stored emulated(scenario, around(0, 0.02, 8), "tcg");
  PairLooks looks(scenario, emulated.store, "e1");
  CHECK(looks.reason_against("one", 3).empty());
  CHECK_THAT(looks.reason_against("one", 4),
             Contains("no verdict can be given: a virtual machine was emulated"));
  // Who asks what a change did on this host goes by the test.
  scenario.by_test = true;
  CHECK(PairLooks(scenario, emulated.store, "e1").reason_against("one", 4).empty());
  const Stored clear(scenario, around(0, 0.001, 8), "tcg");
  CHECK_THAT(PairLooks(scenario, clear.store, "e1").reason_against("one", 9),
             Contains("8 pairs are enough for a verdict"));
}

TEST_CASE("a case one of whose arms fails each time ends, too") {
  const auto scenario = decode_scenario(with_pairs("{at_most: 20, until: verdict}"), "x.yaml");
  Stored half(scenario, {});
  for (int pair = 1; pair <= 3; ++pair) {
    results::add_finished(half.store, "e1", "one", "bare_metal", pair, 100);
  }
  PairLooks looks(scenario, half.store, "e1");
  CHECK(looks.reason_against("one", 3).empty());
  CHECK_THAT(looks.reason_against("one", 4), Contains("no verdict can be given: nothing to compare"));
}

TEST_CASE("a case goes on where trials failed now and then, and no pair is whole yet") {
  const auto scenario = decode_scenario(with_pairs("{at_most: 20, until: verdict}"), "x.yaml");
  Stored crossed(scenario, {});
  results::add_finished(crossed.store, "e1", "one", "bare_metal", 1, 100);
  results::add_finished(crossed.store, "e1", "one", "vm", 2, 100, 1, "kvm");
  results::add_finished(crossed.store, "e1", "one", "bare_metal", 3, 100);
  CHECK(PairLooks(scenario, crossed.store, "e1").reason_against("one", 4).empty());
}

TEST_CASE("no pair begins once the budget is spent, and one that has begun is finished") {
  constexpr std::int64_t hour = 3'600'000'000'000;
  for (const std::string until : {"", ", until: verdict"}) {
    CAPTURE(until);
    const auto scenario = decode_scenario(with_pairs("{at_most: 20, budget: 2h" + until + "}"), "x.yaml");
    const Stored open(scenario, around(-0.008, 0.03, 8));
    std::int64_t now = 7 * hour;  // a clock need not begin at 0
    PairLooks looks(scenario, open.store, "e1", [&] { return now; });
    CHECK(looks.reason_against("one", 1).empty());
    CHECK(looks.reason_against("one", 2).empty());
    now += 2 * hour;  // not more than it
    CHECK(looks.reason_against("one", 3).empty());
    now += 1;
    CHECK(looks.reason_against("one", 3).empty());  // the other arm of a pair that has begun
    CHECK(looks.reason_against("one", 4) == "the budget of 2 h is spent");
    CHECK(looks.reason_against("one", 9) == "the budget of 2 h is spent");
    // Each case has its first pair, or there would be nothing to show for it.
    CHECK(looks.reason_against("two", 1).empty());
    CHECK(looks.reason_against("two", 2) == "the budget of 2 h is spent");
  }
  const auto half = decode_scenario(with_pairs("{at_most: 20, budget: 90m}"), "x.yaml");
  const Stored clear(half, around(0, 0.001, 8));
  std::int64_t now = 0;
  PairLooks looks(half, clear.store, "e1", [&] { return now; });
  now = hour;
  CHECK(looks.reason_against("one", 9).empty());  // without `until` no verdict ends it
  now = 2 * hour;
  CHECK(looks.reason_against("one", 10) == "the budget of 1.5 h is spent");
}
