#include <fmt/ostream.h>

#include <iostream>

#include "common/files/new_file.h"
#include "common/version.h"
#include "harness/cli/commands.h"
#include "harness/cli/help/choices.h"
#include "harness/cli/help/description.h"
#include "harness/cli/manual/completion.h"
#include "harness/cli/manual/man_page.h"
#include "harness/schedule/schedule.h"
#include "results/store/store.h"

namespace virtrain::harness {
namespace {

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
