#include "harness/scenario/decode/workload.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/units.h"
#include "harness/scenario/decode/described.h"
#include "harness/scenario/decode/job.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_variables = 1024;
/// Every case, tenant and arm has it again, and the plan that is stored each of its nodes.
constexpr std::size_t most_environment_bytes = 8U << 10;

bool is_environment_name(const std::string& text) {
  const auto is_part = [](char c) { return is_letter(c) || is_digit(c) || c == '_'; };
  return !text.empty() && text.size() <= 256 && !is_digit(text[0]) &&
         std::all_of(text.begin(), text.end(), is_part);
}

/// Variables that virtrain or its mpirun sets whatever the scenario says, and what to use for them; a name
/// with "*" at its end means all that begin so.
struct ReservedVariable {
  std::string_view name, instead;
};
constexpr std::string_view to_mpirun = "mpirun has it on its command line";
constexpr std::array reserved_variables = {
    ReservedVariable{"OMP_NUM_THREADS", "use threads"},
    ReservedVariable{"CUDA_VISIBLE_DEVICES", "GPUs are chosen by devices"},
    ReservedVariable{"VIRTRAIN_AGENT_SOCKET", "it is how mpirun reaches other nodes"},
    ReservedVariable{"VIRTRAIN_AGENT_SECRET", "it is how mpirun reaches other nodes"},
    ReservedVariable{"TMPDIR", "each node has a folder of its own"},
    ReservedVariable{"PMIX_SERVER_TMPDIR", "each node has a folder of its own"},
    ReservedVariable{"PMIX_SYSTEM_TMPDIR", "each node has a folder of its own"},
    ReservedVariable{"OMPI_COMM_WORLD_*", "mpirun tells each rank its place so"},
    ReservedVariable{"OMPI_MCA_pml", to_mpirun},
    ReservedVariable{"OMPI_MCA_btl", to_mpirun},
    ReservedVariable{"OMPI_MCA_btl_base_verbose", to_mpirun},
    ReservedVariable{"OMPI_MCA_btl_tcp_if_include", to_mpirun},
    ReservedVariable{"OMPI_MCA_btl_vader_backing_directory", to_mpirun},
    ReservedVariable{"OMPI_MCA_btl_sm_backing_directory", to_mpirun},
    ReservedVariable{"OMPI_MCA_orte_tmpdir_base", to_mpirun},
    ReservedVariable{"OMPI_MCA_orte_local_tmpdir_base", to_mpirun},
    ReservedVariable{"OMPI_MCA_orte_remote_tmpdir_base", to_mpirun},
    ReservedVariable{"OMPI_MCA_prte_tmpdir_base", to_mpirun},
    ReservedVariable{"OMPI_MCA_plm", to_mpirun},
    ReservedVariable{"OMPI_MCA_plm_rsh_*", to_mpirun},
    ReservedVariable{"OMPI_MCA_plm_ssh_*", to_mpirun},
    ReservedVariable{"OMPI_MCA_oob_tcp_if_include", to_mpirun},
    ReservedVariable{"OMPI_MCA_prte_if_include", to_mpirun},
    ReservedVariable{"OMPI_MCA_oob_tcp_keepalive_*", to_mpirun},
    ReservedVariable{"PRTE_MCA_*", "they are for the daemons of Open MPI 5, which virtrain starts"},
};

const ReservedVariable* reserved_variable(std::string_view name) {
  const auto is_this = [&](const ReservedVariable& one) {
    return one.name.ends_with('*') ? name.starts_with(one.name.substr(0, one.name.size() - 1))
                                   : name == one.name;
  };
  const auto* const found = std::find_if(reserved_variables.begin(), reserved_variables.end(), is_this);
  return found == reserved_variables.end() ? nullptr : found;
}

/// The schema's rules about names that are reserved.
Schema environment_rules() {
  Schema whole = Schema::array();
  std::string prefixes;
  for (const auto& one : reserved_variables) {
    if (one.name.ends_with('*')) {
      prefixes += (prefixes.empty() ? "^(" : "|") + std::string(one.name.substr(0, one.name.size() - 1));
    } else {
      whole.push_back(one.name);
    }
  }
  return {{"maxProperties", most_variables},
          {"propertyNames",
           {{"pattern", "^[A-Za-z_][A-Za-z0-9_]{0,255}$"},
            {"not", {{"anyOf", {{{"enum", whole}}, {{"pattern", prefixes + ")"}}}}}}}}};
}

void decode_environment(const Field& field, Variables& environment, Diagnostics& diagnostics) {
  MapReader names(field, "env", diagnostics);
  if (names.size() > most_variables) {
    diagnostics.add(names.mark(), "env has {} variables (allowed: at most {})", names.size(), most_variables);
    return;
  }
  const auto variables = names.all_text(environment_rules());
  std::size_t bytes = 0;
  for (const auto& [name, value] : variables) { bytes += name.size() + value.size(); }
  if (bytes > most_environment_bytes) {
    diagnostics.add(names.mark(), "env has {} of names and values (allowed: at most {})", format_size(bytes),
                    format_size(most_environment_bytes));
    return;
  }
  for (const auto& [name, value] : variables) {
    if (!is_environment_name(name)) {
      names.refuse(name, "env: '{}' is not a variable's name (allowed: [A-Za-z_][A-Za-z0-9_]*)",
                   excerpt(name));
    } else if (const auto* reserved = reserved_variable(name)) {
      names.refuse(name, "env: virtrain sets {} itself ({})", name, reserved->instead);
    } else {
      environment[name] = value;
    }
  }
}

}  // namespace

void read_environment(MapReader& in, const Property& is, Variables& into) {
  if (const auto variables = in.child(is.key, about(is))) {
    decode_environment(*variables, into, in.diagnostics());
  }
}

Workload decode_workload(const Field& field, Workload base, Diagnostics& diagnostics) {
  MapReader in(field, "workload", diagnostics);
  read_fields(in, base);
  decode_job(in, base);
  in.schema_rules({{"if", {{"properties", {{"backend", {{"const", "cpu"}}}}}, {"required", {"backend"}}}},
                   {"then", {{"properties", {{"precision", {{"enum", {"fp32", "bf16"}}}}}}}}});
  in.finish();
  if (base.job) { return base; }

  if (base.backend == Backend::cpu &&
      (base.precision == Precision::tf32 || base.precision == Precision::fp16)) {
    in.refuse("precision", "precision {} is not possible with backend cpu (allowed: fp32, bf16)",
              to_string(base.precision));
  }
  if (base.steps < base.display_every) {
    in.refuse("display_every", "display_every {} leaves no sample in {} (allowed: at most steps)",
              base.display_every, counted(base.steps, "step"));
  }
  if (const auto refusal = normalization_refusal(base); !refusal.empty()) {
    in.refuse(in.has("batch_size") ? "batch_size" : "image_size", refusal);
  }
  return base;
}

}  // namespace virtrain::harness
