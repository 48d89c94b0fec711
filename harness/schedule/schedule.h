#pragma once

#include <boost/describe/class.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/files/unique_fd.h"

namespace virtrain::harness {

/// A scenario that runs by itself. Described are the keys of its file.
struct Schedule {
  std::string name = {};
  std::string scenario = {};          ///< absolute path
  std::string at = {};                ///< "02:00", local time
  std::string days = {};              ///< "mon,tue"; empty: every day
  std::string database = {};          ///< absolute path
  std::int64_t patience_seconds = 0;  ///< how long busy devices are waited for
  std::string notify = {};            ///< a command of the user's that reads one message as JSON; empty: none
  std::string webhook_file = {};      ///< absolute path of what read_webhook() reads; empty: none
  std::string mail = {};              ///< address that sendmail hands messages to; empty: none
  std::int64_t keep_days = 0;         ///< older nights lose samples and telemetry; 0: none does
  std::string label_command = {};     ///< a command of the user's that prints each night's label; empty: none
  std::string textfile = {};          ///< absolute path of a file for Prometheus; empty: none
  std::string site = {};              ///< absolute path of a folder with pages on the nights; empty: none
  bool no_timer = false;              ///< the user's own means start its nights
};
BOOST_DESCRIBE_STRUCT(Schedule, (),
                      (name, scenario, at, days, database, patience_seconds, notify, webhook_file, mail,
                       keep_days, label_command, textfile, site, no_timer))

/// How its last run ended. Described are the keys of its file.
struct LastRun {
  std::string started_at = {};
  std::string ended_at = {};  ///< empty: it runs, or was killed
  std::int64_t exit_status = 0;
  bool had_database = false;  ///< it or an earlier run has stored something
};
BOOST_DESCRIBE_STRUCT(LastRun, (), (started_at, ended_at, exit_status, had_database))

/// Checks and normalizes "2:00", "Mon-Fri" or "sat,sun", and a name. Error(usage) with what is allowed.
std::string time_of_day(const std::string& text);
std::string days_of_week(const std::string& text);
void require_schedule_name(const std::string& name);
/// "400d": 7 to 36500 days. Error(usage).
std::int64_t days_to_keep(const std::string& text);
/// The label in what a command printed: its first line, by the rules of `run --label`. Error(bad_input) where
/// that is none.
std::string label_in(const std::string& output);

/// The next start after `now` in the machine's time zone. A time that the clock leaps over is that hour
/// later, as systemd and cron have it.
std::time_t next_run(const Schedule& schedule, std::time_t now);

/// Two nights that follow each other with much time between them: none ran, or the clock jumped.
struct Gap {
  std::string before = {}, after = {};  ///< when they began
  bool is_new = false;                  ///< no night but the last one began after it
};
/// The gap of more than 60 days, if there is one, between the last night that began before `cutoff` and the
/// next: older nights may look older than they are. `starts`: when each night began (ISO 8601) in the order
/// of storing, which no clock can turn round, and the present moment.
std::optional<Gap> gap_at(const std::string& cutoff, const std::vector<std::string>& starts);

/// "not tonight", "a regression", … for an exit status of a night.
std::string words_of_status(std::int64_t exit_status);

/// The schedules of this user: files of JSON, which an upgrade of virtrain leaves alone.
class ScheduleBook {
 public:
  ScheduleBook();  ///< $XDG_CONFIG_HOME/virtrain/schedules and $XDG_STATE_HOME/virtrain/schedules

  std::vector<std::string> names() const;
  /// Error(not_found) with the names there are, Error(bad_input) with the file where it cannot be read.
  Schedule find(const std::string& name) const;
  bool contains(const std::string& name) const;
  /// Error(not_found) as find(); what is in its file does not count.
  void require(const std::string& name) const;
  void save(const Schedule& schedule) const;
  /// Messages that were sent stay known: whoever adds the schedule again, to change it, does not get them
  /// again.
  void remove(const std::string& name) const;

  /// None, with a warning, where its file cannot be read: the next run writes it anew.
  std::optional<LastRun> last_run(const std::string& name) const;
  void save_last_run(const std::string& name, const LastRun& run) const;
  /// Keys of the messages that were sent.
  std::set<std::string> told(const std::string& name) const;
  void save_told(const std::string& name, const std::set<std::string>& keys) const;
  std::filesystem::path lock_file(const std::string& name) const;
  /// To be held from reading the crontab to writing it: this user's other virtrains wait meanwhile. The
  /// folder of the state is what is locked, so no file stays behind.
  UniqueFd lock_crontab() const;

 private:
  void make_state_folder() const;

  std::filesystem::path folder_;
  std::filesystem::path state_;
};

}  // namespace virtrain::harness
