#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vmctl/hypervisor.h"
#include "vmctl/leases.h"

namespace virtrain::vmctl {

/// Something on this host that looks like virtrain's.
struct Leftover {
  EffectKind kind = EffectKind::file;
  std::string name;                   ///< domain, network, device, namespace, path, or pid
  std::string experiment;             ///< empty where it cannot be known
  std::string detail;                 ///< for people: how it was recognised
  std::optional<Effect> effect = {};  ///< of a device: how it is put back
};

struct CleanupView {
  std::vector<Leftover> leftovers;  ///< ours, and no live owner: in the order in which to remove them
  std::vector<Leftover> in_use;     ///< ours, held by a live owner
  std::vector<Leftover> foreign;    ///< named like ours or near, but not ours: never touched
  std::vector<Owner> dead_owners;   ///< whose experiments are to be marked interrupted
};

/// Looks at libvirt (null: skipped), ip, /proc, cgroups, files and the journal (null or deleted: the host
/// decides).
CleanupView find_leftovers(Hypervisor* hypervisor, const LeaseJournal* journal);

struct CleanupResult {
  std::vector<Leftover> removed;
  std::vector<std::pair<Leftover, std::string>> failed;  ///< with the reason
  std::vector<std::pair<std::string, std::string>>
      interrupted_experiments;  ///< (results database, experiment)
};

/// Removes the leftovers of `view` and forgets dead owners in the journal. Idempotent.
CleanupResult clean(const CleanupView& view, Hypervisor* hypervisor, LeaseJournal* journal);

}  // namespace virtrain::vmctl
