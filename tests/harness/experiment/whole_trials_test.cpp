// Whole experiments on a FakeHost: real agents, a trainer that sleeps its steps, a real database; and faults
// in each call of the host and in each message of an agent.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <set>

#include "common/files/reading.h"
#include "harness/experiment/experiment.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "harness/security/searched_nodes.h"
#include "results/store/store.h"
#include "tests/harness/agent/agent_process.h"
#include "tests/harness/experiment/fake_experiment.h"
#include "tests/support/catch.h"
#include "tests/support/fake_host.h"
#include "tests/support/framed_host.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::harness {
namespace {

using namespace std::chrono_literals;
using test::Contains;
using test::FakeHost;
using test::FramedHost;
using test::StreamFault;
using Strings = std::vector<std::string>;
namespace fs = std::filesystem;

/// A workload with so many steps that does this wrong (see fake_trainer.cpp).
std::string workload(int steps, const std::string& fault = "") {
  return "{batch_size: 4, image_size: 32, warmup_steps: 0, display_every: 1, steps: " +
         std::to_string(steps) + (fault.empty() ? "" : ", env: {FAULT: " + fault + "}") + "}";
}

const Error refused("try it", ErrorCode::io, "refused");
const std::string with_device = "{kind: passthrough, select: {address: [\"0000:65:00.0\"]}}";
const std::string case_with_device = "[{name: one, tenants: [{nodes: 1, gpus_per_node: 1}]}]";

/// A fault in the first of two trials.
struct Planted {
  std::string name, stage, words;
  std::function<void(FakeHost&)> plant = [](FakeHost&) {};
  std::map<std::string, std::string> scenario = {};
};

Planted in_call(const std::string& method, const std::string& stage) {
  return {method, stage, "try it: refused",
          [method](FakeHost& host) { host.plant_fault(method, {.error = refused}); }};
}

Planted in_stream(const std::string& type, StreamFault fault, const std::string& stage,
                  const std::string& words, int nth = 1) {
  return {"stream at " + type, stage, words,
          [=](FakeHost& host) { host.plant_in_stream(1, type, fault, nth); }};
}

std::vector<Planted> faults_of_a_trial() {
  auto lend = in_call("lend", "bind");
  auto busy = lend;
  busy.name = "lend while it is busy";
  busy.words = "somebody has it";
  busy.plant = [](FakeHost& host) {
    host.plant_fault("lend", {.error = Error("lend", ErrorCode::busy, "somebody has it")});
  };
  for (auto* one : {&lend, &busy}) {
    one->scenario = {{"devices", with_device}, {"cases", case_with_device}};
  }
  auto silent = in_stream("announce", StreamFault::goes_silent, "agent", "no message from it within 1 s");
  silent.scenario = {{"boot_timeout", "1s"}};
  const auto closes = StreamFault::closes;
  return {in_call("make_image", "image"),
          lend,
          busy,
          in_call("plan_nodes", "define"),
          in_call("make_networks", "define"),
          in_call("start", "boot"),
          silent,
          in_stream("announce", closes, "agent", "its channel closed"),
          in_stream("hello", StreamFault::sends_no_frame, "agent", "it broke the protocol"),
          in_stream("hello", closes, "agent", "its channel closed"),
          in_stream("started", closes, "place", "its channel closed"),
          in_stream("started", StreamFault::sends_no_frame, "place", "it broke the protocol"),
          in_call("counters", "barrier"),
          in_stream("pong", closes, "barrier", "its channel closed", 9),
          in_stream("output", closes, "run", "is lost: its channel closed", 3),
          in_stream("output", StreamFault::floods, "run", "after one of step", 3),
          in_call("watch_devices", "barrier"),
          in_call("watched", "collect"),
          in_call("numa_nodes_of", "collect"),
          in_stream("swept", closes, "collect", "its channel closed")};
}

}  // namespace

TEST_CASE("a pair of trials on a FakeHost is finished, valid and leaves nothing") {
  Experiment experiment;
  experiment.run({{"arms", "[bare_metal, vm]"}, {"pairs", "1"}});
  CHECK(experiment.outcome.finished == 2);
  CHECK(experiment.status() == Status::finished);
  for (const std::size_t n : {1, 2}) {
    const auto trial = experiment.trial(n);
    CHECK(trial.status == Status::finished);
    CHECK(trial.invalid_reason.empty());
    CHECK(in_images(trial.throughput) == Approx(4 / 0.02).epsilon(0.01));
    CHECK(trial.virtualization == (trial.arm == "vm" ? "kvm" : "none"));
  }
  experiment.check_tidy();
}

TEST_CASE("a fault at any stage fails its trial there, and the next trial is finished") {
  for (const auto& planted : faults_of_a_trial()) {
    DYNAMIC_SECTION(planted.name << " in stage " << planted.stage << ": " << planted.words) {
      Experiment experiment;
      planted.plant(experiment.host);
      experiment.run(planted.scenario);
      const auto failed = experiment.trial(1);
      CHECK(failed.status == Status::failed);
      CHECK(failed.failed_stage == planted.stage);
      CHECK_THAT(failed.failure_reason, Contains(planted.words));
      CHECK(experiment.trial(2).status == Status::finished);
      CHECK(experiment.outcome.failed == 1);
      CHECK(experiment.status() == Status::failed);
      experiment.check_tidy();
    }
  }
}

TEST_CASE("a trainer that fails, prints garbage, floods, hangs or is not there fails its trial in words") {
  const std::vector<Planted> faults{
      {"exit", "run", "exit status 9"},
      {"garbage", "run", "'seconds' must be a positive"},
      {"flood", "run", "output that is not the protocol"},
      {"hang", "run", "not within 1 s"},
      {"silent", "place", "not within 1 s"},
  };
  for (const auto& fault : faults) {
    DYNAMIC_SECTION(fault.name) {
      Experiment experiment;
      experiment.run({{"workload", workload(8, fault.name)}, {"trial_timeout", "1s"}, {"pairs", "1"}});
      const auto failed = experiment.trial(1);
      CHECK(failed.failed_stage == fault.stage);
      CHECK_THAT(failed.failure_reason, Contains(fault.words));
      const auto store = experiment.store();
      const auto ranks = store.ranks(store.tenants(failed.id).at(0).id);
      CHECK(
          (fault.stage == "place" || store.samples(ranks.at(0).id).size() >= 3));  // what was measured counts
      experiment.check_tidy();
    }
  }
}

TEST_CASE("what the host cannot remove is said, stored and left to clean, and the experiment goes on") {
  Experiment experiment;
  experiment.host.plant_fault("remove", {.error = refused});
  experiment.run();
  CHECK(experiment.trial_statuses() == std::vector{Status::finished, Status::finished});
  CHECK(experiment.host.left() == std::set<std::string>{"network 1", "node 1"});
  const auto said = experiment.event(something_is_left);
  REQUIRE(said);
  CHECK(said->detail.dump() == R"({"left":["try it: refused"]})");
  CHECK(experiment.event("stage run")->detail.is_null());
}

TEST_CASE("a device that cannot be given back fails the experiment, whose trials are finished") {
  Experiment experiment;
  experiment.host.plant_fault("give_back", {.error = refused});
  experiment.run({{"devices", with_device}, {"cases", case_with_device}, {"pairs", "1"}});
  CHECK(experiment.trial_statuses() == std::vector{Status::finished});
  CHECK(experiment.outcome.failed == 1);
  CHECK(experiment.outcome.first_failure == "try it: refused");
  CHECK(experiment.status() == Status::failed);
}

TEST_CASE("counters that cannot be read cost telemetry, not the trial") {
  Experiment experiment;
  SECTION("while it runs: once, and nobody asks again") {
    experiment.host.plant_fault("counters", {.error = refused}, 2);
    experiment.run({{"workload", workload(110)}, {"pairs", "1"}});  // two looks, one a second
    CHECK(experiment.event("the host no longer sees into the node")->detail.dump() ==
          R"({"node":"vm-1","reason":"try it: refused"})");
    CHECK(experiment.host.calls("counters") == 3);
  }
  SECTION("at its end") {
    experiment.host.plant_fault("counters", {.error = refused}, 2);
    experiment.run({{"pairs", "1"}});
    CHECK(experiment.event("the nodes' counters could not be read at the end"));
  }
  CHECK(experiment.trial(1).status == Status::finished);
  experiment.check_tidy();
}

TEST_CASE("a lost node fails its trial while the host still looks for its counters") {
  Experiment experiment;
  experiment.host.plant_fault("counters", {.delay = 3s}, 2);              // asked for 1 s after the start
  experiment.host.plant_in_stream(1, "output", StreamFault::closes, 75);  // 1.5 s
  experiment.run({{"workload", workload(1000)}, {"pairs", "1"}});
  CHECK_THAT(experiment.trial(1).failure_reason, Contains("is lost"));
  CHECK(experiment.event("trial failed")->t_ns - experiment.event("stage run")->t_ns < 3'000'000'000);
  experiment.check_tidy();
}

TEST_CASE("a trial whose node is lost has the end of its console, which the host tells") {
  Experiment experiment;
  experiment.on_stage = [&](const std::string& stage, int) {
    if (stage == "run") { std::ofstream(experiment.folder.path / "vm-1.log") << "Kernel panic\n"; }
  };
  experiment.host.plant_in_stream(1, "output", StreamFault::closes, 3);
  SECTION("told") {
    experiment.run({{"pairs", "1"}});
    CHECK(experiment.trial(1).console_tail == "Kernel panic");
  }
  SECTION("the host fails to") {
    experiment.host.plant_fault("last_words", {.error = refused});
    experiment.run({{"pairs", "1"}});
    CHECK(experiment.trial(1).console_tail.empty());
  }
  CHECK_THAT(experiment.trial(1).failure_reason, Contains("is lost: its channel closed"));
  CHECK(experiment.host.calls("last_words") == 1);
  experiment.check_tidy();
}

TEST_CASE("a stop at any stage interrupts trial and experiment and leaves nothing") {
  const auto stage = GENERATE(as<std::string>{}, "image", "bind", "define", "boot", "agent", "place",
                              "barrier", "run", "collect");
  const auto signal_number = GENERATE(SIGINT, SIGTERM);
  Experiment experiment;
  experiment.on_stage = [&](const std::string& reached, int) {
    if (reached == stage) { ::kill(::getpid(), signal_number); }
  };
  experiment.run({{"devices", with_device}, {"cases", case_with_device}});
  CAPTURE(stage, signal_number);
  CHECK(experiment.outcome.stop_signal == signal_number);
  CHECK(experiment.status() == Status::interrupted);
  // What collect has stored is a result, whatever comes after.
  const auto status = experiment.trial(1).status;
  CHECK((status == Status::interrupted || (stage == "collect" && status == Status::finished)));
  CHECK(experiment.trial_statuses().size() == 1);
  experiment.check_tidy();
}

TEST_CASE("a stop ends a call of the host that would take for ever") {
  const auto method = GENERATE(as<std::string>{}, "make_image", "lend");
  Experiment experiment;
  experiment.host.plant_fault(method, {.until_cancelled = true});
  experiment.on_stage = [](const std::string& stage, int) {
    if (stage == "bind" || stage == "image") { ::kill(::getpid(), SIGINT); }
  };
  experiment.run({{"devices", with_device}, {"cases", case_with_device}});
  CHECK(experiment.status() == Status::interrupted);
  experiment.check_tidy();
}

TEST_CASE("a plan has time for the guest image unless the host has it now, whatever ran before") {
  const auto scenario = decode_scenario(scenario_text({}), "fake.yaml");
  const auto image_seconds = [&](FakeHost& host) {
    auto plan = make_plan(scenario, FakeHost::small_inventory(), false);
    const auto before = plan.likely.high;
    look_for_image(host, scenario, plan);
    CHECK(before - plan.likely.high == Approx(60 - plan.image.high));
    return plan.image.high;
  };
  Experiment experiment;
  CHECK(image_seconds(experiment.host) == 60);
  experiment.run();
  CHECK(image_seconds(experiment.host) == 0);
  experiment.host.plant_fault("has_image", {.error = Error("look", ErrorCode::not_found, "no agent")}, 0);
  CHECK(image_seconds(experiment.host) == 60);
}

TEST_CASE("busy resources are an error before anything is stored, or are waited for") {
  Experiment experiment;
  experiment.host.plant_fault("acquire",
                              {.error = Error("take cores", ErrorCode::busy, "somebody has them")});
  bool told = false;
  experiment.options.on_id = [&](const std::string&) { told = true; };
  SECTION("refused") {
    CHECK_THROWS_WITH(experiment.run(), "take cores: somebody has them");
    CHECK_FALSE(told);
    CHECK(results::Store(experiment.database()).list_experiments().empty());
  }
  SECTION("waited for") {
    experiment.options.wait = true;
    experiment.run({{"pairs", "1"}});
    CHECK(told);
    CHECK(experiment.host.calls("acquire") == 2);
    CHECK(experiment.trial_statuses() == std::vector{Status::finished});
  }
}

TEST_CASE("the first failed trial ends an experiment that is to fail fast") {
  Experiment experiment;
  experiment.options.fail_fast = true;
  experiment.host.plant_fault("start", {.error = refused});
  experiment.run();
  CHECK(experiment.trial_statuses() == std::vector{Status::failed});
  experiment.check_tidy();
}

TEST_CASE("a verdict ends the pairs of a case early") {
  Experiment experiment;
  experiment.run({{"arms", "[bare_metal, vm]"},
                  {"pairs", "{at_most: 20, until: verdict}"},
                  {"expect", "{vm_vs_bare_metal: {margin: 10%}}"}});
  REQUIRE(experiment.outcome.ended_early.size() == 1);
  CHECK_THAT(experiment.outcome.ended_early[0], Contains("one: "));
  CHECK(experiment.outcome.finished < 40);
  CHECK(experiment.event("no more pairs")->detail.at("case") == "one");
  experiment.check_tidy();
}

TEST_CASE("a VM that ends while it waits for its case's next trial is booted anew") {
  Experiment experiment;
  experiment.on_stage = [&](const std::string& stage, int trial) {
    // B V, V B, B V: on bare metal, while the VM of trials 2 and 3 waits for the sixth.
    if (trial == 4 && stage == "run") { experiment.host.kill(2); }
  };
  experiment.run({{"arms", "[bare_metal, vm]"}, {"pairs", "3"}, {"reuse", "case"}});
  CHECK(experiment.outcome.finished == 6);
  CHECK(experiment.event("a VM that was kept for this trial has ended, and another is booted"));
  CHECK(experiment.host.calls("start") == 3 + 2);
  experiment.check_tidy();
}

TEST_CASE("a kept VM goes when its case ends early, before the next case begins") {
  Experiment experiment;
  experiment.run({{"arms", "[bare_metal, vm]"},
                  {"cases", "[{name: one, tenants: [{nodes: 1}]}, {name: two, tenants: [{nodes: 1}]}]"},
                  {"pairs", "{at_most: 20, until: verdict}"},
                  {"reuse", "case"},
                  {"expect", "{vm_vs_bare_metal: {margin: 10%}}"}});
  CHECK(experiment.outcome.ended_early.size() == 2);
  const auto store = experiment.store();
  std::set<std::int64_t> of_second;
  for (const auto& trial : store.trials(experiment.outcome.experiment)) {
    if (trial.case_name == "two") { of_second.insert(trial.id); }
  }
  bool is_gone = false;
  for (const auto& event : store.events(experiment.outcome.experiment)) {
    is_gone = is_gone || (event.stage == "tear_down" && !event.trial);
    CHECK((is_gone || !event.trial || !of_second.contains(*event.trial)));
  }
  CHECK(is_gone);
  experiment.check_tidy();
}

TEST_CASE(
    "a link that is cut in any call keeps the trials that are finished and leaves nothing on the host") {
  // Of the second trial where a call is made in each.
  const std::map<std::string, int> calls{
      {"begin", 1},      {"acquire", 1},       {"make_image", 1}, {"lend", 2},           {"watch_devices", 2},
      {"plan_nodes", 2}, {"make_networks", 2}, {"start", 2},      {"check_topology", 2}, {"counters", 4},
      {"watched", 2},    {"remove", 2},        {"give_back", 1},  {"end_lending", 1}};
  for (const auto& [call, nth] : calls) {
    DYNAMIC_SECTION(call) {
      Experiment experiment;
      experiment.host.plant_fault(call, {.meanwhile = [&] { experiment.cut_link(); }}, nth);
      std::string words;
      experiment.options.on_id = [&](const std::string& id) { experiment.outcome.experiment = id; };
      try {
        experiment.run({{"devices", with_device}, {"cases", case_with_device}});
        words = experiment.outcome.first_failure;
      } catch (const Error& error) { words = error.what(); }
      CAPTURE(words);
      CHECK(experiment.host.calls(call) >= nth);
      CHECK(experiment.host.left() == std::set<std::string>{"run"});  // in the journal, for clean to mark it
      CHECK(experiment.host.ended().value_or(false) == false);
      if (!fs::exists(experiment.database())) { continue; }
      const auto statuses = experiment.trial_statuses();
      CHECK(std::ranges::count(statuses, Status::running) == 0);
      if (nth > 1) { CHECK(statuses.front() == Status::finished); }
    }
  }
}

TEST_CASE("a coordinator that is killed at any stage leaves a sound database and no agent") {
  const auto stage = GENERATE(as<std::string>{}, "image", "bind", "define", "boot", "agent", "place",
                              "barrier", "run", "collect");
  CAPTURE(stage);
  Experiment experiment;
  experiment.on_stage = [&](const std::string& reached, int trial) {
    if (reached == stage && trial == (stage == "image" ? 1 : 2)) { ::kill(::getpid(), SIGKILL); }
  };
  experiment.options.on_id = [&](const std::string& id) {
    std::ofstream(experiment.folder.path / "id") << id;
  };
  const pid_t child = ::fork();  // before there are threads
  if (child == 0) {
    experiment.run({{"devices", with_device}, {"cases", case_with_device}});
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  experiment.outcome.experiment = read_file(experiment.folder.path / "id").value();
  CHECK(test::comes_true([&] {
    return test::processes_with("VIRTRAIN_TEST_FOLDER=" + experiment.folder.path.string()).empty();
  }));
  CHECK(experiment.status() == Status::running);
  results::Store(experiment.database()).mark_interrupted(experiment.outcome.experiment);  // as clean does
  CHECK(experiment.status() == Status::interrupted);
  const auto ended = experiment.trial_statuses();
  CHECK(ended.back() == Status::interrupted);
  if (stage != "image") { CHECK(ended == std::vector{Status::finished, Status::interrupted}); }
}

}  // namespace virtrain::harness
