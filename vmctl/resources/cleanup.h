#pragma once

#include <string>
#include <utility>
#include <vector>

#include "vmctl/api/leftover.h"
#include "vmctl/resources/leftovers.h"

namespace virtrain::vmctl {

struct CleanupResult {
  std::vector<Leftover> removed;
  std::vector<std::pair<Leftover, std::string>> failed;  ///< with the reason
};

/// Undoes one effect of the journal and forgets it, else puts its device into quarantine and throws.
void undo_and_forget(LeaseJournal& journal, const Effect& effect);

/// Removes the leftovers of `view`, has the dead owners' experiments marked, and forgets in the journal the
/// owners of whom nothing is left to remove or mark. Idempotent.
CleanupResult clean(const CleanupView& view, Hypervisor* hypervisor, LeaseJournal* journal,
                    const MarkInterrupted& mark = {});

}  // namespace virtrain::vmctl
