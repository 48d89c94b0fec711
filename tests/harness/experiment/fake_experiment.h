#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/experiment/experiment.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "results/store/store.h"
#include "tests/support/catch.h"
#include "tests/support/fake_host.h"
#include "tests/support/framed_host.h"
#include "tests/support/temporary_folder.h"

// Whole experiments on a FakeHost.

namespace virtrain::harness {

inline const std::filesystem::path build = VIRTRAIN_BINARY_DIR;
/// How long a step of a trainer takes.
inline constexpr const char* step_seconds = "0.02";

/// A scenario of one node; `more` are further lines, or other values of these keys.
inline std::string scenario_text(const std::map<std::string, std::string>& more) {
  std::map<std::string, std::string> keys{
      {"name", "fake"},
      {"workload", "{batch_size: 4, image_size: 32, warmup_steps: 0, steps: 4, display_every: 1}"},
      {"guest", "{vcpus: 1, memory: 512MiB}"},
      {"cases", "[{name: one, tenants: [{nodes: 1}]}]"},
      {"arms", "[vm]"},
      {"pairs", "2"}};
  for (const auto& [key, value] : more) { keys[key] = value; }
  std::string text;
  for (const auto& [key, value] : keys) { text.append(key).append(": ").append(value).append("\n"); }
  return text;
}

/// One experiment in a folder of its own.
class Experiment {
 public:
  const TemporaryFolder folder;
  test::FakeHost host{folder.path,
                      build / "virtrain-agent",
                      {{"virtrain-resnet50-cpu", build / "fault-kit/virtrain-resnet50-cpu"}}};
  ExperimentOptions options;
  ExperimentOutcome outcome;
  /// Told of each stage of each trial, "run" of the second one as ("run", 2).
  std::function<void(const std::string& stage, int trial)> on_stage;
  /// Of the running experiment: coordinator and host see the other one go.
  std::function<void()> cut_link;

  void run(const std::map<std::string, std::string>& scenario = {}) {
    // The agents' environment, and so the trainers'.
    ::setenv("STEP_SECONDS", step_seconds, 1);
    ::setenv("VIRTRAIN_TEST_FOLDER", folder.path.c_str(), 1);
    const auto decoded = decode_scenario(scenario_text(scenario), "fake.yaml");
    const auto plan = make_plan(decoded, host.inventory(false), false);
    options.progress = [this](const Progress& progress) {
      if (on_stage) { on_stage(progress.now, std::stoi(progress.trial.substr(1))); }
    };
    test::FramedHost framed(host);
    cut_link = [&framed] { framed.server().stop("the link was cut"); };
    RunHosts hosts(framed.client());
    outcome = run_experiment(hosts, decoded, plan, database(), options);
  }
  std::filesystem::path database() const { return folder.path / "results.db"; }

  results::Store store() const { return results::Store(database(), results::Store::Mode::open); }
  results::Trial trial(std::size_t n) const { return store().trials(outcome.experiment).at(n - 1); }
  Status status() const { return store().experiment(outcome.experiment)->status; }
  std::vector<Status> trial_statuses() const {
    std::vector<Status> statuses;
    for (const auto& trial : store().trials(outcome.experiment)) { statuses.push_back(trial.status); }
    return statuses;
  }
  /// The first event with this message.
  std::optional<results::Event> event(const std::string& message) const {
    for (auto& event : store().events(outcome.experiment)) {
      if (event.message == message) { return std::move(event); }
    }
    return std::nullopt;
  }
  /// Nothing is left on the host, and the database has the end of the run.
  void check_tidy() const {
    CHECK(host.left().empty());
    CHECK(host.ended() == true);
  }
};

}  // namespace virtrain::harness
