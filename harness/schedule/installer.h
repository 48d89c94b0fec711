#pragma once

#include <filesystem>
#include <map>
#include <memory>
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

/// Installs what starts schedules on this host: timers of systemd or lines of cron.
class Installer {
 public:
  virtual ~Installer() = default;
  virtual std::string name() const = 0;  ///< "systemd", "systemd (user)" or "cron"
  /// Puts the schedule's timer or line in place of its last one. Throws Error; then all is as before.
  virtual void install(const Schedule& schedule, const std::filesystem::path& program,
                       const Environment& environment) = 0;
  /// Takes it away; false where it is not there. Error(host_unable) where it is there and stays, as what
  /// runs it cannot be reached.
  virtual bool remove(const std::string& schedule) = 0;
};

/// Variables of this process that say where schedules, leases and images lie: neither systemd nor cron has
/// them from the shell in which a schedule is added.
Environment folder_variables();

/// systemd with its units in `folder`; `system`: the system's manager, else the user's.
std::unique_ptr<Installer> systemd_installer(const std::filesystem::path& folder, bool system,
                                             bool is_reachable = true);

/// systemd where it runs (the system's manager for root, else the user's), else cron. Error(host_unable)
/// without both.
std::unique_ptr<Installer> find_installer();

/// Takes a schedule's timer or line away, whichever is there: what starts schedules may have changed since it
/// was added. Error where that cannot be done or cannot be known.
void remove_timer(const std::string& schedule);
/// The same where systemd's units are those of `systemd`.
void remove_timer(const std::string& schedule, Installer& systemd);

}  // namespace virtrain::harness
