#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/placement.h"

// How the ranks of a tenant are started: command lines and environments. All pure.

namespace virtrain::harness {

/// The words of one version of Open MPI, where they differ. From version 5 on PRRTE starts the ranks.
struct MpiDialect {
  std::string_view launcher = "rsh";  ///< component that starts daemons by a remote shell
  std::string_view launcher_agent = "plm_rsh_agent";
  std::string_view launcher_no_tree = "plm_rsh_no_tree_spawn";
  std::string_view launcher_environment =
      "plm_rsh_pass_environ_mca_params";  ///< whether daemons get mpirun's
  std::string_view daemon_interface = "oob_tcp_if_include";
  std::string_view daemon_variables =
      "OMPI_MCA_";                           ///< begin names of variables that tell a daemon such a parameter
  std::string_view shared_memory = "vader";  ///< component that carries bytes between ranks of a node
  std::string_view session_folder = "orte_tmpdir_base";            ///< below which its daemons keep files
  std::string_view memory_folder = "btl_vader_backing_directory";  ///< of the files that ranks share
  std::string_view tag_end = ":";  ///< of what --tag-output puts before a line
};

/// The dialect of the program with this version text (`mpirun --version`); version 4's where it is not
/// understood.
MpiDialect mpi_dialect(std::string_view version);

/// How ranks talk to each other, which decides mpirun's arguments.
enum class RankNetwork { single_process, shared_memory, tcp };

/// A node as mpirun is told of it.
struct MpiNode {
  std::string name;  ///< by which mpirun's daemon there is asked for: a hostname or an IPv4 address
  std::int64_t ranks = 1;
  std::string interface;  ///< to the other nodes: "eth0"
  /// See vmctl::NodeFacts; mpirun's own would be one in /tmp whose name any user can foresee, and which it
  /// removes with all that is there.
  std::string temporary_folder;
};

/// Whether all nodes have the same interface and folder, so that one command line holds for all. Else each is
/// told its own by daemon_environment().
bool are_alike(const std::vector<MpiNode>& nodes);

/// mpirun's command line for ranks over these nodes. `crowded`: more ranks or nodes than cores.
std::vector<std::string> mpirun_command(const MpiDialect& mpi, const std::vector<MpiNode>& nodes,
                                        RankNetwork network, bool crowded, std::int64_t timeout_seconds,
                                        const std::vector<std::string>& program);

/// Variables by which the daemon on a node, and the ranks that it starts, know that node's own interface.
std::map<std::string, std::string> daemon_environment(const MpiDialect& mpi, const MpiNode& node);

/// The trainer's command line. `fusion` is for the CUDA trainer.
std::vector<std::string> trainer_command(const std::string& program, const Workload& workload,
                                         std::int64_t threads, bool beside_others = false,
                                         FusionRule fusion = FusionRule::highest);

/// The environment of the ranks on this node: the workload's, `of_node`, and what the harness adds; of that
/// only the number of threads overrides them. `interface`: of the node, to the others.
std::map<std::string, std::string> rank_environment(const TenantPlacement& placement,
                                                    const std::map<std::string, std::string>& of_node,
                                                    RankNetwork network, bool crowded,
                                                    const std::string& interface);

/// Where the processes of a command in one node stand among the others.
struct RankPlace {
  std::size_t node = 0, nodes = 1;
  std::int64_t rank = 0, ranks = 1;  ///< of launch per_node: one a planned node
  std::int64_t ranks_per_node = 1;
  std::string address = {};    ///< of the first node in its tenant's network
  std::string interface = {};  ///< of this node, to the others
  int port = 0;                ///< where ranks meet
};

/// The environment of a command beside rank_environment(): its place, by the names that PyTorch's
/// env:// reads (launch per_node) or torchrun does, and the interface of the tenant's network.
std::map<std::string, std::string> job_environment(JobLaunch launch, const RankPlace& place,
                                                   RankNetwork network);

}  // namespace virtrain::harness
