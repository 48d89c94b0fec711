#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "harness/scenario/scenario.h"

namespace virtrain::harness {

/// The hosts that a verb's command line names.
struct HostsArguments {
  std::string hosts;  ///< a hosts file, or names with commas between; empty: none
  bool skip_unreachable = false;
};

/// Adds --hosts and --skip-unreachable to a verb; returns the former.
CLI::Option* add_hosts_options(CLI::App& verb, HostsArguments& arguments);

/// Gives the scenario the hosts that the command line names, if any.
void take_hosts(const HostsArguments& arguments, Scenario& scenario);

}  // namespace virtrain::harness
