// Estimates of trials with neighbours, against what was measured.

#include "harness/plan/trial_seconds.h"

#include <algorithm>

#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;

namespace {

const std::string scenarios = std::string(VIRTRAIN_SOURCE_DIR) + "/scenarios/";

/// A host of one socket without SMT.
vmctl::Inventory cores(int count) {
  vmctl::Inventory inventory;
  inventory.hostname = "host";
  for (int core = 0; core < count; ++core) { inventory.cores.push_back({core, 0, core, -1}); }
  inventory.numa_nodes = {{0, 16ULL << 30, 0, 0}};
  inventory.memory_bytes = inventory.available_memory_bytes = 16ULL << 30;
  return inventory;
}

Scenario beside_neighbours(const std::string& more) {
  return decode_scenario(
      "name: isolated\nworkload: {backend: cpu}\nguest: {memory: 1GiB, vcpus: 1}\nisolation:\n"
      "  victims: [{name: trainer, nodes: 1}]\n  aggressors: [cpu, net]\n  levels: [25%, 100%]\n" +
          more + "arms: [vm]\npairs: 3\n",
      "isolated.yaml");
}

}  // namespace

TEST_CASE("the estimate knows that a neighbour on the victim's core takes its share, and boots there") {
  const auto seconds = [](const std::string& arm, const std::string& more = "  share: core\n") {
    const auto plan = make_plan(beside_neighbours(more), cores(4), true);
    const auto found = std::find_if(plan.trials.begin(), plan.trials.end(),
                                    [&](const PlannedTrial& trial) { return trial.arm == arm; });
    REQUIRE(found != plan.trials.end());
    return found->estimate_seconds;
  };
  CHECK(seconds("vm") < seconds("vm+idle"));
  CHECK(seconds("vm+idle") < seconds("vm+cpu@25%"));
  CHECK(seconds("vm+cpu@25%") < seconds("vm+cpu@100%"));
  CHECK(seconds("vm+cpu@100%") < seconds("vm+net@100%"));  // its second node is there, too
  const std::string apart = "  share: host\n";
  CHECK(seconds("vm", apart) == seconds("vm"));
  CHECK(seconds("vm+idle", apart) == seconds("vm", apart));
  CHECK(seconds("vm+cpu@100%", apart) == seconds("vm+cpu@25%", apart));
  // Later steps are taken without the aggressor.
  const double alone = seconds("vm"), beside = seconds("vm+cpu@100%");
  CHECK(seconds("vm", "  share: core\n  recovery_steps: 10\n") == alone);
  CHECK(seconds("vm+cpu@100%", "  share: core\n  recovery_steps: 10\n") > beside);
}

TEST_CASE("the estimate is by the pixels of images, and by the cores that a rank has") {
  const auto seconds = [](const std::string& workload, const std::string& guest) {
    const auto scenario =
        decode_scenario("name: long\nworkload: {image_size: 64, steps: 100000, batch_size: 4, " + workload +
                            "}\nguest: {memory: 1GiB, " + guest +
                            "}\ncases: [{name: a, tenants: [{nodes: 1}]}]\narms: [vm]\n",
                        "long.yaml");
    return trial_seconds(make_plan(scenario, cores(4), false).placements.at(0), true, false);
  };
  const double plain = seconds("backend: cpu", "vcpus: 2");
  CHECK(seconds("backend: cpu, threads: 64", "vcpus: 2") == Approx(plain));
  CHECK(seconds("backend: cpu, threads: 1", "vcpus: 2") / plain == Approx(2).epsilon(0.05));
  CHECK(seconds("backend: cpu", "vcpus: 2, limits: {cpu: 50%}") / plain == Approx(2).epsilon(0.05));
  // Of a GPU, which this host lacks: 224 px against twice as many each way.
  auto gpu = decode_scenario(
      "name: gpu\nworkload: {backend: cpu, image_size: 224, steps: 100000, batch_size: 4}\n"
      "guest: {memory: 1GiB, vcpus: 2}\ncases: [{name: a, tenants: [{nodes: 1}]}]\narms: [vm]\n",
      "gpu.yaml");
  auto placement = make_plan(gpu, cores(4), false).placements.at(0);
  placement.tenants[0].workload.backend = Backend::cuda;
  const double at_224 = trial_seconds(placement, true, false);
  placement.tenants[0].workload.image_size = 448;
  CHECK(trial_seconds(placement, true, false) / at_224 == Approx(4).epsilon(0.05));
}

TEST_CASE("the shipped matrices of a host without KVM take what their files say") {
  const auto minutes = [](const Scenario& scenario) {
    return make_plan(scenario, cores(2), true).estimate_seconds / 60;
  };
  const auto whole = load_scenario(scenarios + "isolation-cpu.yaml");
  CHECK(minutes(whole) < 30);
  CHECK(minutes(load_scenario(scenarios + "isolation-cpu-small.yaml")) < 5);
  // As it was on 2026-11-23: 36 trials in 29 min 37 s, with other work beside it.
  auto text = whole.text;
  const auto replace = [&](const std::string& from, const std::string& to) {
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
  };
  replace("warmup_steps: 0, steps: 2}", "warmup_steps: 1, steps: 5}");
  replace("membw, disk, net", "membw, net");
  CHECK(minutes(decode_scenario(text, "isolation-cpu.yaml")) == Approx(29.6).epsilon(0.1));
}
