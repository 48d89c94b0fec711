#pragma once

#include "workloads/stress/flags.h"

namespace virtrain::stress {

/// hello, ready, "go", then the load with a record "progress" every second, until its time is over, "stop",
/// the end of standard input (only without --seconds), SIGTERM or SIGINT; then "result". Of several ranks,
/// rank 0 reads and writes for all. Returns the exit status; throws Error where there is no load to begin
/// with.
int run(const Flags& flags);

}  // namespace virtrain::stress
