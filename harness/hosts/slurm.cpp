#include "harness/hosts/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "common/contains.h"
#include "common/system/subprocess.h"
#include "common/text/cpu_list.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/scenario/decode/hosts.h"

namespace virtrain::harness {
namespace {

constexpr const char* reading = "read the allocation from scontrol";

/// Value of NAME=VALUE in a line of such words; nothing without it.
std::optional<std::string_view> value_in(std::string_view line, std::string_view name) {
  for (const auto word : virtrain::words_of(line)) {
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=') {
      return word.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

/// The entries of "gpu:a100:2(IDX:0,3),nic:1(IDX:0)": only commas outside of parentheses part them.
std::vector<std::string_view> resources_in(std::string_view text) {
  std::vector<std::string_view> found;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] == '(') { ++depth; }
    if (at < text.size() && text[at] == ')') { --depth; }
    if (at == text.size() || (text[at] == ',' && depth == 0)) {
      if (at > begin) { found.push_back(text.substr(begin, at - begin)); }
      begin = at + 1;
    }
  }
  return found;
}

/// A slice of a GPU: its number is not the GPU's.
bool is_mig(std::string_view entry) {
  return entry.find("g.") != std::string_view::npos && entry.find("gb") != std::string_view::npos;
}

/// Numbers of whole GPUs; absent where there are GPUs without a number.
std::optional<std::vector<int>> gpus_in(std::string_view resources) {
  std::vector<int> gpus;
  for (const auto entry : resources_in(resources)) {
    const auto name = entry.substr(0, entry.find_first_of(":("));
    if (name != "gpu") { continue; }
    constexpr std::string_view key = "(IDX:";
    const auto at = entry.find(key);
    const auto end = entry.find(')', at == std::string_view::npos ? 0 : at);
    if (at == std::string_view::npos || end == std::string_view::npos || is_mig(entry)) {
      return std::nullopt;
    }
    const auto list = entry.substr(at + key.size(), end - at - key.size());
    if (list == "N/A") { continue; }
    const auto numbers = parse_number_list(list);
    if (!numbers) { return std::nullopt; }
    gpus.insert(gpus.end(), numbers->begin(), numbers->end());
  }
  std::ranges::sort(gpus);
  return gpus;
}

/// A number that Slurm may have written with a unit, "80G"; without one it is MiB.
std::int64_t memory_in(std::string_view text) {
  const auto digits = text.find_first_not_of("0123456789");
  const auto number = parse_integer(text.substr(0, digits));
  if (!number) { return 0; }
  const char unit = digits == std::string_view::npos ? 'M' : text[digits];
  return unit == 'G' ? *number * 1024 : unit == 'T' ? *number * 1024 * 1024 : *number;
}

/// Whether the n-th physical core by Slurm's numbers, which go from socket to socket, is the n-th by the
/// kernel's: no threads, and NUMA nodes that do not alternate.
bool numbers_agree(const vmctl::Inventory& inventory) {
  int node = -1;
  auto cores = inventory.cores;
  std::ranges::sort(cores, {}, &vmctl::Core::id);
  for (const auto& core : cores) {
    if (core.first_sibling >= 0 || core.numa_node < node) { return false; }
    node = core.numa_node;
  }
  return true;
}

void keep_cores(vmctl::Inventory& inventory, const AllocatedNode& node, const std::string& host) {
  if (inventory.cores.size() <= node.cpus.size()) { return; }
  if (!numbers_agree(inventory)) {
    throw Error(
        fmt::format("find the cores of Slurm job {} on {}", node.job, host), ErrorCode::host_unable,
        fmt::format(
            "the job has {} of its {} and Slurm does not bind it to them (TaskPlugin=task/affinity or "
            "task/cgroup does); ask for --exclusive",
            node.cpus.size(), counted(inventory.cores.size(), "CPU")));
  }
  const auto is_foreign = [&](int core) { return !contains(node.cpus, core); };
  std::erase_if(inventory.cores, [&](const vmctl::Core& core) { return is_foreign(core.id); });
  std::erase_if(inventory.leased_cores, is_foreign);
}

/// Why the job may not have the device; empty: it may.
std::string foreign_device(const vmctl::HostDevice& device, const AllocatedNode& node,
                           const std::string& host) {
  if (device.device_class != vmctl::DeviceClass::gpu) {
    return fmt::format("Slurm job {} shares {} with other jobs (ask for --exclusive)", node.job, host);
  }
  if (!node.gpus) {
    return fmt::format("Slurm does not say which GPUs of {} job {} has (ask for --exclusive)", host,
                       node.job);
  }
  if (!device.minor) {
    return fmt::format(
        "whether Slurm job {} has this GPU of {} is unknown: NVIDIA's driver, which gives its number, does "
        "not have it (ask for --exclusive)",
        node.job, host);
  }
  if (contains(*node.gpus, *device.minor)) { return ""; }
  return fmt::format(
      "Slurm job {} does not have this GPU of {}, /dev/nvidia{} (ask for more with "
      "--gpus-per-node)",
      node.job, host, *device.minor);
}

std::string output_of(const std::vector<std::string>& command) {
  const auto refuse = [&](const std::string& why) {
    throw Error("look at the Slurm job", ErrorCode::host_unable,
                fmt::format("{}: {}", join(command, " "), why));
  };
  if (on_path(command[0]).empty()) { refuse("it is not installed on this machine"); }
  CommandResult result;
  try {
    result = run_command(command);
  } catch (const Error& error) { refuse(error.message() + " (does slurmctld answer? try it by hand)"); }
  if (result.exit_status != 0) {
    refuse(fmt::format("exit status {}: {}", result.exit_status, excerpt(trim(result.err), 300)));
  }
  return result.out;
}

}  // namespace

std::optional<SlurmJob> current_slurm_job() {
  const char* const id = std::getenv("SLURM_JOB_ID");
  const char* const nodes = std::getenv("SLURM_JOB_NODELIST");
  if (id == nullptr || nodes == nullptr || *id == '\0' || *nodes == '\0') { return std::nullopt; }
  return SlurmJob{id, nodes};
}

std::optional<std::vector<int>> parse_number_list(std::string_view text) {
  if (text.empty()) { return std::nullopt; }
  try {
    return parse_cpu_list(text);
  } catch (const Error&) { return std::nullopt; }
}

std::map<std::string, AllocatedNode> parse_allocation(std::string_view text, const std::string& job,
                                                      const ExpandNodes& expand) {
  std::map<std::string, AllocatedNode> found;
  bool is_ours = false, is_exclusive = false, counts_gpus_over_all = false;
  // One record a job: the components of a heterogeneous job each have one.
  for (const auto& line : split(text, '\n')) {
    if (line.starts_with("JobId=")) { is_ours = value_in(line, "JobId") == job; }
    if (!is_ours) { continue; }
    if (value_in(line, "OverSubscribe") == "NO") { is_exclusive = true; }
    if (value_in(line, "TresPerJob").value_or("").find("gpu") != std::string_view::npos) {
      counts_gpus_over_all = true;
    }
    const auto nodes = value_in(line, "Nodes");
    const auto cpus = value_in(line, "CPU_IDs");
    if (!nodes || !cpus) { continue; }
    const auto numbers = parse_number_list(*cpus);
    if (!numbers) {
      throw Error(reading, ErrorCode::host_unable,
                  fmt::format("CPU_IDs={} of job {} is not a list of numbers", excerpt(*cpus, 60), job));
    }
    // Older versions say GRES_IDX=gpu(IDX:0-1).
    const auto resources = value_in(line, "GRES").value_or(value_in(line, "GRES_IDX").value_or(""));
    const auto memory = memory_in(value_in(line, "Mem").value_or("0"));
    for (const auto& name : expand(std::string(*nodes))) {
      found[name] = {job, *numbers, gpus_in(resources), memory, false};
    }
  }
  if (found.empty()) {
    throw Error(reading, ErrorCode::host_unable,
                fmt::format("job {} has no nodes (is it still running?): {}", job, excerpt(trim(text), 200)));
  }
  if (counts_gpus_over_all && found.size() > 1) {
    throw Error(
        reading, ErrorCode::host_unable,
        fmt::format("job {} has its GPUs counted over all of its nodes, and srun starts nothing on one of "
                    "them there (ask for --gpus-per-node)",
                    job));
  }
  for (auto& [name, node] : found) { node.is_exclusive = is_exclusive; }
  return found;
}

void keep_allocated(vmctl::Inventory& inventory, const AllocatedNode& node, const std::string& host) {
  if (node.is_exclusive) { return; }
  keep_cores(inventory, node, host);
  if (node.memory_mib > 0) {
    const auto bytes = static_cast<std::uint64_t>(node.memory_mib) << 20;
    inventory.memory_bytes = std::min(inventory.memory_bytes, bytes);
    inventory.available_memory_bytes = std::min(inventory.available_memory_bytes, bytes);
  }
  for (const auto* devices : {&inventory.devices, &inventory.other_devices}) {
    for (const auto& device : *devices) {
      const auto why = foreign_device(device, node, host);
      if (!why.empty()) { inventory.withheld_devices.emplace(device.function.address, why); }
    }
  }
}

HostList look_at_allocation(const SlurmJob& job, const vmctl::HostNetwork& network, Elevation elevation) {
  const ExpandNodes expand = [](const std::string& nodes) {
    std::vector<std::string> names;
    for (const auto& line : split(output_of({"scontrol", "show", "hostnames", nodes}), '\n')) {
      if (!line.empty()) { names.push_back(line); }
    }
    return names;
  };
  const auto nodes = parse_allocation(output_of({"scontrol", "show", "job", "-d", job.id}), job.id, expand);
  HostList list{launcher_words(KnownLauncher::slurm), {}};
  if (elevation == Elevation::group) { list.launcher.emplace_back("--via-group-socket"); }
  if (elevation == Elevation::sudo) { list.launcher.insert(list.launcher.end() - 1, {"sudo", "-n", "--"}); }
  for (const auto& name : expand(job.nodes)) {
    const auto found = nodes.find(name);
    if (found == nodes.end() || !is_host_name(name)) {
      throw Error(reading, ErrorCode::host_unable,
                  fmt::format("job {} has node {}, but scontrol does not say which cores of it", job.id,
                              excerpt(name, 60)));
    }
    list.hosts.push_back({name, network, found->second});
  }
  std::ranges::sort(list.hosts, {}, &ListedHost::name);
  return list;
}

ErrorCode meaning_of_refusal(std::string_view said) {
  const auto text = lower(std::string(said));
  const auto has = [&](std::string_view words) { return text.find(words) != std::string::npos; };
  if (has("option") || has("usage:") || has("invalid numeric value") || has("invalid --")) {
    return ErrorCode::usage;
  }
  // Slurm's words for what may be otherwise at another time.
  for (const auto* words :
       {"requested nodes are busy", "unable to allocate resources: connection timed out",
        "immediate execution impossible", "required node not available", "temporarily unavailable"}) {
    if (has(words)) { return ErrorCode::busy; }
  }
  return ErrorCode::host_unable;
}

bool has_immediate(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) {
    return word.starts_with("--imm") || (word.starts_with("-I") && !word.starts_with("--"));
  });
}

std::vector<std::string> split_quoted(std::string_view text) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = '\0';
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool is_blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (quote == '\0' && is_blank) {
      if (word) { words.push_back(*std::exchange(word, std::nullopt)); }
      continue;
    }
    if (!word) { word.emplace(); }
    if (c == '\\' && quote != '\'' && at + 1 < text.size()) {
      *word += text[++at];
    } else if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else {
      *word += c;
    }
  }
  if (quote != '\0') {
    throw Error("split into words", ErrorCode::usage,
                fmt::format("the quote {} is not closed in: {}", quote, excerpt(text, 120)));
  }
  if (word) { words.push_back(*word); }
  return words;
}

}  // namespace virtrain::harness
