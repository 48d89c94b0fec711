#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "harness/plan/plan.h"
#include "results/store/store.h"
#include "vmctl/api/host.h"

namespace virtrain::harness {

/// The present work of an experiment, for people who wait.
struct Progress {
  std::string trial;            ///< "[3/6] weak-scaling/2 vm, pair 1"
  std::string now;              ///< a stage, "boot", or "step 3 of 20, 12.4 images/s"
  std::int64_t began_ns = 0;    ///< of the experiment, monotonic
  std::int64_t at_ns = 0;       ///< when this was said
  SecondsRange left_then = {};  ///< a verdict may come sooner
};

/// "[3/6] two-nodes vm, pair 1: booting (1:12, 4 to 9 min left)", in at most so many columns: clauses that
/// find no room are left out, none is cut.
std::string progress_words(const Progress& progress, std::int64_t now_ns, std::size_t columns);

/// Durations of this scenario's trials on this host, from its newest experiments in the database. Another
/// text of it is another work.
PastTrials past_trials(const results::Store& store, const Scenario& scenario, const std::string& host);

/// Leaves the time for the guest image out of the plan where the host has the image in its cache. A run with
/// probes of security makes one of its own.
void look_for_image(vmctl::HostLooks& host, const Scenario& scenario, Plan& plan);

/// How long the rest of a plan takes: its estimates, corrected by what trials of the same arm took; where
/// none of it has run, of arms that run in VMs or on bare metal as it does.
class RemainingTime {
 public:
  explicit RemainingTime(const Plan& plan) : plan_(plan), image_(plan.image) {}

  /// The guest image is there, which no trial's time has in it.
  void has_image() { image_ = {}; }
  void finished(const PlannedTrial& trial, double seconds);
  /// Time for the rest of the present trial, `elapsed_seconds` after its start, and for all that come after
  /// it.
  SecondsRange seconds_left(const PlannedTrial& present, double elapsed_seconds) const;

 private:
  struct Sum {
    double taken = 0, estimated = 0;
    double factor() const { return estimated > 0 ? taken / estimated : 1; }
  };
  SecondsRange expected_seconds(const PlannedTrial& trial) const;

  const Plan& plan_;
  SecondsRange image_;
  std::map<bool, Sum> by_kind_;  ///< of trials in VMs, and of others
  std::map<std::string, Sum> by_arm_;
};

}  // namespace virtrain::harness
