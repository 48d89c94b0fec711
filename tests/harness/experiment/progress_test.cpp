#include "harness/experiment/progress.h"

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain::harness;

namespace {

constexpr std::int64_t second = 1'000'000'000;

/// Four trials, two of each arm, estimated at 10 s on bare metal and 60 s in VMs, which may be 30 to 180 s.
Plan four_trials() {
  Plan plan;
  for (const auto* arm : {"bare_metal", "vm", "vm", "bare_metal"}) {
    const auto order = static_cast<std::int64_t>(plan.trials.size()) + 1;
    const bool vm = std::string(arm) == "vm";
    plan.trials.push_back(
        {order, 0, arm, arm, 1, vm ? 60.0 : 10.0, vm ? SecondsRange{30, 180} : SecondsRange{5, 20}});
  }
  return plan;
}

Progress progress_of(std::string now) {
  return {"[3/6] two-nodes vm, pair 1", std::move(now), 100 * second, 160 * second, {200, 500}};
}

void check_range(const SecondsRange& range, double low, double high) {
  CHECK(range.low == Approx(low));
  CHECK(range.high == Approx(high));
}

}  // namespace

TEST_CASE("what is left is a range, which trials narrow") {
  const auto plan = four_trials();
  RemainingTime remaining(plan);
  check_range(remaining.seconds_left(plan.trials[0], 0), 5 + 30 + 30 + 5, 20 + 180 + 180 + 20);
  check_range(remaining.seconds_left(plan.trials[0], 4), 1 + 30 + 30 + 5, 16 + 180 + 180 + 20);
  remaining.finished(plan.trials[0], 30);  // bare metal takes three times as long: of VMs it tells nothing
  const auto metal = proven(30), vm = proven(90);
  check_range(remaining.seconds_left(plan.trials[1], 0), 30 + 30 + metal.low, 180 + 180 + metal.high);
  remaining.finished(plan.trials[1], 90);
  check_range(remaining.seconds_left(plan.trials[2], 10), vm.low - 10 + metal.low, vm.high - 10 + metal.high);
  check_range(remaining.seconds_left(plan.trials[3], 500), 0, 0);
}

TEST_CASE("building the guest image is part of what is left until the image is there") {
  auto plan = four_trials();
  plan.image = {0, 60};
  RemainingTime remaining(plan);
  check_range(remaining.seconds_left(plan.trials[0], 0), 5 + 30 + 30 + 5, 20 + 180 + 180 + 20 + 60);
  check_range(remaining.seconds_left(plan.trials[1], 200), 30 + 5, 180 + 60 - 200 + 180 + 20);
  remaining.has_image();
  check_range(remaining.seconds_left(plan.trials[0], 0), 5 + 30 + 30 + 5, 20 + 180 + 180 + 20);
}

TEST_CASE("a trial that takes longer than it should tells of those to come") {
  const auto plan = four_trials();
  RemainingTime remaining(plan);
  check_range(remaining.seconds_left(plan.trials[1], 360), 30 + 5, 2 * 180 + 20);
}

TEST_CASE("another arm in VMs takes as much longer as the first one did") {
  auto plan = four_trials();
  plan.trials[2].arm = "vm-unpinned";
  RemainingTime remaining(plan);
  remaining.finished(plan.trials[1], 120);
  const auto vm = proven(120);
  check_range(remaining.seconds_left(plan.trials[2], 0), vm.low + 5, vm.high + 20);
}

TEST_CASE("a line of progress says what, how long so far and how long to go, and never wraps") {
  CHECK(progress_words(progress_of("boot"), 172 * second, 200) ==
        "[3/6] two-nodes vm, pair 1: booting (1:12, 4 to 9 min left)");
  CHECK(progress_words(progress_of("boot"), 340 * second, 200) ==
        "[3/6] two-nodes vm, pair 1: booting (4:00, 20 s to 6 min left)");
  auto long_run = progress_of("boot");
  long_run.left_then = {40'000, 40'001};
  CHECK(progress_words(long_run, 8160 * second, 200) ==
        "[3/6] two-nodes vm, pair 1: booting (2:14:20, 9 h left)");
  const auto step = progress_of("step 12 of 20, 1234.56 images/s a rank");
  for (std::size_t columns = 0; columns < 120; ++columns) {
    const auto words = progress_words(step, 172 * second, columns);
    CHECK(words.size() < std::max<std::size_t>(columns, 1));
  }
  // Clauses go; none is cut.
  CHECK(progress_words(step, 172 * second, 80) ==
        "[3/6] two-nodes vm, pair 1: step 12 of 20 (1:12, 4 to 9 min left)");
  CHECK(progress_words(step, 172 * second, 60) ==
        "[3/6] two-nodes vm: step 12 of 20 (1:12, 4 to 9 min left)");
  CHECK(progress_words(step, 172 * second, 24) == "1:12, 4 to 9 min left");
}

TEST_CASE("what trials took is learnt from the same text on the same host, and from no other") {
  const virtrain::TemporaryFolder folder;
  virtrain::results::Store store(folder.path / "results.db");
  Scenario scenario;
  scenario.name = "s";
  scenario.text = "name: s\npairs: 1\n";
  const auto ran = [&](const std::string& id, const std::string& text, const std::string& host, int seconds) {
    store.add_experiment({.id = id, .scenario = "s", .scenario_text = text, .host_name = host});
    virtrain::results::Trial trial;
    trial.experiment = id;
    trial.case_name = "c";
    trial.arm = "vm";
    trial.pair = 1;
    trial.status = virtrain::Status::finished;
    trial.throughput = virtrain::results::of_images(10);
    trial.started_at = "2026-11-01T00:00:00.000Z";
    trial.ended_at = "2026-11-01T00:00:" + std::to_string(seconds) + ".000Z";
    store.import_trial(trial);
  };
  ran("a", scenario.text, "here", 20);
  ran("b", "# only a remark\n" + scenario.text, "here", 40);
  ran("c", "name: s\npairs: 9\n", "here", 55);
  ran("d", scenario.text, "there", 55);
  const auto past = past_trials(store, scenario, "here");
  REQUIRE(past.size() == 1);
  CHECK(past.at({"c", "vm"}) == Approx(30));
  // The guest image comes once, and no later trial takes its time.
  store.add_event(
      "b", {store.trials("b")[0].id, 1, "t", "image", "ready", {{"from_cache", false}, {"seconds", 10}}});
  CHECK(past_trials(store, scenario, "here").at({"c", "vm"}) == Approx(25));
}
