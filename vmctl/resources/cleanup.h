#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "vmctl/hypervisor/hypervisor.h"
#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// Something on this host that looks like virtrain's.
struct Leftover {
  EffectKind kind = EffectKind::file;
  std::string name;                   ///< domain, network, device, namespace, path, or pid
  std::string experiment;             ///< empty where it cannot be known
  std::string detail;                 ///< for people: how it was recognised
  std::optional<Effect> effect = {};  ///< of a device: how it is put back
  std::uint64_t start_time = 0;       ///< of a process: its number may be another's by the time it is removed
};

struct CleanupView {
  std::vector<Leftover> leftovers;  ///< ours, and no live owner: in the order in which to remove them
  std::vector<Leftover> in_use;     ///< ours, held by a live owner
  std::vector<Leftover> foreign;    ///< named like ours or near, but not ours: never touched
  std::vector<Owner> dead_owners;   ///< whose experiments are to be marked interrupted
};

/// Who cleans. Journals are a user's own while libvirt's system instance and /proc are everybody's, so an
/// experiment that the journal does not know may be somebody else's and alive.
struct Caller {
  uid_t user = 0;
  std::set<uid_t> other_harnesses;  ///< users other than root and the caller of whom a virtrain lives
  bool own_libvirt = false;         ///< the libvirt that is looked at serves only this user (qemu:///session)
};

/// This process's user, on a libvirt for all.
Caller this_caller();

/// Why something of an experiment that the caller's journal does not know is left alone; empty: nobody living
/// can own it. `holder`: whose it is; nothing where libvirt's system instance holds it for whoever asked.
std::string reason_to_leave(const Caller& caller, std::optional<uid_t> holder);

/// Looks at libvirt (null: skipped), ip, /proc, cgroups, files and the journal (null or deleted: the host
/// decides). What may be another user's is foreign.
CleanupView find_leftovers(Hypervisor* hypervisor, const LeaseJournal* journal,
                           const Caller& caller = this_caller());

struct CleanupResult {
  std::vector<Leftover> removed;
  std::vector<std::pair<Leftover, std::string>> failed;  ///< with the reason
};

/// Marks an experiment interrupted in its results database (empty: the journal is lost, nobody knows it).
/// False: it still has to be marked.
using MarkInterrupted = std::function<bool(const std::string& database, const std::string& experiment)>;

/// Removes the leftovers of `view`, has the dead owners' experiments marked, and forgets in the journal the
/// owners of whom nothing is left to remove or mark. Idempotent.
CleanupResult clean(const CleanupView& view, Hypervisor* hypervisor, LeaseJournal* journal,
                    const MarkInterrupted& mark = {});

}  // namespace virtrain::vmctl
