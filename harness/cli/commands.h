#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>

#include "results/tables/render.h"

namespace virtrain::harness {

/// State that all verbs share. Verbs register themselves on the app; the chosen one's callback sets
/// `exit_status`.
struct Cli {
  CLI::App app{
      "virtrain: measures what virtualization costs a GPU training job, and whether tenants stay out of each "
      "other's way."};
  std::string log_format = "text";
  bool verbose = false;
  bool quiet = false;        ///< logs warnings and errors only
  std::string command_line;  ///< as given, for the database
  int exit_status = 0;
};

void add_scenario_commands(Cli& cli);  ///< validate, plan, scenarios, schema
void add_demo_command(Cli& cli);       ///< demo
void add_run_command(Cli& cli);        ///< run
void add_reproduce_command(Cli& cli);  ///< reproduce
void add_results_commands(Cli& cli);   ///< list, show
void add_compare_command(Cli& cli);    ///< compare
void add_isolate_command(Cli& cli);    ///< isolate
void add_changes_commands(Cli& cli);   ///< changes, ack
void add_bisect_command(Cli& cli);     ///< bisect
void add_schedule_command(Cli& cli);   ///< schedule
void add_payload_command(Cli& cli);    ///< payload
void add_report_command(Cli& cli);     ///< report
void add_exchange_commands(Cli& cli);  ///< export, import
/// Adds --experiment, --scenario and --label to a verb.
void add_selection_options(CLI::App& verb, results::Selection& selection);
void add_doctor_command(Cli& cli);    ///< doctor
void add_topology_command(Cli& cli);  ///< topology
void add_diagnose_command(Cli& cli);  ///< diagnose
void add_clean_command(Cli& cli);     ///< clean
void add_manual_commands(Cli& cli);   ///< completion, and for the build manual

/// Help of a verb's argument that names a scenario.
inline constexpr const char* scenario_help = "Scenario file, name of a shipped one, or - for standard input";
/// Adds --db to a verb; the default is $VIRTRAIN_DB, else $XDG_DATA_HOME/virtrain/results.db.
void add_database_option(CLI::App& verb, std::filesystem::path& database);
/// Adds --label to a verb that makes an experiment; what is stored has to be UTF-8.
void add_label_option(CLI::App& verb, std::string& label);
/// Adds --yes to a verb that reads a scenario.
void add_large_sweeps_flag(CLI::App& verb, bool& large_sweeps);
/// The option that names `database` again in a command that we propose; empty for the default.
std::string database_option(const std::filesystem::path& database);
/// Adds --format table|json|csv|markdown to a verb, and --json.
void add_format_option(CLI::App& verb, results::Format& format);
/// Whether standard output is a terminal that shows colour (NO_COLOR is honoured).
bool colour_on_stdout();
/// That terminal; where there is none, a screen without colour and as wide as any table.
results::Screen screen_of_stdout();

}  // namespace virtrain::harness
