#include <fmt/ostream.h>

#include <cstdlib>
#include <ctime>
#include <iostream>

#include "common/error.h"
#include "common/files/file_lock.h"
#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/units.h"
#include "harness/bisect/steps.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "harness/cli/scheduled_night.h"
#include "harness/cli/search_path.h"
#include "harness/experiment/preflight.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "harness/schedule/installer.h"
#include "harness/schedule/mail.h"
#include "harness/schedule/trust.h"
#include "harness/schedule/webhook.h"
#include "results/tables/render.h"

namespace virtrain::harness {
namespace {

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
