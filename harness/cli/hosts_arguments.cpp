#include "harness/cli/hosts_arguments.h"

#include "harness/cli/help/choices.h"
#include "harness/scenario/decode/hosts.h"

namespace virtrain::harness {

CLI::Option* add_hosts_options(CLI::App& verb, HostsArguments& arguments) {
  auto* hosts = verb.add_option("--hosts", arguments.hosts,
                                "Hosts file, or names with commas between that ssh reaches: gpu-a,gpu-b "
                                "(default: the scenario's hosts, else this machine)")
                    ->type_name("FILE|NAMES")
                    ->check(not_empty());
  verb.add_flag("--skip-unreachable", arguments.skip_unreachable,
                "Leave out hosts that do not answer, and say so");
  return hosts;
}

void take_hosts(const HostsArguments& arguments, Scenario& scenario) {
  if (!arguments.hosts.empty()) { set_hosts(scenario, hosts_of(scenario, arguments.hosts)); }
}

}  // namespace virtrain::harness
