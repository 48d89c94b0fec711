#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "harness/experiment/progress.h"
#include "harness/hosts/run_hosts.h"
#include "harness/security/killed_run.h"
#include "harness/trial/run_context.h"

namespace virtrain::harness {

/// How long a run waits for others that write to its database. Shorter than systemd waits for a run that it
/// stops (harness/schedule/installer.cpp).
inline constexpr std::chrono::minutes longest_database_wait{2};

/// Why the database takes no such label of an experiment; empty: it takes it.
std::string label_fault(const std::string& label);

struct ExperimentOptions {
  std::string label;
  vmctl::HostMode mode = vmctl::HostMode::system;
  std::string command_line;
  bool fail_fast = false;  ///< the first failed trial ends the experiment
  /// False: of this host only what the scenario asks for is changed; /dev/kvm stays as it is, no libvirt
  /// daemon is started and no service is stopped.
  bool may_change_host = true;
  bool wait = false;  ///< wait for busy cores and devices instead of Error(busy)
  SecurityOptions security = {};
  std::function<void(const std::string& experiment)> on_id;  ///< told before anything else happens
  std::function<void(const Progress& progress)> progress;
};

struct ExperimentOutcome {
  std::string experiment;
  std::int64_t finished = 0, failed = 0;
  std::int64_t invalid = 0;             ///< of the finished ones: they do not count
  int stop_signal = 0;                  ///< SIGINT, SIGTERM or SIGHUP if it was stopped
  std::optional<ErrorCode> aborted_by;  ///< a failure no further trial could survive (the database, the host)
  std::string first_failure;            ///< in words, for the summary
  std::vector<std::string> ended_early;  ///< "two: 4 pairs are enough for a verdict", by case
};

/// Runs all trials of a plan, stores everything, and leaves nothing behind. Called on the thread that runs
/// `io`; returns when all is torn down. Throws Error only before anything was stored (busy, database).
ExperimentOutcome run_experiment(RunHosts& hosts, const Scenario& scenario, const Plan& plan,
                                 const std::filesystem::path& database, const ExperimentOptions& options);

}  // namespace virtrain::harness
