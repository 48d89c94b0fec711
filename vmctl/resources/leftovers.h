#pragma once

#include "vmctl/hypervisor/hypervisor.h"
#include "vmctl/resources/kind/caller.h"
#include "vmctl/resources/kind/leftover.h"

namespace virtrain::vmctl {

/// Looks at libvirt (null: skipped), ip, /proc, cgroups, files and the journal (null or deleted: the host
/// decides). What may be another user's is foreign.
CleanupView find_leftovers(Hypervisor* hypervisor, const LeaseJournal* journal,
                           const Caller& caller = this_caller());

}  // namespace virtrain::vmctl
