#pragma once

#include <CLI/CLI.hpp>

#include <functional>
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

struct AllocationRequest {
  bool wait = false;  ///< for nodes; else they are taken now or not at all: Error(busy) with salloc's words
  std::optional<Elevation> elevation = {};  ///< how host processes are root there; absent: not
};

/// Where --slurm was given outside of a job: runs this process's command line again inside of an allocation
/// that salloc makes, and returns its exit status. SIGTERM, SIGINT and SIGHUP are passed on to it. Inside of
/// a job: tells `take` its nodes. Where Slurm was not asked it does neither, which is logged inside of a job.
/// Throws Error(usage) or Error(host_unable) for salloc's other words.
std::optional<int> take_allocation(const SlurmArguments& arguments, const AllocationRequest& request,
                                   const std::function<void(HostList)>& take);

/// Throws Error(usage) where several hosts have no network between them.
void require_network(const HostList& hosts, const SlurmArguments& arguments);

}  // namespace virtrain::harness
