#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "harness/hosts/slurm.h"

namespace virtrain::harness {

/// The options of a verb that takes its hosts from Slurm.
struct SlurmArguments {
  std::optional<std::string> words;  ///< of salloc; absent: Slurm is not asked
  vmctl::HostNetwork network = {};   ///< between its nodes
};

/// --slurm and --slurm-network; returns the former.
CLI::Option* add_slurm_options(CLI::App& verb, SlurmArguments& arguments);

/// Where --slurm was given outside of a job: runs this process's command line again inside of an allocation
/// that salloc makes, and returns its exit status. SIGTERM, SIGINT and SIGHUP are passed on to it. Nothing:
/// there is a job, or Slurm was not asked. Without `wait` nodes are taken now or not at all: Error(busy) with
/// salloc's words. Throws Error(usage) or Error(host_unable) for its other words.
std::optional<int> run_in_allocation(const SlurmArguments& arguments, bool wait);

/// The job's nodes where --slurm was given, for host processes that are root in the way of --privileges
/// (absent: none); else nothing, which is logged inside of a job.
std::optional<HostList> chosen_allocation(const SlurmArguments& arguments,
                                          std::optional<Elevation> elevation);

/// Throws Error(usage) where several hosts have no network between them.
void require_network(const HostList& hosts, const SlurmArguments& arguments);

}  // namespace virtrain::harness
