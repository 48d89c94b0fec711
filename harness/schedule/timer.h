#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "harness/schedule/schedule.h"

namespace virtrain::harness {

// Timers of schedules, as text. Pure. Throws Error(usage) for what neither systemd nor cron can be told.

/// Variables that a schedule's run needs as they were when it was added, by name.
using Environment = std::map<std::string, std::string>;

/// Name of its units without suffix: "virtrain-nightly".
std::string unit_name(const std::string& schedule);
/// The systemd service that runs it once. `system`: for the system's manager, else for a user's.
std::string service_unit(const Schedule& schedule, const std::filesystem::path& program, bool system,
                         const Environment& environment = {});
/// The timer that starts the service: also after a night that the machine was off, and spread over five
/// minutes.
std::string timer_unit(const Schedule& schedule);

/// The crontab with the schedule's line in it. All other lines stay byte for byte; the schedule's own line,
/// known by the mark at its end, is replaced.
std::string crontab_with(const std::string& crontab, const Schedule& schedule,
                         const std::filesystem::path& program, const Environment& environment = {});
/// The crontab without the schedule's line.
std::string crontab_without(const std::string& crontab, const std::string& name);

}  // namespace virtrain::harness
