#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/experiment/experiment.h"
#include "harness/hosts/elevation.h"
#include "results/comparison/compare.h"

namespace virtrain::harness {

/// Corrects a plan's estimates by the trials that the database has of its scenario on this host; of one that
/// cannot be read nothing is learnt.
void learn_from(const std::filesystem::path& database, const Scenario& scenario, const std::string& host,
                Plan& plan);

/// How a scenario is run from the command line.
struct RunOptions {
  std::filesystem::path database;
  ExperimentOptions experiment;
  std::optional<vmctl::HostMode> mode;      ///< nothing: the best that works
  std::optional<Elevation> elevation = {};  ///< nothing: the best that works
  bool skip_unreachable = false;            ///< of the scenario's hosts
  bool quiet = false;                       ///< no progress line, and no id on stderr
  std::string resumed = {};                 ///< experiment of which the rest is run; empty: none
  PairsDone done = {};                      ///< its pairs that need no trial any more
  /// Told what is to be run before anything is done.
  std::function<void(vmctl::Host& host, const Plan& plan)> planned = {};
  bool security_only = false;  ///< no trials; arms that this host cannot do have probes that are not possible
};

/// Results of a run, read back from the database.
struct ScenarioRun {
  ExperimentOutcome outcome;
  results::CompareRequest request;                   ///< that gives `comparisons`
  std::vector<results::CaseComparison> comparisons;  ///< empty where no trial finished
  std::string summary;                               ///< one line
};

/// --privileges.
void add_privileges_option(CLI::App& verb, std::optional<Elevation>& elevation);

/// --mode, --connect, --privileges, --wait and --no-host-changes.
void add_host_options(CLI::App& verb, RunOptions& options);

/// Plans for this host and runs; unless `quiet`, the experiment's id is the first line on stderr and progress
/// shows on a terminal. Error(host_unable) before anything is done where this host cannot.
ScenarioRun run_scenario(const Scenario& scenario, RunOptions& options);

/// Calls `work`, which reads and prints the results of a run. Where the run itself was stopped or failed,
/// that decides the exit status, and an Error of `work` is only logged; else it is thrown, but never as busy.
void after_run(const ExperimentOutcome& outcome, const std::function<void()>& work);

/// A terminal that was closed or a reader that has gone must not decide how an experiment ends, so what
/// cannot be written is left out, and at the end said in the log.
void print_result(const std::string& text);

}  // namespace virtrain::harness
