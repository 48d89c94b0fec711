#pragma once

#include "harness/schedule/schedule.h"

namespace virtrain::harness {

/// One night of a schedule: cleans up after killed ones, runs the scenario while patience lasts, prints,
/// tells and publishes what changed, thins old nights. Returns the night's exit status; Error where it is
/// refused. `quiet`, for cron, which mails whatever is printed: a night that is done or not tonight prints
/// nothing, and each change is printed once, if there is no other way to tell of it.
int run_night(const Schedule& schedule, bool quiet);

}  // namespace virtrain::harness
