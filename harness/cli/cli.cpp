#include "harness/cli/cli.h"

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "common/files/user_folders.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/wrap.h"
#include "common/version.h"
#include "harness/cli/choices.h"
#include "harness/cli/commands.h"
#include "harness/cli/search_path.h"
#include "harness/experiment/experiment.h"

namespace virtrain::harness {
namespace {

/// `--help` in sentences and in 80 columns; CLI11's own has its terms ("Excludes:", "{false}") and long
/// lines.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_description(const CLI::App* app) const override;
  std::string make_group(std::string head, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

constexpr std::size_t screen_columns = 80, name_columns = 26;

/// As CLI11 wants it, which indents each further line.
std::string in_lines(const std::string& text) {
  return join(wrap(text, screen_columns - name_columns), "\n");
}

/// A line that is too long goes on below, an example further in than it began. What an example is for, behind
/// two blanks or more, gets a line of its own.
std::string wrapped_line(const std::string& line) {
  if (text_width(line) <= screen_columns) { return line + "\n"; }
  const auto indent = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t further = indent == 0 ? 0 : 2;
  if (const auto end = line.find("  ", indent); end != std::string::npos) {
    const auto purpose = std::string(indent + 2 * further, ' ') + std::string(trim(line.substr(end)));
    return wrapped_line(line.substr(0, end)) + wrapped_line(purpose);
  }
  std::string text;
  for (const auto& part : wrap(line, screen_columns - indent - further)) {
    text += std::string(text.empty() ? indent : indent + further, ' ') + part + "\n";
  }
  return text;
}

/// A line of prose goes on with the line before it; headings ("Examples:"), examples and empty lines stand
/// alone.
bool goes_on(const std::string& before, const std::string& line) {
  return !before.empty() && !before.starts_with(' ') && !before.ends_with(':') && !line.empty() &&
         !line.ends_with(':');
}

HelpFormatter::HelpFormatter() {
  column_width(name_columns);
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  const auto text = app->get_description();
  return text.empty() ? "" : join(wrap(text, screen_columns), "\n") + "\n";
}

/// Options that need another one stand below the others, under that one's name.
std::string HelpFormatter::make_group(std::string head, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  if (is_positional) { return Formatter::make_group(std::move(head), is_positional, options); }
  std::vector<std::pair<std::string, std::vector<const CLI::Option*>>> groups;
  groups.emplace_back(std::move(head), std::vector<const CLI::Option*>{});
  for (const auto* option : options) {
    const auto needs = option->get_needs();
    const auto name = needs.empty() ? groups.front().first : "With " + (*needs.begin())->get_name();
    auto group = std::ranges::find(groups, name, [](const auto& one) { return one.first; });
    if (group == groups.end()) { group = groups.insert(groups.end(), {name, {}}); }
    group->second.push_back(option);
  }
  std::string text;
  for (const auto& [name, members] : groups) { text += Formatter::make_group(name, false, members); }
  return text;
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  if (app->get_footer().empty()) { return ""; }
  std::vector<std::string> paragraphs;
  for (const auto& line : split(app->get_footer(), '\n')) {
    if (!paragraphs.empty() && goes_on(paragraphs.back(), line)) {
      paragraphs.back() += " " + std::string(trim(line));
    } else {
      paragraphs.emplace_back(line);
    }
  }
  std::string text;
  for (const auto& one : paragraphs) { text += wrapped_line(one); }
  return text;
}

std::string HelpFormatter::make_subcommand(const CLI::App* verb) const {
  std::ostringstream out;
  CLI::detail::format_help(out, verb->get_display_name(), in_lines(verb->get_description()), name_columns);
  return out.str();
}

std::string HelpFormatter::make_option_name(const CLI::Option* option, bool is_positional) const {
  const auto name = Formatter::make_option_name(option, is_positional);
  return name.substr(0, name.find('{'));  // a flag that means no says so by its name
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) { return ""; }
  const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  const auto type = option->get_type_name();  // with the words that are allowed, which the sentence has
  return " " + type.substr(0, type.find(":{")) + (many ? " ..." : "");
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  auto text = option->get_description();
  const auto& usual = option->get_default_str();
  if (option->get_type_size() != 0 && !usual.empty() && text.find("(default") == std::string::npos) {
    text += fmt::format(" (default: {})", usual);
  }
  if (option->get_required() && !option->get_positional()) { text += " (required)"; }
  if (option->get_positional()) {  // others stand under "With --that:"
    for (const auto* other : option->get_needs()) { text += fmt::format(" (with {})", other->get_name()); }
  }
  return in_lines(text);
}

/// Reaps all that ended; ends this process once `child` is among them.
void reap(pid_t child) {
  int status = 0;
  for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (ended != child) { continue; }
    std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
}

/// Where this program is process 1 (of a container started with it), orphans come to it and somebody must
/// reap them: libvirt waits for a QEMU that nobody reaped as for one that does not die. Then a child goes on
/// with the program, and process 1 reaps, passes signals on and ends with the child's status. Elsewhere
/// nothing happens. Call before threads start.
void leave_first_process() {
  if (::getpid() != 1) { return; }
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::fork();
  if (child < 0) { throw errno_error("start a child of process 1", errno); }
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return;
  }
  while (true) {
    siginfo_t signal{};
    if (::sigwaitinfo(&all, &signal) < 0) { continue; }
    if (signal.si_signo == SIGCHLD) {
      reap(child);
    } else if (is_passed_on(signal)) {
      ::kill(child, signal.si_signo);
    }
  }
}

std::filesystem::path default_database() {
  const char* const own = std::getenv("VIRTRAIN_DB");
  if (own != nullptr && *own != '\0') { return own; }
  return user_folder("XDG_DATA_HOME", ".local/share") / "virtrain/results.db";
}

}  // namespace

std::string database_option(const std::filesystem::path& database) {
  return database == default_database() ? "" : " --db " + shell_word(database.string());
}

void add_database_option(CLI::App& verb, std::filesystem::path& database) {
  database = default_database();
  verb.add_option("--db", database, "Results database")->type_name("FILE")->capture_default_str();
}

void add_large_sweeps_flag(CLI::App& verb, bool& large_sweeps) {
  verb.add_flag("--yes", large_sweeps, "Accept a sweep of more than 10,000 trials");
}

void add_label_option(CLI::App& verb, std::string& label) {
  verb.add_option("--label", label, "Label stored with the experiment, for selecting it later")
      ->check(CLI::Validator(label_fault, ""));
}

void add_selection_options(CLI::App& verb, results::Selection& selection) {
  verb.add_option("--experiment", selection.experiments,
                  "Experiment id, repeatable (default: the latest one with trials)")
      ->type_name("EXPERIMENT")
      ->check(not_empty());
  verb.add_option("--scenario", selection.scenario, "Experiments of this scenario")->check(not_empty());
  verb.add_option("--label", selection.label, "Experiments with this label")->check(not_empty());
}

void add_format_option(CLI::App& verb, results::Format& format) {
  auto* const by_name = verb.add_option("--format", format, "table, json, csv or markdown")
                            ->type_name("FORMAT")
                            ->transform(name_of(by_word<results::Format>()));
  verb.add_flag_callback(
          "--json", [&format] { format = results::Format::json; }, "Same as --format json")
      ->excludes(by_name);
}

namespace {

/// Value of --color. One for the process, as standard output is.
std::string colour_when = "auto";

}  // namespace

bool colour_on_stdout() {
  if (colour_when != "auto") { return colour_when == "always"; }
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (refused == nullptr || *refused == '\0');
}

results::Screen screen_of_stdout() {
  results::Screen screen{colour_on_stdout(), 0};
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    screen.columns = size.ws_col;
  } else if (const char* columns = std::getenv("COLUMNS"); columns != nullptr) {
    screen.columns = std::strtoul(columns, nullptr, 10);
  }
  return screen;
}

namespace {

/// Standard streams that were closed before us become /dev/null, or the next file opened would take their
/// place.
void open_missing_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) {
      [[maybe_unused]] const int lowest_free = ::open("/dev/null", O_RDWR);
    }
  }
}

void configure_log(const Cli& cli) {
  log::configure(cli.log_format == "json" ? log::Format::json : log::Format::text,
                 cli.verbose ? log::Level::debug
                 : cli.quiet ? log::Level::warning
                             : log::Level::info);
}

/// Only root can write to files that root makes, whatever the caller's umask; stricter ones stay.
void forbid_writing_by_others() {
  constexpr mode_t group_and_others_write = 022;
  ::umask(::umask(0777) | group_and_others_write);
}

/// Whether standard output is a pipe that nobody reads any more.
bool reader_is_gone() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

/// Makes sure that the output has reached its file, or throws: a full disk is known only when the buffers are
/// emptied. A reader that went away has seen what it wanted.
void finish_output() {
  errno = 0;
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && !std::cout.fail();
  if (written || errno == EPIPE || reader_is_gone()) { return; }
  throw Error("write to standard output", ErrorCode::io,
              fmt::format("{}; what was written is not complete",
                          errno == 0 ? "it failed" : std::generic_category().message(errno)));
}

/// Words of others stand in messages: file contents, names of guests and processes.
void print_error(std::string_view words) {
  constexpr std::size_t most_bytes = 16384;
  fmt::print(std::cerr, "{}\n", printable(words, most_bytes));
}

/// `help VERB` and `version`, as other tools have them. In CLI11's order: the last word first.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  } else if (words == std::vector<std::string>{"version"}) {
    words = {"--version"};
  }
  std::reverse(words.begin(), words.end());
  return words;
}

/// Headings of --help with the verbs below them; a verb of none stands under "Subcommands".
constexpr std::pair<const char*, const char*> verb_groups[] = {
    {"Measure", "demo run reproduce bisect schedule"},
    {"Before a run", "doctor scenarios validate plan payload schema topology"},
    {"Read results", "list show compare isolate diagnose changes ack report"},
    {"Exchange results", "import export"},
    {"Keep the host tidy", "clean completion"}};

void group_verbs(CLI::App& app) {
  for (const auto& [heading, verbs] : verb_groups) {
    for (const auto& verb : split(verbs, ' ')) { app.get_subcommand(verb)->group(heading); }
  }
}

/// Printed by `virtrain` without a verb.
constexpr const char* first_words =
    "virtrain measures what virtualization costs a GPU training job, and whether\n"
    "tenants stay out of each other's way.\n"
    "\n"
    "  virtrain demo            a published study, then a measurement on this machine\n"
    "  virtrain doctor          what this host can do, what to fix\n"
    "  virtrain scenarios       the scenarios that ship\n"
    "  virtrain run quickstart  VMs compared with bare metal\n"
    "  virtrain compare         the verdicts of the latest experiment\n"
    "\n"
    "virtrain --help lists all commands, virtrain COMMAND --help what one takes.\n";

int run(int argc, char** argv) {
  open_missing_streams();
  keep_given_descriptors();
  forbid_writing_by_others();
  if (argc == 1) {
    fmt::print(std::cout, "{}", first_words);
    finish_output();
    return 0;
  }
  Cli cli;
  cli.app.formatter(std::make_shared<HelpFormatter>());
  cli.command_line = printable(join(std::vector<std::string>(argv, argv + argc), " "));
  cli.app.set_version_flag("-V,--version", std::string("virtrain ") + virtrain_version);
  cli.app
      .add_option("--log-format", cli.log_format,
                  "Logs on standard error as text or json; experiment id, summary and errors stay text")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
  cli.app.add_flag("-v,--verbose", cli.verbose, "Log every stage");
  cli.app.add_option("--color", colour_when, "auto (on a terminal, unless NO_COLOR is set), always or never")
      ->type_name("WHEN")
      ->check(one_of({"auto", "always", "never"}))
      ->capture_default_str();
  cli.app.require_subcommand(1);
  cli.app.failure_message(usage_words);
  cli.app.fallthrough();
  cli.app.parse_complete_callback([&cli] { configure_log(cli); });
  cli.app.footer(
      "Examples:\n"
      "  virtrain doctor                          what this host can do, what to fix\n"
      "  virtrain plan scenarios/quickstart.yaml  what run would do\n"
      "  virtrain run scenarios/quickstart.yaml   VMs compared with bare metal\n"
      "  virtrain compare --format json           the latest experiment's verdicts");
  add_demo_command(cli);
  add_run_command(cli);
  add_reproduce_command(cli);
  add_scenario_commands(cli);
  add_results_commands(cli);
  add_compare_command(cli);
  add_isolate_command(cli);
  add_changes_commands(cli);
  add_bisect_command(cli);
  add_schedule_command(cli);
  add_payload_command(cli);
  add_report_command(cli);
  add_exchange_commands(cli);
  add_doctor_command(cli);
  add_topology_command(cli);
  add_diagnose_command(cli);
  add_clean_command(cli);
  add_manual_commands(cli);
  group_verbs(cli.app);
  try {
    cli.app.name("virtrain");
    cli.app.parse(words_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    std::ostringstream complaint;
    if (cli.app.exit(error, std::cout, complaint) != 0) { cli.exit_status = exit_status(ErrorCode::usage); }
    fmt::print(std::cerr, "{}", printable(complaint.str()));
  }
  try {
    finish_output();
  } catch (const Error& error) {
    const bool stopped = cli.exit_status > 128;  // says more: nothing but a signal does
    if (!stopped) { throw; }
    print_error(std::string("virtrain: ") + error.what());
  }
  return cli.exit_status;
}

/// Set once, before there are threads.
OpenHost open_host_by;

}  // namespace

std::unique_ptr<vmctl::Host> open_host(const HostRequest& request) {
  return open_host_by(request);
}

std::unique_ptr<vmctl::Host> open_host(const std::filesystem::path& root, std::optional<Elevation> asked) {
  if (root != "/") { return open_host_by({.root = root}); }
  return open_host_by({.elevation = choose_elevation(asked)});
}

int run_cli(int argc, char** argv, OpenHost open) {
  open_host_by = std::move(open);
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away ends no work; finish_output() sees it
  try {
    leave_folders_of_others();
    leave_first_process();
    complete_search_path();
    return run(argc, argv);
  } catch (const Error& error) {
    // A refused input file already says where and what, line by line.
    print_error(error.code() == ErrorCode::bad_input ? error.message()
                                                     : std::string("virtrain: ") + error.what());
    return exit_status(error.code());
  } catch (const std::exception& error) {
    print_error(std::string("virtrain: ") + error.what());
    return exit_status(ErrorCode::io);
  }
}

}  // namespace virtrain::harness
