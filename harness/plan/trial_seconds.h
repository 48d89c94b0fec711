#pragma once

#include <string>

#include "harness/plan/placement.h"

namespace virtrain::harness {

/// Between which times something will most likely take.
struct SecondsRange {
  double low = 0, high = 0;

  SecondsRange& operator+=(const SecondsRange& other) {
    low += other.low;
    high += other.high;
    return *this;
  }
};

/// "20 s", "1 to 9 min", "50 s to 4 min", "2 to 5 h": as exact as a guess is.
std::string to_words(const SecondsRange& range);

/// The range of an estimate where nothing is known of this host's speed.
SecondsRange unproven(double estimate_seconds, bool vm, bool emulated);
/// The range of a time that such a trial took here before.
SecondsRange proven(double seconds);

/// About how long a trial takes, from making its nodes to removing them: by rates that were seen, and by what
/// a neighbour takes of the victim's cores. `vm`: its nodes are VMs; `emulated`: those are.
double trial_seconds(const Placement& placement, bool vm, bool emulated);
/// The part that a trial saves whose nodes are there already.
double boot_seconds(const Placement& placement, bool vm, bool emulated);

}  // namespace virtrain::harness
