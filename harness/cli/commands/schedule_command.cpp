#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/ostream.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/files/file_lock.h"
#include "common/files/new_file.h"
#include "common/files/unique_fd.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/system/time.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/bisect/steps.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "harness/cli/report_file.h"
#include "harness/cli/search_path.h"
#include "harness/experiment/judge.h"
#include "harness/experiment/preflight.h"
#include "harness/experiment/stop_signals.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "harness/schedule/installer.h"
#include "harness/schedule/messages.h"
#include "harness/schedule/notices.h"
#include "harness/schedule/schedule.h"
#include "harness/schedule/trust.h"
#include "results/exchange/exporters/exporters.h"
#include "results/reading/reading.h"
#include "results/report/site/site.h"
#include "results/tables/render.h"
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

/// One night of a schedule: cleans up after killed ones, runs the scenario while patience lasts, prints,
/// tells and publishes what changed, thins old nights. Returns the night's exit status; Error where it is
/// refused. `quiet`, for cron, which mails whatever is printed: a night that is done or not tonight prints
/// nothing, and each change is printed once, if there is no other way to tell of it. SIGINT, SIGTERM and
/// SIGHUP go on to the run, whose tear-down is waited for: 128 + signal. The run holds the schedule's `lock`
/// as well, so that no other night begins beside one whose own process was killed.
int run_night(const Schedule& schedule, bool quiet, const UniqueFd& lock) {
  return Night(schedule, quiet, lock).run();
}

struct AddArguments {
  std::filesystem::path scenario;
  std::filesystem::path database;
  std::string name;
  std::string at;
  std::string days;
  std::string patience = "1h";
  std::string notify;
  std::string label_command;
  std::filesystem::path textfile, site;
  std::filesystem::path webhook;
  std::string mail;
  std::string keep;
  bool no_timer = false;
};

/// Refuses, with doctor's words, what would fail every night.
void require_that_it_runs_here(const Scenario& scenario) {
  const auto host = open_host();
  const auto inventory = host->inventory(scenario.devices.kind != DeviceKind::none);
  const auto plan = make_plan(scenario, inventory, expects_emulation(inventory));
  check_host(*host, scenario, plan, inventory, choose_mode(*host, std::nullopt, scenario));
}

/// systemd and cron go by the system's zone, whatever TZ says here.
void use_zone_of_system() {
  ::unsetenv("TZ");
  ::tzset();
}

std::string local_words(std::time_t when) {
  std::tm local{};
  ::localtime_r(&when, &local);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M %Z", &local);
  return text;
}

std::int64_t patience_seconds(const std::string& text) {
  constexpr std::int64_t ns_per_second = 1'000'000'000;
  constexpr std::int64_t most_seconds = 23L * 3600;
  const auto duration = parse_duration_ns(text);
  if (!duration || *duration < 0 || *duration / ns_per_second > most_seconds) {
    throw Error("read --patience", ErrorCode::usage,
                excerpt(text) + " is not a valid patience (allowed: 0s … 23h, such as 90m)");
  }
  return *duration / ns_per_second;
}

/// Whoever built it in a folder of theirs has root's trust already, by sudo; that it lasts they should know.
void warn_of_a_program_of_others() {
  try {
    require_only_ours(this_program());
  } catch (const Error& error) {
    log::warning(
        "this virtrain will run every night, and others can change it: install it (cmake --install build)",
        {{"because", error.message()}});
  }
}

/// The absolute path of what each night writes; the folder that it lies in has to be there.
std::string place_of(const std::filesystem::path& path, const std::string& option) {
  if (path.empty()) { return ""; }
  auto place = std::filesystem::absolute(path).lexically_normal();
  if (!place.has_filename()) { place = place.parent_path(); }
  if (!std::filesystem::is_directory(place.parent_path())) {
    throw Error("read " + option, ErrorCode::usage,
                "the folder " + printable(place.parent_path().string()) + " is not there");
  }
  require_only_ours(place.parent_path());
  return place.string();
}

/// The second of two that write the same would wipe out what the first has written, such as its alarm.
void require_own_places(const ScheduleBook& book, const Schedule& schedule) {
  for (const auto& name : book.names()) {
    Schedule other;
    try {
      other = book.find(name);
    } catch (const Error&) { continue; }  // its nights cannot begin
    const auto require_other = [&](const char* option, const std::string& place, const std::string& taken) {
      const auto real = [](const std::string& path) {
        std::error_code unknown;  // of a folder that this user may not look into
        auto canonical = std::filesystem::weakly_canonical(path, unknown);
        return unknown ? std::filesystem::path(path) : canonical;
      };
      if (place.empty() || taken.empty() || real(place) != real(taken)) { return; }
      throw Error(std::string("read ") + option, ErrorCode::usage,
                  fmt::format("schedule {} writes to {} already; give another place", name, excerpt(place)));
    };
    require_other("--textfile", schedule.textfile, other.textfile);
    require_other("--site", schedule.site, other.site);
  }
}

void add(const AddArguments& arguments) {
  use_zone_of_system();
  Schedule schedule;
  schedule.at = time_of_day(arguments.at);
  schedule.days = days_of_week(arguments.days);
  schedule.patience_seconds = patience_seconds(arguments.patience);
  schedule.notify = arguments.notify;
  schedule.label_command = arguments.label_command;
  if (!arguments.mail.empty()) {
    require_mail_address(arguments.mail);
    find_sendmail();
    schedule.mail = arguments.mail;
  }
  if (!arguments.keep.empty()) { schedule.keep_days = days_to_keep(arguments.keep); }
  schedule.textfile = place_of(arguments.textfile, "--textfile");
  if (!schedule.textfile.empty() && !schedule.textfile.ends_with(".prom")) {
    throw Error("read --textfile", ErrorCode::usage,
                excerpt(schedule.textfile) + ": the textfile collector reads files named NAME.prom only");
  }
  schedule.site = place_of(arguments.site, "--site");
  const auto scenario = load_scenario(arguments.scenario.string());
  if (scenario.name.ends_with(bisect_ending)) {
    throw Error(
        "add a schedule", ErrorCode::usage,
        fmt::format("the scenario's name ends in {}, and runs of such names are bisect's, which nothing "
                    "is concluded from; give it another name",
                    bisect_ending));
  }
  schedule.name = arguments.name.empty() ? scenario.name : arguments.name;
  require_schedule_name(schedule.name);
  require_that_it_runs_here(scenario);
  require_only_ours(arguments.scenario);
  require_only_ours_in(arguments.notify, "--notify");
  require_only_ours_in(arguments.label_command, "--label-command");
  if (!arguments.webhook.empty()) {
    read_webhook(arguments.webhook);
    schedule.webhook_file = std::filesystem::canonical(arguments.webhook).string();
  }
  warn_of_a_program_of_others();
  schedule.scenario = std::filesystem::canonical(arguments.scenario).string();
  schedule.database = std::filesystem::absolute(arguments.database).lexically_normal().string();
  std::error_code unknown;
  if (std::filesystem::is_directory(schedule.database, unknown)) {
    throw Error("read --db", ErrorCode::usage,
                excerpt(schedule.database) + " is a folder; name a file in it");
  }
  require_database_place(schedule.database);
  const ScheduleBook book;
  if (book.contains(schedule.name)) {
    throw Error("add schedule " + schedule.name, ErrorCode::usage,
                "there is one of this name; remove it first, or give another --name");
  }
  require_own_places(book, schedule);
  if (arguments.no_timer) {
    schedule.no_timer = true;
    book.save(schedule);
    fmt::print(std::cout, "{} is added without a timer; every night, start: virtrain schedule run {}\n",
               schedule.name, schedule.name);
    return;
  }
  const auto installer = find_installer();
  book.save(schedule);
  try {
    installer->install(schedule, this_program(), folder_variables());
  } catch (const Error&) {
    book.remove(schedule.name);
    throw;
  }
  fmt::print(std::cout, "{} runs by {}, next at {}\n", schedule.name, installer->name(),
             local_words(next_run(schedule, std::time(nullptr))));
}

std::string words_of_last(const ScheduleBook& book, const std::string& name,
                          const std::optional<LastRun>& last) {
  if (!last) { return ""; }
  if (!last->ended_at.empty()) { return words_of_status(last->exit_status); }
  return try_lock_file(book.lock_file(name), LockKind::exclusive) ? "killed" : "running";
}

std::vector<results::Cell> row_of(const ScheduleBook& book, const std::string& name, std::time_t now) {
  try {
    const auto schedule = book.find(name);
    const auto last = book.last_run(name);
    const auto next = next_run(schedule, now);
    const std::string no_timer = "no timer";
    constexpr std::int64_t ns_per_second = 1'000'000'000;
    return {results::cell(name),
            results::cell(schedule.at),
            results::cell(schedule.days),
            results::cell(schedule.scenario),
            results::cell(schedule.database),
            results::cell(last ? last->started_at : ""),
            results::cell(words_of_last(book, name, last)),
            schedule.no_timer ? results::Cell{nullptr, no_timer}
                              : results::Cell{iso8601(next * ns_per_second), local_words(next)}};
  } catch (const Error& error) {
    log::warning("a schedule cannot be read", {{"schedule", name}, {"reason", error.message()}});
    return {results::cell(name), {}, {}, {}, {}, {}, results::cell("cannot be read"), {}};
  }
}

void list(results::Format format) {
  use_zone_of_system();
  const ScheduleBook book;
  results::Table table;
  table.columns = {{"name", "schedule"},
                   {"at", "at"},
                   {"days", "days", false, true},
                   {.key = "scenario", .head = "scenario", .wraps = true},
                   {.key = "db", .head = "database", .wraps = true},
                   {"last_run", "last run"},
                   {.key = "last_result", .head = "it ended", .wraps = true},
                   {"next_run", "next run"}};
  const std::time_t now = std::time(nullptr);
  for (const auto& name : book.names()) { table.rows.push_back(row_of(book, name, now)); }
  fmt::print(std::cout, "{}", results::render(table, format, screen_of_stdout()));
}

/// A schedule whose file is damaged may have one.
bool has_no_timer(const ScheduleBook& book, const std::string& name) {
  try {
    return book.find(name).no_timer;
  } catch (const Error&) { return false; }
}

void remove(const std::string& name) {
  const ScheduleBook book;
  book.require(name);
  std::filesystem::create_directories(book.lock_file(name).parent_path());
  const auto lock = try_lock_file(book.lock_file(name), LockKind::exclusive);
  if (!lock) {
    throw Error(
        "remove schedule " + name, ErrorCode::busy,
        "it still runs; wait for it or stop it (kill its virtrain schedule run), then remove it again");
  }
  if (!has_no_timer(book, name)) { remove_timer(name); }
  book.remove(name);
}

/// Whether nights have left anything there.
bool is_filled(const std::filesystem::path& database) {
  std::error_code unknown;
  return std::filesystem::file_size(database, unknown) > 0 && !unknown;
}

/// A new one is made: without a word, the history of all nights would seem to be gone.
void warn_of_a_lost_database(const Schedule& schedule) {
  log::warning(
      "the database of the earlier runs is not there any more, so this run begins a new one; if it was "
      "moved, move it back",
      {{"schedule", schedule.name}, {"db", schedule.database}});
}

void run(const std::string& name, bool quiet, Cli& cli) {
  const ScheduleBook book;
  const auto schedule = book.find(name);
  LastRun last;
  last.started_at = iso8601(wall_ns());
  std::filesystem::create_directories(book.lock_file(name).parent_path());
  const auto lock = try_lock_file(book.lock_file(name), LockKind::exclusive);
  if (!lock) { throw Error("run schedule " + name, ErrorCode::busy, "not tonight: it still runs"); }
  const auto before = book.last_run(name);
  last.had_database = is_filled(schedule.database) || (before && before->had_database);
  if (last.had_database && !is_filled(schedule.database)) { warn_of_a_lost_database(schedule); }
  // Where the state folder's disk is full, the database's may have room.
  const auto note = [&] {
    try {
      book.save_last_run(name, last);
    } catch (const Error& error) {
      log::error("schedule list will not show this run", {{"schedule", name}, {"reason", error.what()}});
    }
  };
  note();
  const auto end = [&](int status) {
    last.had_database = last.had_database || is_filled(schedule.database);
    last.exit_status = status;
    last.ended_at = iso8601(wall_ns());
    note();
  };
  try {
    cli.exit_status = run_night(schedule, quiet, lock);
  } catch (const Error& error) {
    end(exit_status(error.code()));
    throw;
  } catch (const std::exception&) {
    end(exit_status(ErrorCode::io));  // as main() has it
    throw;
  }
  end(cli.exit_status);
}

void add_add(CLI::App& schedule) {
  auto* verb = schedule.add_subcommand("add", "Run a scenario every night");
  auto arguments = std::make_shared<AddArguments>();
  verb->add_option("scenario", arguments->scenario, "Scenario file; it is read again before each run")
      ->type_name("FILE")
      ->required();
  verb->add_option("--at", arguments->at, "Local time of day, 02:00")->required();
  verb->add_option("--days", arguments->days, "mon,tue,… or mon-fri (default: every day)");
  verb->add_option("--name", arguments->name, "Its name (default: the scenario's)");
  verb->add_option("--patience", arguments->patience, "How long busy devices are waited for")
      ->capture_default_str();
  verb->add_option("--notify", arguments->notify,
                   "Command that gets each new message as JSON on standard input: a confirmed change, and "
                   "its recovery")
      ->type_name("COMMAND");
  verb->add_option(
          "--webhook-file", arguments->webhook,
          "File with the line `url https://…` to which new messages are posted; only you may read it")
      ->type_name("FILE");
  verb->add_option(
          "--keep", arguments->keep,
          "Age from which runs lose samples and telemetry, at least 7d; trials, properties and changes stay "
          "(default: all is kept)")
      ->type_name("DAYSd");
  verb->add_option("--label-command", arguments->label_command,
                   "Command whose first line of output is the label of each run, such as a version")
      ->type_name("COMMAND");
  verb->add_option("--textfile", arguments->textfile,
                   "File that each run writes for Prometheus' textfile collector: NAME.prom")
      ->type_name("FILE");
  verb->add_option("--site", arguments->site,
                   "Folder that each run writes pages to, as report --schedule does")
      ->type_name("DIR");
  verb->add_option("--mail", arguments->mail,
                   "Address that new messages are mailed to, by this host's sendmail")
      ->type_name("ADDRESS");
  verb->add_flag("--no-timer", arguments->no_timer,
                 "Make no timer: your own means start virtrain schedule run NAME every night");
  add_database_option(*verb, arguments->database);
  verb->footer(
      "Example:\n  virtrain schedule add scenarios/nightly-cpu.yaml --at 02:00 --db nightly.db --keep 400d");
  verb->callback([arguments] { add(*arguments); });
}

}  // namespace

void add_schedule_command(Cli& cli) {
  auto* schedule = cli.app.add_subcommand("schedule", "Run scenarios every night, by systemd or cron");
  schedule->require_subcommand(1);
  schedule->footer(
      "Examples:\n"
      "  virtrain schedule add scenarios/nightly-cpu.yaml --at 02:00 --db nightly.db\n"
      "  virtrain schedule list\n"
      "  virtrain schedule run nightly-cpu     what the timer runs\n"
      "  virtrain schedule remove nightly-cpu\n"
      "Exit codes of run: those of virtrain run; 1 a loss is open, 75 not tonight");
  add_add(*schedule);
  auto format = std::make_shared<results::Format>(results::Format::table);
  auto* listed = schedule->add_subcommand("list", "When each last ran, how it ended, when it runs next");
  add_format_option(*listed, *format);
  listed->callback([format] { list(*format); });
  auto name = std::make_shared<std::string>();
  auto* removed = schedule->add_subcommand("remove", "Take a schedule away; its results stay");
  removed->add_option("name", *name, "Name of the schedule")->type_name("SCHEDULE")->required();
  removed->callback([name] { remove(*name); });
  auto* started = schedule->add_subcommand("run", "Run it now, as its timer does");
  started->add_option("name", *name, "Name of the schedule")->type_name("SCHEDULE")->required();
  auto quiet = std::make_shared<bool>(false);
  started->add_flag("-q,--quiet", *quiet,
                    "For cron, which mails what is printed: only what failed, and each change once");
  started->callback([name, quiet, &cli] { run(*name, *quiet, cli); });
}

}  // namespace virtrain::harness
