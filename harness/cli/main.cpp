#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>

#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "common/user_folders.h"
#include "common/version.h"
#include "harness/cli/commands.h"
#include "harness/cli/first_process.h"

namespace virtrain::harness {

void add_database_option(CLI::App& verb, std::filesystem::path& database) {
  database = user_folder("XDG_DATA_HOME", ".local/share") / "virtrain/results.db";
  verb.add_option("--db", database, "Results database")->type_name("FILE")->capture_default_str();
}

void add_label_option(CLI::App& verb, std::string& label) {
  const auto is_utf8 = [](const std::string& text) {
    return find_invalid_utf8(text) == std::string::npos ? "" : "a label is UTF-8, these bytes are not";
  };
  verb.add_option("--label", label, "A word kept with the experiment, to compare by later")
      ->check(CLI::Validator(is_utf8, ""));
}

void add_selection_options(CLI::App& verb, results::Selection& selection) {
  verb.add_option("--experiment", selection.experiments,
                  "Experiment id, repeatable (default: the latest one with trials)");
  verb.add_option("--scenario", selection.scenario, "Experiments of this scenario");
  verb.add_option("--label", selection.label, "Experiments with this label");
}

void add_format_option(CLI::App& verb, results::Format& format) {
  static const std::map<std::string, results::Format> names{{"table", results::Format::table},
                                                            {"json", results::Format::json},
                                                            {"csv", results::Format::csv},
                                                            {"markdown", results::Format::markdown}};
  verb.add_option("--format", format, "table, json, csv or markdown")
      ->type_name("FORMAT")
      ->transform(CLI::CheckedTransformer(names).description(""));
}

bool colour_on_stdout() {
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (refused == nullptr || *refused == '\0');
}

namespace {

/// Standard streams that were closed before us become /dev/null, or the next file opened would take their
/// place.
void open_missing_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (::fcntl(stream, F_GETFD) < 0) [[maybe_unused]]
      const int lowest_free = ::open("/dev/null", O_RDWR);
}

void configure_log(const Cli& cli) {
  log::configure(cli.log_format == "json" ? log::Format::json : log::Format::text,
                 cli.verbose ? log::Level::debug : log::Level::info);
}

/// What root makes is writable by root alone, whatever the caller's umask; stricter ones stay.
void forbid_writing_by_others() {
  constexpr mode_t kGroupAndOthersWrite = 022;
  ::umask(::umask(0777) | kGroupAndOthersWrite);
}

int run(int argc, char** argv) {
  open_missing_streams();
  forbid_writing_by_others();
  Cli cli;
  cli.command_line = printable(join(std::vector<std::string>(argv, argv + argc), " "));
  cli.app.set_version_flag("--version", std::string("virtrain ") + kVersion);
  cli.app.add_option("--log-format", cli.log_format, "Logs on standard error as text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  cli.app.add_flag("-v,--verbose", cli.verbose, "Log every stage");
  cli.app.require_subcommand(1);
  cli.app.fallthrough();
  cli.app.parse_complete_callback([&cli] { configure_log(cli); });
  cli.app.footer(
      "Examples:\n"
      "  virtrain doctor                          what this host can do, and what to mend\n"
      "  virtrain plan scenarios/quickstart.yaml  what run would do\n"
      "  virtrain run scenarios/quickstart.yaml   VMs and bare metal, measured and compared\n"
      "  virtrain compare --format json           the latest experiment's verdicts");
  add_run_command(cli);
  add_reproduce_command(cli);
  add_scenario_commands(cli);
  add_results_commands(cli);
  add_compare_command(cli);
  add_report_command(cli);
  add_exchange_commands(cli);
  add_doctor_command(cli);
  add_clean_command(cli);
  try {
    cli.app.parse(argc, argv);
    return cli.exit_status;
  } catch (const CLI::ParseError& error) {
    const int status = cli.app.exit(error);
    return status == 0 ? 0 : exit_status(ErrorCode::usage);
  }
}

}  // namespace
}  // namespace virtrain::harness

int main(int argc, char** argv) {
  using namespace virtrain;
  std::signal(SIGPIPE,
              SIG_IGN);  // a reader that goes away is an error where it is written to, not the end of us
  try {
    harness::leave_first_process();
    return harness::run(argc, argv);
  } catch (const Error& error) {
    // A refused input file already says where and what, line by line.
    fmt::print(
        stderr, "{}\n",
        error.code() == ErrorCode::bad_input ? error.message() : std::string("virtrain: ") + error.what());
    return exit_status(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "virtrain: {}\n", error.what());
    return exit_status(ErrorCode::io);
  }
}
