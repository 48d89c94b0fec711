#pragma once

#include <string>

#include "harness/cli/run_scenario.h"
#include "results/tables/render.h"

namespace virtrain::harness {

/// `isolate --security`.
struct SecurityArguments {
  std::string scenario;  ///< file; empty: a small scenario of its own
  std::string report;    ///< file; empty: none
  results::Format format = results::Format::table;
  bool expect = false;
  bool until_filled = false;  ///< this is the run that is killed when it has filled its device
  RunOptions options;
};

/// Runs the searches of the scenario without its trials and prints them; the exit status.
int search_for_leaks(SecurityArguments& arguments, const std::string& command_line);

/// Prints the stored searches of these experiments and returns them. Error(not_found) where they have none.
std::vector<results::LeakSearch> print_security(const results::Store& store,
                                                const std::vector<std::string>& experiments,
                                                results::Format format);

}  // namespace virtrain::harness
