#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/job/mpi_dialect.h"
#include "harness/plan/placement.h"

// How the ranks of a tenant are started: command lines and environments. All pure.

namespace virtrain::harness {

/// How ranks talk to each other, which decides mpirun's arguments.
enum class RankNetwork { single_process, shared_memory, tcp };

/// mpirun's command line for ranks over these nodes. `crowded`: more ranks or nodes than cores.
/// `temporary_folder`: of each node, see vmctl::NodeFacts; mpirun's own would be one in /tmp whose name any
/// user can foresee, and which it removes with all that is there.
std::vector<std::string> mpirun_command(const MpiDialect& mpi, const std::vector<std::string>& hostnames,
                                        std::int64_t ranks_per_node, RankNetwork network, bool crowded,
                                        std::int64_t timeout_seconds, const std::string& temporary_folder,
                                        const std::vector<std::string>& program);

/// The trainer's command line.
std::vector<std::string> trainer_command(const std::string& program, const Workload& workload,
                                         std::int64_t threads, bool beside_others = false);

/// The environment of the ranks on this node: the workload's, `of_node`, and what the harness adds; of that
/// only the number of threads overrides them.
std::map<std::string, std::string> rank_environment(const TenantPlacement& placement,
                                                    const std::map<std::string, std::string>& of_node,
                                                    RankNetwork network, bool crowded);

}  // namespace virtrain::harness
