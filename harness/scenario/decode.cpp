#include "harness/scenario/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>

#include "common/error.h"
#include "common/scanner.h"
#include "common/text.h"
#include "harness/scenario/decode_devices.h"
#include "harness/scenario/yaml_reader.h"
#include "harness/scenario/yaml_shape.h"

namespace virtrain::harness {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::uint64_t mib = 1ULL << 20;
constexpr std::uint64_t ti_b = 1ULL << 40;

constexpr std::size_t most_variables = 1024;
constexpr std::size_t most_trials = 50'000;
constexpr std::size_t most_node_starts = 250'000;

const std::vector<std::string> backends{"cpu", "cuda"};
const std::vector<std::string> precisions{"fp32", "tf32", "bf16", "fp16"};
const std::vector<std::string> pinnings{"none", "cores", "numa"};
const std::vector<std::string> arms{arm_bare_metal, arm_vm, arm_bare_metal_shared};

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
    ReservedVariable{"OMPI_COMM_WORLD_*", "mpirun tells each rank its place so"},
    ReservedVariable{"OMPI_MCA_pml", to_mpirun},
    ReservedVariable{"OMPI_MCA_btl", to_mpirun},
    ReservedVariable{"OMPI_MCA_btl_base_verbose", to_mpirun},
    ReservedVariable{"OMPI_MCA_btl_tcp_if_include", to_mpirun},
    ReservedVariable{"OMPI_MCA_plm", to_mpirun},
    ReservedVariable{"OMPI_MCA_plm_rsh_*", to_mpirun},
    ReservedVariable{"OMPI_MCA_oob_tcp_if_include", to_mpirun},
    ReservedVariable{"OMPI_MCA_oob_tcp_keepalive_*", to_mpirun},
};

const ReservedVariable* reserved_variable(std::string_view name) {
  const auto is_this = [&](const ReservedVariable& one) {
    return one.name.ends_with('*') ? name.starts_with(one.name.substr(0, one.name.size() - 1))
                                   : name == one.name;
  };
  const auto* const found = std::find_if(reserved_variables.begin(), reserved_variables.end(), is_this);
  return found == reserved_variables.end() ? nullptr : found;
}

void decode_environment(const YAML::Node& node, Workload& workload, Diagnostics& diagnostics) {
  MapReader names(node, "env", diagnostics);
  if (node.size() > most_variables) {
    diagnostics.add(node.Mark(),
                    fmt::format("env has {} variables (allowed: at most {})", node.size(), most_variables));
    return;
  }
  for (const auto& [name, value] : names.all_text()) {
    if (!is_environment_name(name)) {
      names.refuse(name, fmt::format("env: '{}' is not a variable's name (allowed: [A-Za-z_][A-Za-z0-9_]*)",
                                     excerpt(name)));
    } else if (const auto* reserved = reserved_variable(name)) {
      names.refuse(name, fmt::format("env: virtrain sets {} itself ({})", name, reserved->instead));
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

/// Keys given here override `base` (the scenario's own workload for a tenant's).
Workload decode_workload(const YAML::Node& node, Workload base, Diagnostics& diagnostics) {
  MapReader in(node, "workload", diagnostics);
  in.one_of("model", {"resnet50"});
  if (const auto i = in.one_of("backend", backends)) { base.backend = static_cast<Backend>(*i); }
  if (const auto i = in.one_of("precision", precisions)) { base.precision = static_cast<Precision>(*i); }
  const auto integer = [&](const char* key, Range range, std::int64_t& into) {
    if (const auto value = in.integer(key, range)) { into = *value; }
  };
  integer("batch_size", {1, 4096}, base.batch_size);
  integer("image_size", {32, 1024}, base.image_size);
  integer("warmup_steps", {0, 100'000}, base.warmup_steps);
  integer("steps", {1, 1'000'000}, base.steps);
  integer("display_every", {1, 1'000'000}, base.display_every);
  integer("accumulate_steps", {1, 1024}, base.accumulate_steps);
  integer("seed", {0, 2'147'483'647}, base.seed);
  if (const auto threads = in.integer("threads", {1, 1024})) { base.threads = *threads; }
  if (const auto environment = in.child("env")) { decode_environment(*environment, base, diagnostics); }
  in.finish();

  if (base.backend == Backend::cpu &&
      (base.precision == Precision::tf32 || base.precision == Precision::fp16)) {
    in.refuse("precision", fmt::format("precision {} is not possible with backend cpu (allowed: fp32, bf16)",
                                       to_string(base.precision)));
  }
  if (base.steps < base.display_every) {
    in.refuse("display_every",
              fmt::format("display_every {} leaves no sample in {} steps (allowed: at most steps)",
                          base.display_every, base.steps));
  }
  if (values_to_normalize(base) < 2) {
    in.refuse(in.has("batch_size") ? "batch_size" : "image_size",
              fmt::format("batch_size {} at image_size {} leaves one value to normalize in the last blocks "
                          "(allowed: batch_size 2 or more, or image_size 33 or more)",
                          base.batch_size, base.image_size));
  }
  return base;
}

Guest decode_guest(const YAML::Node& node, Diagnostics& diagnostics) {
  Guest guest;
  MapReader in(node, "guest", diagnostics);
  in.require("vcpus");
  in.require("memory");
  if (const auto image = in.text("image", 4096)) {
    guest.image = *image;
    if (*image != mirror_image && !image->starts_with('/')) {
      in.refuse("image", fmt::format("image: '{}' is neither mirror nor the absolute path of a qcow2 or raw "
                                     "image with cloud-init (allowed: mirror, /path/to/image.qcow2)",
                                     excerpt(*image)));
    }
  }
  if (const auto vcpus = in.integer("vcpus", {1, 1024})) { guest.vcpus = *vcpus; }
  if (const auto memory = in.size_bytes("memory", 128 * mib, 64 * ti_b)) { guest.memory_bytes = *memory; }
  if (const auto i = in.one_of("pinning", pinnings)) { guest.pinning = static_cast<Pinning>(*i); }
  if (const auto hugepages = in.boolean("hugepages")) { guest.hugepages = *hugepages; }
  in.finish();
  return guest;
}

/// What a placement asks of each node, in a tenant and in `scale` alike.
struct PerNode {
  std::int64_t gpus = 0;
  std::int64_t ranks = 1;
  std::string vgpu_type;
};

PerNode decode_per_node(MapReader& in, const Scenario& scenario, const Workload& workload) {
  PerNode per_node;
  if (const auto gpus = in.integer("gpus_per_node", {0, most_per_node})) { per_node.gpus = *gpus; }
  per_node.ranks = per_node.gpus > 0 ? per_node.gpus : 1;
  if (const auto ranks = in.integer("ranks_per_node", {1, most_per_node})) { per_node.ranks = *ranks; }
  per_node.vgpu_type = scenario.devices.vgpu_type;
  if (const auto type = in.text("vgpu_type", most_type_bytes)) {
    per_node.vgpu_type = *type;
    if (scenario.devices.kind != DeviceKind::vgpu) {
      in.refuse("vgpu_type", "vgpu_type needs devices of kind vgpu (remove one of them)");
    }
  }
  if (scenario.devices.kind == DeviceKind::vgpu && per_node.gpus > 0 && per_node.vgpu_type.empty()) {
    in.refuse("gpus_per_node",
              "a vGPU needs a type (devices.type, or vgpu_type here; virtrain doctor --devices lists them)");
  }
  if (per_node.gpus > 0 && scenario.devices.kind == DeviceKind::none) {
    in.refuse("gpus_per_node",
              "gpus_per_node needs devices of a kind other than none (allowed here: 0, or ranks_per_node)");
  }
  if (per_node.gpus == 0 && workload.backend == Backend::cuda) {
    in.refuse("gpus_per_node",
              "backend cuda needs at least one GPU in each node (gpus_per_node, and devices)");
  }
  if (per_node.gpus > 0 && per_node.ranks != per_node.gpus) {
    in.refuse("ranks_per_node", "there is one rank for each GPU (leave ranks_per_node out)");
  }
  return per_node;
}

void decode_tenants(const YAML::Node& node, const Scenario& scenario, const Workload& base, Case& out,
                    Diagnostics& diagnostics) {
  std::set<std::string> names;
  for (const auto& item : read_list(node, "tenants", 1, most_nodes, diagnostics)) {
    MapReader in(item, "tenant", diagnostics);
    Tenant tenant;
    tenant.name = in.name("name").value_or(fmt::format("tenant-{}", out.tenants.size() + 1));
    if (!names.insert(tenant.name).second) {
      in.refuse("name", fmt::format("two tenants are named '{}'", tenant.name));
    }
    tenant.nodes = in.integer("nodes", {1, most_nodes}).value_or(1);
    tenant.workload = base;
    if (const auto workload = in.child("workload")) {
      tenant.workload = decode_workload(*workload, base, diagnostics);
    }
    const auto per_node = decode_per_node(in, scenario, tenant.workload);
    tenant.gpus_per_node = per_node.gpus;
    tenant.ranks_per_node = per_node.ranks;
    tenant.vgpu_type = per_node.vgpu_type;
    in.finish();
    out.tenants.push_back(std::move(tenant));
  }
}

std::vector<Case> decode_scale(const YAML::Node& node, const Scenario& scenario, const Workload& base,
                               const std::string& name, Diagnostics& diagnostics) {
  MapReader in(node, "scale", diagnostics);
  in.require("nodes");
  const auto per_node = decode_per_node(in, scenario, base);
  std::vector<Case> cases;
  if (const auto sizes = in.child("nodes")) {
    std::set<std::int64_t> seen;
    for (const auto& item : read_list(*sizes, "nodes", 1, 64, diagnostics)) {
      // A list item has no key of its own, so it is read as the value of one.
      YAML::Node wrapped(YAML::NodeType::Map);
      wrapped["nodes"] = item;
      const auto size = MapReader(wrapped, "scale", diagnostics).integer("nodes", {1, most_nodes});
      if (!size) { continue; }
      if (!seen.insert(*size).second) {
        diagnostics.add(item.Mark(), fmt::format("size {} is there twice", *size));
      }
      cases.push_back({fmt::format("{}/{}", name, *size),
                       name,
                       {{"tenant-1", *size, per_node.gpus, per_node.ranks, base, per_node.vgpu_type}}});
    }
  }
  in.finish();
  return cases;
}

void decode_case(const YAML::Node& node, const Workload& base, Scenario& scenario,
                 std::set<std::string>& names, Diagnostics& diagnostics) {
  MapReader in(node, "case", diagnostics);
  in.require("name");
  const std::string name = in.name("name").value_or("unnamed");
  if (!names.insert(name).second) { in.refuse("name", fmt::format("two cases are named '{}'", name)); }
  Workload workload = base;
  if (const auto own = in.child("workload")) { workload = decode_workload(*own, base, diagnostics); }
  const auto tenants = in.child("tenants");
  const auto scale = in.child("scale");
  if (tenants.has_value() == scale.has_value()) {
    diagnostics.add(in.mark(), fmt::format("case '{}' needs exactly one of 'tenants' and 'scale'", name));
  } else if (tenants) {
    Case placement{name, "", {}};
    decode_tenants(*tenants, scenario, workload, placement, diagnostics);
    scenario.cases.push_back(std::move(placement));
  } else {
    for (auto& sized : decode_scale(*scale, scenario, workload, name, diagnostics)) {
      scenario.cases.push_back(std::move(sized));
    }
  }
  in.finish();
}

/// Words of a list under this key, each of them allowed and there once.
std::vector<std::string> decode_words(MapReader& in, const char* key, const std::vector<std::string>& allowed,
                                      Diagnostics& diagnostics) {
  std::vector<std::string> words;
  const auto list = in.child(key);
  if (!list) { return words; }
  for (const auto& item : read_list(*list, key, 1, allowed.size(), diagnostics)) {
    const std::string word = item.IsScalar() ? item.Scalar() : "";
    if (std::find(allowed.begin(), allowed.end(), word) == allowed.end()) {
      diagnostics.add(item.Mark(), fmt::format("{}: '{}' is not allowed (allowed: {})", key, excerpt(word),
                                               join(allowed, ", ")));
    } else if (std::find(words.begin(), words.end(), word) != words.end()) {
      diagnostics.add(item.Mark(), fmt::format("{}: '{}' is there twice", key, word));
    } else {
      words.push_back(word);
    }
  }
  return words;
}

/// Those that one process can measure; what concerns GPUs needs ranks that have some.
std::vector<std::string> decode_probes(MapReader& in, const std::vector<Case>& cases,
                                       Diagnostics& diagnostics) {
  auto allowed = host_probes;
  allowed.insert(allowed.end(), gpu_probes.begin(), gpu_probes.end());
  auto probes = decode_words(in, "probes", allowed, diagnostics);
  const auto trains_on_gpus = [](const Case& one) {
    return std::any_of(one.tenants.begin(), one.tenants.end(),
                       [](const Tenant& tenant) { return tenant.workload.backend == Backend::cuda; });
  };
  const auto of_gpus = std::find_if(probes.begin(), probes.end(), is_gpu_probe);
  if (of_gpus != probes.end() && std::none_of(cases.begin(), cases.end(), trains_on_gpus)) {
    in.refuse("probes", fmt::format("probes: {} needs a tenant with backend cuda (allowed here: {})",
                                    *of_gpus, join(host_probes, ", ")));
  }
  return probes;
}

void decode_expect(MapReader& in, Scenario& scenario, Diagnostics& diagnostics) {
  const auto expect = in.child("expect");
  if (!expect) { return; }
  MapReader expectations(*expect, "expect", diagnostics);
  if (const auto node = expectations.child("vm_vs_bare_metal")) {
    MapReader limits(*node, "vm_vs_bare_metal", diagnostics);
    limits.require("margin");
    Expectation wanted;
    if (const auto margin = limits.share("margin", 0, 1)) { wanted.margin = *margin; }
    if (const auto alpha = limits.share("alpha", 0, 0.5)) { wanted.alpha = *alpha; }
    limits.finish();
    scenario.vm_vs_bare_metal = wanted;
    if (!has_arm(scenario, arm_vm) || !has_arm(scenario, arm_bare_metal)) {
      in.refuse("expect", "vm_vs_bare_metal needs both arms, bare_metal and vm");
    }
  }
  expectations.finish();
}

/// A plan has an entry for each trial and each of its nodes, and nobody waits for years.
void check_extent(MapReader& in, const Scenario& scenario) {
  const auto times = static_cast<std::size_t>(scenario.pairs) * scenario.arms.size();
  const std::size_t trials = times * scenario.cases.size();
  std::size_t node_starts = 0;
  for (const auto& one : scenario.cases) {
    for (const auto& tenant : one.tenants) { node_starts += times * static_cast<std::size_t>(tenant.nodes); }
  }
  if (trials > most_trials || node_starts > most_node_starts) {
    in.refuse("pairs",
              fmt::format("{} cases in {} arms, {} times, are {} trials of {} nodes in all (allowed: at most "
                          "{} and {}; fewer pairs, cases or arms)",
                          scenario.cases.size(), scenario.arms.size(), scenario.pairs, trials, node_starts,
                          most_trials, most_node_starts));
  }
}

Scenario decode_document(const YAML::Node& document, Diagnostics& diagnostics) {
  Scenario scenario;
  MapReader in(document, "the scenario", diagnostics);
  for (const char* key : {"name", "workload", "guest", "cases"}) { in.require(key); }
  scenario.name = in.name("name").value_or("");
  scenario.description = in.text("description").value_or("");
  Workload base;
  if (const auto node = in.child("workload")) { base = decode_workload(*node, base, diagnostics); }
  if (const auto node = in.child("guest")) { scenario.guest = decode_guest(*node, diagnostics); }
  if (const auto node = in.child("devices")) { scenario.devices = decode_devices(*node, diagnostics); }
  if (const auto node = in.child("cases")) {
    std::set<std::string> names;
    for (const auto& item : read_list(*node, "cases", 1, 256, diagnostics)) {
      decode_case(item, base, scenario, names, diagnostics);
    }
  }
  scenario.arms = decode_words(in, "arms", arms, diagnostics);
  if (scenario.arms.empty()) { scenario.arms = {arm_bare_metal, arm_vm}; }
  scenario.probes = decode_probes(in, scenario.cases, diagnostics);
  scenario.pairs = in.integer("pairs", {1, 10'000}).value_or(6);
  if (const auto i = in.one_of("reuse", {"trial", "case"})) { scenario.reuse = static_cast<Reuse>(*i); }
  scenario.oversubscribe = in.boolean("oversubscribe").value_or(false);
  scenario.settle_ns = in.duration_ns("settle", 0, 3600 * second_ns).value_or(0);
  scenario.boot_timeout_ns = in.duration_ns("boot_timeout", second_ns, 3600 * second_ns)
                                 .value_or(scenario.guest.is_mirror() ? 90 * second_ns : 600 * second_ns);
  scenario.trial_timeout_ns =
      in.duration_ns("trial_timeout", second_ns, 7L * 24 * 3600 * second_ns).value_or(3600 * second_ns);
  check_extent(in, scenario);
  decode_expect(in, scenario, diagnostics);
  in.finish();
  if (scenario.pairs > 1 && scenario.pairs % 2 == 1 && scenario.arms.size() > 1) {
    scenario.warnings.push_back(fmt::format(
        "pairs: {} is odd, so one order of the arms runs once more often than the other", scenario.pairs));
  }
  return scenario;
}

}  // namespace

bool has_arm(const Scenario& scenario, const std::string& arm) {
  return std::find(scenario.arms.begin(), scenario.arms.end(), arm) != scenario.arms.end();
}

bool is_gpu_probe(const std::string& probe) {
  return std::find(gpu_probes.begin(), gpu_probes.end(), probe) != gpu_probes.end();
}

const char* to_string(Backend backend) {
  return backends[static_cast<std::size_t>(backend)].c_str();
}
const char* to_string(Precision precision) {
  return precisions[static_cast<std::size_t>(precision)].c_str();
}

Scenario decode_scenario(const std::string& text, const std::string& file_name) {
  Diagnostics diagnostics(file_name);
  if (text.size() > max_scenario_bytes) {
    throw Error(
        "read " + file_name, ErrorCode::bad_input,
        fmt::format("{}:1:1: the file has {} bytes (allowed: at most 1 MiB)", file_name, text.size()));
  }
  if (const auto bad = find_invalid_utf8(text); bad != std::string::npos) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n') + 1;
    const auto column = bad - (bad == 0 ? 0 : text.rfind('\n', bad - 1) + 1) + 1;
    throw Error(
        "read " + file_name, ErrorCode::bad_input,
        fmt::format("{}:{}:{}: these bytes are no UTF-8 (save the file as UTF-8)", file_name, line, column));
  }
  Scenario scenario;
  if (check_yaml_shape(text, diagnostics)) { scenario = decode_document(YAML::Load(text), diagnostics); }
  diagnostics.throw_if_any();
  scenario.text = text;
  return scenario;
}

Scenario load_scenario(const std::string& path) {
  if (path == "-") {
    return decode_scenario({std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()},
                           "<stdin>");
  }
  const auto text = read_file(path);
  if (!text) {
    throw Error(
        "read " + path, ErrorCode::bad_input,
        fmt::format("{}:1:1: the file cannot be read: {}", path, std::generic_category().message(errno)));
  }
  return decode_scenario(*text, path);
}

}  // namespace virtrain::harness
