#include "harness/job/mpi_dialect.h"

#include <algorithm>

#include "common/text/scanner.h"
#include "common/text/units.h"

namespace virtrain::harness {

MpiDialect mpi_dialect(std::string_view version) {
  const auto named = version.rfind(") ");  // "mpirun.openmpi (Open MPI) 5.0.7", "mpirun (OpenRTE) 4.1.4"
  if (named == std::string_view::npos) { return {}; }
  const auto number = version.substr(named + 2);
  const auto* const end = std::ranges::find_if_not(number, is_digit);
  const auto digits = static_cast<std::size_t>(end - number.begin());
  if (parse_integer(number.substr(0, digits)).value_or(0) < 5) { return {}; }
  return {.launcher = "ssh",
          .launcher_agent = "plm_ssh_agent",
          .launcher_no_tree = "plm_ssh_no_tree_spawn",
          .launcher_environment = "plm_ssh_pass_environ_mca_params",
          .daemon_interface = "prte_if_include",
          .daemon_variables = "PRTE_MCA_",
          .shared_memory = "sm",
          .session_folder = "prte_tmpdir_base",
          .memory_folder = "btl_sm_backing_directory",
          .tag_end = ": "};
}

}  // namespace virtrain::harness
