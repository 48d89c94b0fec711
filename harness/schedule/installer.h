#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "harness/schedule/schedule.h"
#include "harness/schedule/timer.h"

namespace virtrain::harness {

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
