#pragma once

#include <string>
#include <utility>
#include <vector>

#include "vmctl/api/leftover.h"
#include "vmctl/hypervisor/hypervisor.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"

namespace virtrain::vmctl {

/// Looks at libvirt (null: skipped), ip, /proc, cgroups, files and the journal (null or deleted: the host
/// decides). What may be another user's is foreign.
CleanupView find_leftovers(Hypervisor* hypervisor, const LeaseJournal* journal,
                           const Caller& caller = this_caller());

struct CleanupResult {
  std::vector<Leftover> removed;
  std::vector<std::pair<Leftover, std::string>> failed;  ///< with the reason
  std::vector<DeadRun> dead;                             ///< whose experiments are to be marked
  std::vector<Owner> forgettable;                        ///< dead owners of whom nothing is left to remove
};

/// Undoes one effect of the journal and forgets it, else puts its device into quarantine and throws.
void undo_and_forget(LeaseJournal& journal, const Effect& effect);

/// Removes the leftovers of `view`. Idempotent. Their owners stay in the journal until their experiments are
/// marked: a forgotten owner's experiment would read "running" for ever.
CleanupResult clean(const CleanupView& view, Hypervisor* hypervisor, LeaseJournal* journal);

}  // namespace virtrain::vmctl
