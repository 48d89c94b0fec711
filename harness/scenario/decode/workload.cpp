#include "harness/scenario/decode/workload.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_variables = 1024;
/// Every case, tenant and arm has it again, and the plan that is stored each of its nodes.
constexpr std::size_t most_environment_bytes = 8U << 10;
constexpr std::uint64_t bucket_unit = 1ULL << 20;

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

/// What the schema says of names that are reserved.
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

void decode_environment(const Field& field, Workload& workload, Diagnostics& diagnostics) {
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
      workload.environment[name] = value;
    }
  }
}

/// Values of one channel in the last blocks, whose maps are a 32nd of the image: batch normalization needs
/// two.
std::int64_t values_to_normalize(const Workload& workload) {
  const std::int64_t side = (workload.image_size + 31) / 32;
  return workload.batch_size * side * side;
}

}  // namespace

Workload decode_workload(const Field& field, Workload base, Diagnostics& diagnostics) {
  MapReader in(field, "workload", diagnostics);
  in.one_of("model", {"resnet50"}, {.text = "Model that is trained", .fallback = base.model});
  in.one_of("backend", base.backend, "Trainer that computes on CPUs, or on GPUs with CUDA");
  in.one_of("precision", base.precision,
            "Arithmetic of convolutions and matrix products; tf32 and fp16 need backend cuda");
  in.integer("batch_size", {1, 4096}, base.batch_size, "Images per rank and step");
  in.integer("image_size", {32, 1024}, base.image_size, "Pixels of each side");
  in.integer("warmup_steps", {0, 100'000}, base.warmup_steps, "Steps before those that count");
  in.integer("steps", {1, 1'000'000}, base.steps, "Counted steps");
  in.integer("display_every", {1, 1'000'000}, base.display_every, "Counted steps in one sample");
  in.integer("accumulate_steps", {1, 1024}, base.accumulate_steps,
             "Batches whose gradients are added before the weights change");
  in.integer("seed", {0, 2'147'483'647}, base.seed, "Seed of weights and images");
  const About of_bucket{.text = "Gradients that one all-reduce carries, in whole MiB",
                        .absent = "the trainer chooses, 25MiB",
                        .example = "4MiB"};
  if (const auto bytes = in.size_bytes("bucket", bucket_unit, 1024 * bucket_unit, of_bucket)) {
    base.bucket_mib = static_cast<std::int64_t>(*bytes / bucket_unit);
    if (*bytes % bucket_unit != 0) { in.refuse("bucket", "bucket: allowed are whole MiB, such as 4MiB"); }
  }
  const About of_threads{
      .text = "Threads per rank", .absent = "the node's cores divided by its ranks", .example = 8};
  if (const auto threads = in.integer("threads", {1, 1024}, of_threads)) { base.threads = *threads; }
  if (const auto env = in.child("env", {.text = "Environment variables of each rank",
                                        .absent = "only those that virtrain sets",
                                        .example = {{"NCCL_DEBUG", "INFO"}}})) {
    decode_environment(*env, base, diagnostics);
  }
  in.schema_rules({{"if", {{"properties", {{"backend", {{"const", "cpu"}}}}}, {"required", {"backend"}}}},
                   {"then", {{"properties", {{"precision", {{"enum", {"fp32", "bf16"}}}}}}}}});
  in.finish();

  if (base.backend == Backend::cpu &&
      (base.precision == Precision::tf32 || base.precision == Precision::fp16)) {
    in.refuse("precision", "precision {} is not possible with backend cpu (allowed: fp32, bf16)",
              to_string(base.precision));
  }
  if (base.steps < base.display_every) {
    in.refuse("display_every", "display_every {} leaves no sample in {} (allowed: at most steps)",
              base.display_every, counted(base.steps, "step"));
  }
  if (values_to_normalize(base) < 2) {
    in.refuse(in.has("batch_size") ? "batch_size" : "image_size",
              "batch_size {} at image_size {} leaves one value to normalize in the last blocks "
              "(allowed: batch_size 2 or more, or image_size 33 or more)",
              base.batch_size, base.image_size);
  }
  return base;
}

}  // namespace virtrain::harness
