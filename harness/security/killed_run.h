#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/text/canary.h"
#include "harness/security/canary_tool.h"
#include "vmctl/api/host.h"

// A run that fills the device that it has lent and is killed (kill -9) then, VM and all: what it leaves in
// the device is for the next run to find.

namespace virtrain::harness {

/// How that went.
struct KilledRun {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, experiment, {}, .text = "Its id");
  VIRTRAIN_FIELD(std::string, device, {}, .text = "Address of the device");
  VIRTRAIN_FIELD(Canary, canary, {}, .text = "What the device was filled with");
  canary::Filled filled = {};
  VIRTRAIN_FIELD(std::string, lacks, {},
                 .text = "Why it could not fill the device: nothing is left to be found");
  std::string failure = {};  ///< why it did not come to that
};

/// Options of a run's leak searches beyond their plan.
struct SecurityOptions {
  /// The run before this one, on the same device.
  std::optional<KilledRun> killed = {};
  /// Only what tenants leave in devices.
  bool devices_only = false;
  /// Set in the run that is to be killed: it does nothing but fill the device and tell so, while its VM runs.
  std::function<void(const KilledRun& filled)> filled = {};
};

/// For SecurityOptions::filled: tells kill_a_run(), by a line that `print` puts on stdout, and ends this
/// process by SIGKILL, or goes on where nothing was filled. When the process that is told ends first, this
/// one is told to stop.
std::function<void(const KilledRun&)> tell_and_die(std::function<void(const std::string& text)> print);

/// Runs the command, whose SecurityOptions::filled is tell_and_die(), and removes what it left as
/// `virtrain clean` does. What went wrong is said in what is returned.
KilledRun kill_a_run(vmctl::HostLending& host, const std::vector<std::string>& command);

/// The line that is told, and back. Throws Error(trial_failed) for what is none.
std::string line_of(const KilledRun& run);
KilledRun parse_killed_run(const std::string& lines);

}  // namespace virtrain::harness
