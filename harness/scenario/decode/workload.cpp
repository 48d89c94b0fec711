
#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/scenario/decode/described.h"
#include "harness/scenario/decode/sections.h"
#include "harness/scenario/line_pattern.h"
#include "harness/scenario/payload_image.h"
#include "harness/scenario/placeholders.h"
#include "results/exchange/readers/logs/step_lines.h"

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

namespace {

/// Every case, tenant and arm has it again, and the plan that is stored each of its nodes.
constexpr std::size_t most_command_bytes = 8U << 10;

void check_placeholders(MapReader& in, const Workload& workload) {
  for (const auto& word : workload.job->command) {
    if (!mixes_braces(word)) { continue; }
    in.refuse(
        "command",
        "command: '{}' has single braces and pairs of them, and a pair is written for one brace (write each "
        "brace of a text such as JSON twice, or blanks between }} and }})",
        excerpt(word));
  }
  auto values = workload_placeholders(workload);
  for (const auto& name : placement_placeholders) { values[name] = "1"; }
  std::vector<std::string> allowed;
  allowed.reserve(values.size());
  for (const auto& [name, value] : values) { allowed.push_back(name); }
  for (const auto& name : placeholders_in(workload.job->command)) {
    const auto value = values.find(name);
    if (value == values.end()) {
      const auto near = nearest_word(name, allowed);
      in.refuse("command", "command: there is no {{{}}} (allowed: {}; {{{{ is a brace{})", excerpt(name),
                join(allowed, ", "), near ? "; did you mean " + *near + "?" : "");
    } else if (value->second.empty()) {
      in.refuse("command", "command: {{{}}} has no value (add {} to workload)", name, name);
    }
  }
}

/// The command's first word has no placeholders where it names a program.
void check_payload(MapReader& in, const Job& job) {
  if (job.payload.empty() || job.command.empty()) { return; }
  const auto refusal = payload_refusal(job.payload, job.command.front());
  if (!refusal.empty()) { in.refuse("payload", "payload: {} {}", excerpt(job.payload), refusal); }
}

void check_command(MapReader& in, const Workload& workload) {
  const auto& words = workload.job->command;
  std::size_t bytes = 0;
  for (const auto& word : words) { bytes += word.size(); }
  if (words.empty() || words[0].empty()) {
    in.refuse("command", "command must begin with a program (such as [python3, train.py])");
  } else if (bytes > most_command_bytes) {
    in.refuse("command", "command has {} (allowed: at most {})", format_size(bytes),
              format_size(most_command_bytes));
  }
  check_placeholders(in, workload);
  check_payload(in, *workload.job);
  for_each_field<Workload>([&](const auto& field) {
    const char* key = field.is.key;
    if (key == nullptr || !in.has(key) || uses_setting(workload, key)) { return; }
    if (is_of_trainer(key)) {
      in.refuse(key, "{} is of the built-in trainer, and command runs in its place (remove one of them)",
                key);
    } else {
      in.refuse(key, "{} has no effect on this command (write {{{}}} in the command, or remove {})", key, key,
                key);
    }
  });
}

/// `in`: a mapping with `scope`. `for_all`: the scopes of which one speaks for all.
void check_scope(MapReader& in, JobLaunch launch, FigureScope scope,
                 const std::vector<FigureScope>& for_all) {
  const bool fits =
      contains(for_all, scope) || (scope == FigureScope::rank && launch == JobLaunch::mpirun) ||
      (scope == FigureScope::node && (launch == JobLaunch::per_node || launch == JobLaunch::torchrun));
  if (fits) { return; }
  const char* own = launch == JobLaunch::once ? "" : launch == JobLaunch::mpirun ? ", rank" : ", node";
  if (scope == FigureScope::each_rank) {
    return in.refuse("scope",
                     "scope each_rank is of a throughput, which is added over ranks (allowed: job{})", own);
  }
  in.refuse("scope", "with launch {} nobody knows which {} says a figure (allowed: {}{})", to_string(launch),
            to_string(scope), for_all.size() > 1 ? "job, each_rank" : "job", own);
}

/// As scenarios write it, and import.
std::string format_word(LineFormat format) {
  return format == LineFormat::nccl_tests ? "nccl-tests" : to_string(format);
}

void read_format(MapReader& in, JobThroughput& throughput) {
  const auto is = property_of(&JobThroughput::format);
  std::vector<std::string> words;
  for (const auto format : enum_values<LineFormat>()) { words.push_back(format_word(format)); }
  const auto word = in.one_of(is.key, words, in.describes() ? about(is) : About{.text = is.text});
  if (word) { throughput.format = enum_values<LineFormat>()[*word]; }
}

/// Fills in what the format says and the scenario does not.
void complete(JobThroughput& throughput) {
  if (throughput.format) {
    const auto& facts = results::facts_of(*throughput.format);
    if (facts.unit != nullptr) { throughput.unit = facts.unit; }
    if (!throughput.scope) { throughput.scope = facts.scope; }
  }
  if (!throughput.scope) { throughput.scope = FigureScope::job; }
}

/// `in`: a mapping with `pattern` and `example`.
LinePattern check_pattern(MapReader& in, const std::string& text, const std::string& example,
                          LinePattern::Values values) {
  LinePattern pattern(text, values);
  if (!pattern.refusal().empty()) {
    in.refuse("pattern", "pattern: {}", pattern.refusal());
  } else if (example.empty()) {
    in.refuse("pattern", "a pattern needs an example: a line of the job that it matches");
  } else if (!pattern.matches(example)) {
    in.refuse("example", "example: the pattern does not match '{}'", excerpt(example));
  } else if (const auto reading = pattern.read(example); !reading->figure) {
    in.refuse("example",
              "example: (?P<value>...) finds {} (let the group match all of the number, such as "
              R"((?P<value>[\d.,e+]+)))",
              reading->refusal);
  }
  return pattern;
}

/// Keys that a table has no use for, and one that only a table has. `in`: the mapping `throughput`.
void check_table_keys(MapReader& in, const JobThroughput& throughput) {
  const bool is_table = throughput.format == LineFormat::nccl_tests;
  if (!is_table && in.has("size")) {
    in.refuse("size", "size is of format nccl-tests, whose table has a row for each (remove it)");
  }
  for (const char* key : {"skip", "scope"}) {
    if (is_table && in.has(key)) {
      in.refuse(key, "format nccl-tests has a table of the whole job, printed once (remove {})", key);
    }
  }
}

/// `in`: the mapping `throughput`.
void check_throughput(MapReader& in, const JobThroughput& throughput) {
  check_table_keys(in, throughput);
  if (throughput.format) {
    for (const char* key : {"pattern", "example"}) {
      if (in.has(key)) { in.refuse(key, "a format has its own {} (remove it, or format)", key); }
    }
    const char* unit = results::facts_of(*throughput.format).unit;
    if (unit != nullptr && !throughput.unit.empty() && throughput.unit != unit) {
      in.refuse("unit", "format {} counts {} (remove unit)", format_word(*throughput.format), unit);
    } else if (unit == nullptr && throughput.unit.empty()) {
      in.refuse("format", "format {} needs a unit: what its figures count a second (such as tokens/s)",
                format_word(*throughput.format));
    }
    return;
  }
  if (throughput.pattern.empty()) {
    const char* key = in.has("example") ? "example" : "unit";
    return in.refuse(
        key, "throughput needs a pattern of the lines that say it, an example and a unit, or a format");
  }
  const auto pattern =
      check_pattern(in, throughput.pattern, throughput.example, LinePattern::Values::above_zero);
  if (const auto settings = pattern.settings(); pattern.refusal().empty() && !settings.empty()) {
    in.refuse("pattern",
              "pattern: a throughput has no settings, and (?P<{}>...) is one (allowed: value, work; figures "
              "have settings)",
              excerpt(settings.front()));
  }
  if (throughput.unit.empty()) {
    in.refuse("unit", "throughput needs a unit: what its figures count a second (such as tokens/s)");
  }
}

void decode_throughput(MapReader& in, Job& job) {
  const auto is = property_of(&Job::throughput);
  const auto complaints = in.diagnostics().found().size();
  const auto child = in.child(is.key, in.describes() ? about(is) : About{.text = is.text});
  if (!child) {
    if (job.throughput.pattern.empty() && !job.throughput.format) {
      in.refuse("command",
                "a command needs throughput: {pattern, example, unit}, which says where its figures are");
    }
    return;
  }
  MapReader inner(*child, is.key, in.diagnostics());
  // Another way to find figures takes the place of the one that is inherited, and not a part of it.
  if (!in.describes() && (inner.has("pattern") || inner.has("format"))) { job.throughput = JobThroughput(); }
  read_format(inner, job.throughput);
  read_fields(inner, job.throughput,
              [](const Property& field) { return std::string_view(field.key) != "format"; });
  inner.finish();
  if (!in.describes() && in.diagnostics().found().size() == complaints) {
    check_throughput(inner, job.throughput);
    complete(job.throughput);
    check_scope(inner, job.launch, *job.throughput.scope, {FigureScope::job, FigureScope::each_rank});
  }
}

void decode_figures(MapReader& in, Job& job) {
  std::set<std::string> names;
  const auto check = [&](MapReader& inner, const JobFigureLines& figure) {
    const auto pattern = check_pattern(inner, figure.pattern, figure.example, LinePattern::Values::any);
    if (pattern.has_work()) {
      inner.refuse("pattern", "pattern: (?P<work>...) is of a throughput (allowed: value, and settings)");
    }
    check_scope(inner, job.launch, figure.scope, {FigureScope::job});
    if (!names.insert(figure.name).second) {
      inner.refuse("name", "figures: {} is there twice (allowed: each name once)", figure.name);
    }
  };
  read_records(in, property_of(&Job::figures), job.figures, check);
}

}  // namespace

void decode_job(MapReader& in, Workload& workload) {
  const bool is_job = workload.job || in.describes() || in.has("command");
  if (!is_job) {
    for (const char* key : {"launch", "payload", "throughput", "figures"}) {
      if (in.has(key)) {
        in.refuse(key, "{} is of a command, and the built-in trainer needs none (add command, or remove {})",
                  key, key);
      }
    }
    return;
  }
  auto job = workload.job.value_or(Job());
  const auto complaints = in.diagnostics().found().size();
  read_fields(in, job, [](const Property& is) {
    return std::string_view(is.key) != "throughput" && std::string_view(is.key) != "figures";
  });
  decode_throughput(in, job);
  decode_figures(in, job);
  if (in.describes()) { return; }
  if (!job.payload.empty() && !job.payload.starts_with('/')) {
    const auto folder = std::filesystem::path(in.diagnostics().file_name()).parent_path();
    job.payload = std::filesystem::absolute(folder / job.payload).lexically_normal().string();
  }
  workload.job = std::move(job);
  workload.backend = Backend::cpu;  // of no trainer of ours
  if (in.diagnostics().found().size() > complaints) { return; }
  check_command(in, workload);
}

}  // namespace virtrain::harness
