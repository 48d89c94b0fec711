#pragma once

#include "harness/agent/messages.h"

namespace virtrain::harness {

/// Hardware and networks of this machine as they look to a process in it; what it does not show is absent.
message::Machine machine_report();

}  // namespace virtrain::harness
