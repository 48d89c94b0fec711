#include <CLI/CLI.hpp>
#include <fmt/ostream.h>

#include <algorithm>
#include <iostream>

#include "common/files/new_file.h"
#include "common/files/user_folders.h"
#include "common/version.h"
#include "harness/cli/choices.h"
#include "harness/cli/commands.h"
#include "harness/cli/manual.h"
#include "harness/schedule/schedule.h"
#include "results/store/store.h"

namespace virtrain::harness {
namespace {

using manual::Argument;
using manual::Completes;
using manual::Verb;

/// Reads the kind of a value from its type's name in --help: "FILE", "FILE.xml|NAME", "TEXT:DIR".
Completes completes(const std::string& type) {
  if (type.starts_with("FILE")) { return Completes::files; }
  if (type.starts_with("DIR") || type.ends_with(":DIR")) { return Completes::folders; }
  if (type == "EXPERIMENT") { return Completes::experiments; }
  if (type == "SCHEDULE") { return Completes::schedules; }
  return Completes::nothing;
}

std::string without_check(const std::string& type) {
  return type.ends_with(":DIR") ? "DIR" : type;
}

/// "~/.local/share/virtrain/results.db": for whoever reads it.
std::string without_home(const std::string& text) {
  const auto home = home_folder().string() + "/";
  return home.size() > 1 && text.starts_with(home) ? "~/" + text.substr(home.size()) : text;
}

/// --help as data: the app and all verbs below it but the hidden ones.
Argument describe(CLI::Option& option) {
  Argument argument;
  for (const auto& name : option.get_snames()) { argument.names.push_back("-" + name); }
  for (const auto& name : option.get_lnames()) { argument.names.push_back("--" + name); }
  argument.text = option.get_description();
  argument.required = option.get_required();
  argument.repeatable = option.get_expected_max() > 1;
  if (option.get_group() != "Options") { argument.group = option.get_group(); }
  const bool takes_value = option.get_type_size() != 0;
  if (takes_value) {
    const auto type = option.get_type_name();
    argument.value = without_check(type);
    argument.initial = without_home(option.get_default_str());
    argument.completes = completes(type);
    argument.words = words_allowed_by(option);
    if (!argument.words.empty()) { argument.completes = Completes::words; }
  }
  return argument;
}

Verb describe(CLI::App& app, const std::string& name) {
  Verb verb;
  verb.name = name;
  verb.text = app.get_description();
  verb.footer = app.get_footer();
  for (auto* option : app.get_options([](CLI::Option*) { return true; })) {
    auto argument = describe(*option);
    if (option->get_positional()) {
      auto by_itself = argument;
      by_itself.names = {option->get_name(true)};
      verb.positionals.push_back(std::move(by_itself));
    }
    if (!argument.names.empty()) {
      argument.required = argument.required && !option->get_positional();
      verb.options.push_back(std::move(argument));
    }
  }
  for (auto* below : app.get_subcommands([](CLI::App*) { return true; })) {
    if (!below->get_group().empty()) {
      verb.verbs.push_back(describe(*below, name + " " + below->get_name()));
    }
  }
  return verb;
}

Verb describe(CLI::App& app) {
  return describe(app, "virtrain");
}

/// Completion leaves the database as it is when another process holds it, or when it answers slowly.
std::vector<std::string> listed(const std::filesystem::path& database, manual::Completes kind) {
  if (kind == manual::Completes::schedules) { return ScheduleBook().names(); }
  constexpr std::chrono::milliseconds busy_timeout{200}, longest_step{1000};
  std::vector<std::string> ids;
  for (const auto& one :
       results::Store(database, results::Store::Mode::open, busy_timeout, longest_step).list_experiments()) {
    ids.push_back(one.experiment.id);
  }
  return ids;
}

/// Each page and each completion script, under the name by which its reader finds it.
void write_manual(CLI::App& app, const std::filesystem::path& folder) {
  const auto program = harness::describe(app);
  std::filesystem::create_directories(folder / "man1");
  for (const auto* verb : manual::all_verbs(program)) {
    write_file_atomically(folder / "man1" / (manual::page_name(*verb) + ".1"),
                          manual::man_page(*verb, program, virtrain_version));
  }
  for (const auto& shell : manual::shells()) {
    const auto file = folder / manual::completion_file(shell);
    std::filesystem::create_directories(file.parent_path());
    write_file_atomically(file, manual::completion(shell));
  }
}

}  // namespace

void add_manual_commands(Cli& cli) {
  auto* completion = cli.app.add_subcommand(
      "completion", "Print the script by which a shell completes virtrain's command lines");
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "bash, fish or zsh")
      ->type_name("SHELL")
      ->required()
      ->check(one_of(manual::shells()));
  completion->footer(
      "The packages install these scripts. Without them, have your shell read one when it starts.\n"
      "Examples:\n"
      "  source <(virtrain completion bash)       in ~/.bashrc\n"
      "  source <(virtrain completion zsh)        in ~/.zshrc, after compinit\n"
      "  virtrain completion fish | source        in ~/.config/fish/config.fish");
  completion->callback([shell] { fmt::print(std::cout, "{}", manual::completion(*shell)); });

  // For those scripts: no verb of users.
  auto* word = cli.app.add_subcommand("complete-word", "Print what completes the last word")->group("");
  auto database = std::make_shared<std::filesystem::path>();
  add_database_option(*word, *database);
  auto words = std::make_shared<std::vector<std::string>>();
  auto* given = word->add_option("words", *words, "The command line behind --, without the program's name");
  word->callback([&cli, database, words, given] {
    fmt::print(std::cout, "{}",
               manual::completions(harness::describe(cli.app), given->results(),
                                   [&](manual::Completes kind) { return listed(*database, kind); }));
  });

  // For the build, which installs them: no verb of users.
  auto* pages = cli.app.add_subcommand("manual", "Write the manual pages and completion scripts")->group("");
  auto folder = std::make_shared<std::filesystem::path>();
  pages->add_option("folder", *folder, "Folder to write into")->type_name("DIR")->required();
  pages->callback([folder, &cli] { write_manual(cli.app, *folder); });
}

}  // namespace virtrain::harness
