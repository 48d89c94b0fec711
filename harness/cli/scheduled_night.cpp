#include "harness/cli/scheduled_night.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/ostream.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/files/output_file.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/system/time.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/cli/cli.h"
#include "harness/cli/report_file.h"
#include "harness/cli/search_path.h"
#include "harness/experiment/judge.h"
#include "harness/experiment/stop_signals.h"
#include "harness/scenario/decode/decode.h"
#include "harness/schedule/mail.h"
#include "harness/schedule/messages.h"
#include "harness/schedule/trust.h"
#include "harness/schedule/webhook.h"
#include "results/exchange/exporters/exporters.h"
#include "results/reading/read_changes.h"
#include "results/report/site/site.h"
#include "results/tables/tables.h"

namespace virtrain::harness {
namespace {

using std::chrono::seconds;

/// Whether somebody should look at a night that ended so.
bool is_news(int status) {
  return status != 0 && status != exit_status(ErrorCode::busy);
}

/// None where the database is yet to be made.
std::vector<results::Experiment> experiments_in(const std::filesystem::path& database) {
  std::vector<results::Experiment> all;
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(database, unknown);
  if (unknown || bytes == 0) { return all; }
  const results::Store store(database, results::Store::Mode::open, longest_database_wait);
  for (auto& one : store.list_experiments()) { all.push_back(std::move(one.experiment)); }
  return all;
}

/// Experiments that the database calls running, without those of another host: nobody here knows whether they
/// live.
std::vector<std::string> running_experiments(const std::filesystem::path& database) {
  std::vector<std::string> ids;
  for (const auto& one : experiments_in(database)) {
    if (one.status == Status::running) { ids.push_back(one.id); }
  }
  if (ids.empty()) { return ids; }
  auto here = open_host()->fingerprint();
  const results::Store store(database, results::Store::Mode::open, longest_database_wait);
  std::erase_if(ids, [&](const std::string& id) {
    const auto one = store.experiment(id);
    return !one || (one->host_name != here["hostname"] && one->boot_id != here["boot_id"]);
  });
  return ids;
}

/// While it lives, what stops a run does not end this process but is kept for the run that it has started.
class StopSignals {
 public:
  StopSignals() {
    add_stop_signals(signals_);
    listen();
  }

  /// The latest that came since this was asked last; 0: none.
  int next() {
    io_.poll();
    return std::exchange(next_, 0);
  }
  /// The first that came; 0: none yet.
  int first() {
    io_.poll();
    return first_;
  }
  /// Returns early when one comes.
  void sleep(std::chrono::steady_clock::duration time) { io_.run_one_for(time); }

 private:
  void listen() {
    signals_.async_wait([this](const boost::system::error_code& cancelled, int signal_number) {
      if (cancelled) { return; }
      next_ = signal_number;
      if (first_ == 0) { first_ = signal_number; }
      listen();
    });
  }

  boost::asio::io_context io_;
  boost::asio::signal_set signals_{io_};
  int first_ = 0, next_ = 0;
};

void run_notify(const std::string& command, const Message& message, const Cancelled& cancelled) {
  constexpr const char* operation = "run the --notify command";
  CommandOptions options;
  options.deadline = std::chrono::minutes(2);
  options.input = dump_json(message.body) + "\n";
  require_only_ours_in(command, "--notify");
  try {
    run_cancellable({"/bin/sh", "-c", command}, options, cancelled, operation);
  } catch (const Error&) {
    end_if(cancelled, operation);
    // The command may hold a secret: its words are not repeated.
    throw Error(operation, ErrorCode::io, "it failed");
  }
}

/// systemd hands it over as a credential, cron leaves it where it is.
std::filesystem::path webhook_file(const Schedule& schedule) {
  const char* credentials = std::getenv("CREDENTIALS_DIRECTORY");
  if (credentials != nullptr) {
    auto file = std::filesystem::path(credentials) / "webhook";
    if (std::filesystem::exists(file)) { return file; }
  }
  return schedule.webhook_file;
}

class Night {
 public:
  Night(const Schedule& schedule, bool quiet, const UniqueFd& lock)
      : schedule_(schedule), quiet_(quiet), lock_(lock) {}

  int run() {
    require_only_ours(schedule_.scenario);
    require_database_place(schedule_.database);
    clean_up_after_killed_nights();
    const int night = run_patiently(label());
    if (const int signal = stop_.first(); signal != 0) { return 128 + signal; }
    const int status = judged(night);
    if (const int signal = stop_.first(); signal != 0) { return 128 + signal; }
    if (status == exit_status(ErrorCode::busy)) {
      say(schedule_.name + ": not tonight: devices or cores are busy\n");
    }
    return status;
  }

 private:
  void say(const std::string& words) const {
    if (!quiet_) { fmt::print(std::cout, "{}", words); }
  }

  /// Cleans up after killed nights, whose leftovers would stay until somebody called `virtrain clean`. It
  /// looks only at experiments that this database calls running, and spares those that live: in a container
  /// that shares the host and not its claims, a clean of everything would take the host's runs for dead.
  void clean_up_after_killed_nights() {
    auto options = stoppable();
    options.deadline = std::chrono::minutes(10);
    const auto warn = [&](const std::string& reason) {
      log::warning("what a killed run left could not be removed; this run starts all the same",
                   {{"schedule", schedule_.name}, {"reason", reason}});
    };
    try {
      for (const auto& experiment : running_experiments(schedule_.database)) {
        const auto cleaned = run_command(
            {program_, "clean", "--experiment=" + experiment, "--db=" + schedule_.database}, options);
        if (cleaned.exit_status == 0) {
          say(printable(cleaned.out));
        } else {
          warn(excerpt(cleaned.out + cleaned.err, 1000));
        }
      }
    } catch (const Error& error) { warn(error.what()); }
  }

  /// Empty, with a warning, where the command gives none: a night without a label is better than none.
  std::string label() {
    if (schedule_.label_command.empty()) { return ""; }
    try {
      require_only_ours_in(schedule_.label_command, "--label-command");
      auto options = stoppable();
      options.max_output_bytes = std::size_t{64} << 10;
      const auto said = run_command({"/bin/sh", "-c", schedule_.label_command}, options);
      if (said.exit_status != 0) {
        throw Error("run the --label-command", ErrorCode::io,
                    fmt::format("exit status {}; run it by hand to see why", said.exit_status));
      }
      return label_in(said.out);
    } catch (const Error& error) {
      // Without the operation, in which the command may stand: it may hold a secret.
      log::warning("the --label-command gave no label; this run has none",
                   {{"schedule", schedule_.name}, {"reason", error.message()}});
      return "";
    }
  }

  /// Options of a command that gets the signals that this process gets.
  CommandOptions stoppable() {
    CommandOptions options;
    options.next_signal = [this] { return stop_.next(); };
    return options;
  }

  /// How the scenario is run: till its tear-down is done, whatever becomes of this process.
  CommandOptions run_options() {
    auto options = stoppable();
    options.deadline = std::chrono::hours(24);
    options.grace = std::chrono::minutes(5);  // as TimeoutStopSec= has it
    options.ends_with_us = true;
    options.inherited = lock_.get();
    return options;
  }

  /// Whether an experiment of this scenario began since: run again, it would be a second night.
  bool has_begun(const std::set<std::string>& before) const {
    const auto scenario = load_scenario(schedule_.scenario).name;
    const auto all = experiments_in(schedule_.database);
    return std::any_of(all.begin(), all.end(), [&](const results::Experiment& one) {
      return one.scenario == scenario && !before.contains(one.id);
    });
  }

  /// Runs the scenario as `virtrain run` would, again and again while devices are busy and patience lasts.
  int run_patiently(const std::string& label) {
    constexpr seconds pause{30};
    std::vector<std::string> command = {program_,           "run",    schedule_.scenario, "--db",
                                        schedule_.database, "--quiet"};
    if (!label.empty()) { command.push_back("--label=" + label); }
    const auto give_up = std::chrono::steady_clock::now() + seconds(schedule_.patience_seconds);
    std::set<std::string> before;
    for (const auto& one : experiments_in(schedule_.database)) { before.insert(one.id); }
    while (stop_.first() == 0) {
      const auto night = run_command(command, run_options());
      if (!quiet_ || is_news(night.exit_status)) {
        fmt::print(std::cout, "{}", printable(night.out));
        fmt::print(std::cerr, "{}", printable(night.err));
      }
      const auto left = give_up - std::chrono::steady_clock::now();
      if (night.exit_status != exit_status(ErrorCode::busy) || left <= seconds(0) || has_begun(before)) {
        return night.exit_status;
      }
      stop_.sleep(std::min<std::chrono::steady_clock::duration>(left, pause));
    }
    return 128 + stop_.first();
  }

  int judged(int night) {
    try {
      return judge(night);
    } catch (const Error& error) { throw after_begin(error); }
  }

  /// 1 where a loss is open, after the changes of this schedule's scenario were printed and told.
  int judge(int night) {
    const int trial_failed = exit_status(ErrorCode::trial_failed);
    if (night != 0 && night != exit_worse && night != exit_no_verdict && night != trial_failed) {
      return night;
    }
    const auto scenario = load_scenario(schedule_.scenario);
    const auto log = results::read_changes_of(
        results::Store(schedule_.database, results::Store::Mode::open, longest_database_wait), scenario.name);
    say(results::render(results::changes_table(log, " --db " + shell_word(schedule_.database)),
                        results::Format::table));
    tell(log.changes);
    if (stop_.first() == 0) {  // else the next night does it
      publish(scenario, log);
      thin(scenario.name);
    }
    const bool alarm = std::any_of(log.changes.begin(), log.changes.end(), results::is_alarm);
    return alarm && night != trial_failed ? exit_worse : night;
  }

  void tell(const std::vector<results::Change>& changes) {
    if (quiet_ && schedule_.notify.empty() && schedule_.mail.empty() && schedule_.webhook_file.empty()) {
      const auto print = [](const Message& message) {
        fmt::print(std::cout, "{}\n", printable(message.body.at("text").get<std::string>()));
      };
      tell_by(" printed", changes, print);
    }
    const Cancelled stopped = [this] { return stop_.first() != 0; };
    if (!schedule_.notify.empty()) {
      tell_by("", changes, [&](const Message& message) { run_notify(schedule_.notify, message, stopped); });
    }
    if (!schedule_.mail.empty()) {
      tell_by(" mail", changes, [&](const Message& message) {
        send_mail(schedule_.mail, message, schedule_.database, stopped);
      });
    }
    if (!schedule_.webhook_file.empty()) {
      tell_by(" webhook", changes, [&](const Message& message) {
        post(read_webhook(webhook_file(schedule_)), message.body, stopped);
      });
    }
  }

  /// Tells by one way what it was not told. What fails, or is yet to be told when this process is stopped, is
  /// tried again the next night.
  template <typename Send>
  void tell_by(const std::string& mark, const std::vector<results::Change>& changes, Send&& send) {
    const ScheduleBook book;
    auto told = book.told(schedule_.name);
    for (const auto& message : messages_of(schedule_.name, changes, told, mark)) {
      if (stop_.first() != 0) { return; }
      try {
        send(message);
      } catch (const Error& error) {
        log::error("a message was not taken; it is kept for the next run",
                   {{"schedule", schedule_.name}, {"error", error.what()}});
        continue;
      }
      told.insert(message.key);
      for (const auto& over : message.takes_back) { told.erase(over); }
      try {
        book.save_told(schedule_.name, told);
      } catch (const Error& error) {
        log::error("it could not be noted that a message was sent; the next run sends it again",
                   {{"schedule", schedule_.name}, {"error", error.what()}});
      }
    }
  }

  /// Writes the files for others to look at. A failure does not make the night bad: the next one writes them.
  void publish(const Scenario& scenario, const results::ChangeLog& changes) const {
    const auto attempt = [&](const std::string& place, auto&& write) {
      if (place.empty()) { return; }
      try {
        // Whoever could change the folder could lead a night of root's to any other place by a link.
        require_only_ours(std::filesystem::path(place).parent_path());
        write();
      } catch (const std::exception& error) {
        log::warning("the pages could not be published; the next run tries again",
                     {{"schedule", schedule_.name}, {"place", place}, {"reason", error.what()}});
      }
    };
    attempt(schedule_.textfile, [&] {
      write_whole(schedule_.textfile,
                  [&](std::ostream& out) { results::export_changes_prometheus(changes, out); });
    });
    attempt(schedule_.site, [&] {
      make_site_folder(schedule_.site);
      const results::Store store(schedule_.database, results::Store::Mode::open);
      const auto written =
          results::write_site(store,
                              {.schedule = schedule_.name,
                               .scenario = scenario.name,
                               .command_line = "virtrain schedule run",
                               .database_option = database_option(schedule_.database),
                               .settings = expected_settings(scenario).value_or(results::Settings{})},
                              schedule_.site);
      for (const auto& warning : written.warnings) {
        if (!quiet_) { log::warning(warning); }
      }
    });
  }

  /// Thins old nights. That it could not is no reason to call the night bad: the next one tries again.
  void thin(const std::string& scenario) const {
    if (schedule_.keep_days == 0) { return; }
    constexpr std::int64_t ns_per_day = 24LL * 3600 * 1'000'000'000;
    const auto now = wall_ns();
    const auto cutoff = iso8601(now - schedule_.keep_days * ns_per_day);
    try {
      results::Store store(schedule_.database, results::Store::Mode::open);
      if (may_only_look_old(store, scenario, cutoff, iso8601(now))) { return; }
      const auto thinned = store.thin_nights(scenario, cutoff);
      if (thinned.nights == 0) { return; }
      say(fmt::format(
          "runs older than {}: {} thinned, {} and {} removed, {} freed\n",
          counted(schedule_.keep_days, "day"), thinned.nights, counted(thinned.samples, "sample"),
          counted(thinned.readings, "telemetry reading"),
          format_size(static_cast<std::uint64_t>(std::max<std::int64_t>(0, thinned.freed_bytes)))));
    } catch (const Error& error) {
      log::warning("old runs could not be thinned; the next run tries again", {{"reason", error.what()}});
    }
  }

  /// Whether nights may look old only because the clock jumped; said on the first night after it. Once the
  /// nights after the jump are old by themselves, those before it are, too.
  static bool may_only_look_old(const results::Store& store, const std::string& scenario,
                                const std::string& cutoff, const std::string& now) {
    std::vector<std::string> starts;
    for (const auto& night : store.nights()) {
      if (night.scenario == scenario && !night.started_at.empty()) { starts.push_back(night.started_at); }
    }
    starts.push_back(now);
    const auto gap = gap_at(cutoff, starts);
    if (gap && gap->is_new) {
      log::warning(
          "more than 60 days lie between two runs, so older ones keep their samples until the later one is "
          "as old as --keep; check the clock",
          {{"before", gap->before}, {"after", gap->after}});
    }
    return gap.has_value();
  }

  const Schedule& schedule_;
  bool quiet_;
  const UniqueFd& lock_;
  StopSignals stop_;
  std::string program_ = this_program().string();
};

}  // namespace

int run_night(const Schedule& schedule, bool quiet, const UniqueFd& lock) {
  return Night(schedule, quiet, lock).run();
}

}  // namespace virtrain::harness
