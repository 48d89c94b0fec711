#pragma once

#include "workloads/stress/flags.h"

namespace virtrain::stress {

/// hello, ready, "go", then the load with a record "progress" every second, until its time is over, "stop",
/// the end of standard input (only without --seconds), SIGTERM or SIGINT; then "result". Throws Error.
void run(const Flags& flags);

}  // namespace virtrain::stress
