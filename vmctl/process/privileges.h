#pragma once

#include <string>

#include "common/enum_text.h"
#include "vmctl/api/host_mode.h"

namespace virtrain::vmctl {

using virtrain::to_string;

/// Tried once for each process.
const Privileges& try_privileges();

}  // namespace virtrain::vmctl
