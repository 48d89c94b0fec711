#pragma once

#include <string>

#include "common/enum_text.h"
#include "vmctl/api/host_mode.h"

namespace virtrain::vmctl {

using virtrain::to_string;

/// Tried once for each process.
const Privileges& try_privileges();

/// Why root cannot run what it starts as another user, found out by trying; empty: it can.
std::string try_other_user();

}  // namespace virtrain::vmctl
