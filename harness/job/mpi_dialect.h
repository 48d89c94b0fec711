#pragma once

#include <string_view>

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

}  // namespace virtrain::harness
