#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>

namespace virtrain::vmctl {

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

/// Whose a thing of this user is: libvirt's system instance runs QEMU as an account of its own for whoever
/// asked.
std::optional<uid_t> holder_of(std::optional<uid_t> user);

}  // namespace virtrain::vmctl
