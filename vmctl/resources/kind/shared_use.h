#pragma once

#include <string>

#include "common/files/unique_fd.h"

namespace virtrain::vmctl {

/// An effect that serves all runs of this user on this host at once (a service that is kept away, /dev/kvm
/// open) is undone by the last of them, whichever has made it. Locks show the others, whatever state folder
/// each journals in; `clean` undoes effects from another folder's journal.

/// While it lives, no other run undoes that. Error(busy) where somebody undoes it for longer than some
/// seconds.
UniqueFd use_shared(const std::string& name);
/// While it lives, no run begins to use that; nothing where one does.
UniqueFd try_keep_unused(const std::string& name);

}  // namespace virtrain::vmctl
