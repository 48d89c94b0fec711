#pragma once

#include "harness/plan/placement.h"

namespace virtrain::harness {

/// About how long a trial takes, from making its nodes to removing them: by rates that were seen, and by what
/// a neighbour takes of the victim's cores. `vm`: its nodes are VMs; `emulated`: those are.
double trial_seconds(const Placement& placement, bool vm, bool emulated);
/// The part that a trial saves whose nodes are there already.
double boot_seconds(const Placement& placement, bool vm, bool emulated);

}  // namespace virtrain::harness
