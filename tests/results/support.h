#pragma once

#include <filesystem>
#include <string>

#include "common/error.h"
#include "results/store/store.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::results {

/// The Error that the function throws; fails the test if it throws none.
template <typename Work>
Error error_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) { return error; }
  FAIL("no Error was thrown");
  return {"", ErrorCode::io, ""};
}

inline Experiment an_experiment(const std::string& id) {
  Experiment experiment;
  experiment.id = id;
  experiment.scenario = "quickstart";
  experiment.started_at = "2026-11-20T08:00:00.000Z";
  return experiment;
}

inline Throughput of_images(double per_second) {
  return {per_second};
}

inline Trial a_trial(const std::string& experiment, const std::string& case_name, const std::string& arm,
                     std::optional<std::int64_t> pair) {
  Trial trial;
  trial.experiment = experiment;
  trial.case_name = case_name;
  trial.arm = arm;
  trial.pair = pair;
  return trial;
}

/// Inserts a finished trial as an import would.
inline std::int64_t add_finished(Store& store, const std::string& experiment, const std::string& case_name,
                                 const std::string& arm, std::optional<std::int64_t> pair,
                                 double images_per_second, std::int64_t nodes = 1,
                                 const std::string& of_vms = "kvm") {
  Trial trial = a_trial(experiment, case_name, arm, pair);
  trial.status = Status::finished;
  trial.throughput = of_images(images_per_second);
  trial.nodes = nodes;
  trial.virtualization = arm.starts_with("vm") ? of_vms : "none";
  const auto id = store.import_trial(trial);
  store.read_old_names(id);
  return id;
}

}  // namespace virtrain::results
