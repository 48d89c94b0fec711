#pragma once

#include "common/files/unique_fd.h"
#include "harness/schedule/schedule.h"

namespace virtrain::harness {

/// One night of a schedule: cleans up after killed ones, runs the scenario while patience lasts, prints,
/// tells and publishes what changed, thins old nights. Returns the night's exit status; Error where it is
/// refused. `quiet`, for cron, which mails whatever is printed: a night that is done or not tonight prints
/// nothing, and each change is printed once, if there is no other way to tell of it. SIGINT, SIGTERM and
/// SIGHUP go on to the run, whose tear-down is waited for: 128 + signal. The run holds the schedule's `lock`
/// as well, so that no other night begins beside one whose own process was killed.
int run_night(const Schedule& schedule, bool quiet, const UniqueFd& lock);

}  // namespace virtrain::harness
