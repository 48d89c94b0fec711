#include "vmctl/machine/inventory.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sched.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "common/contains.h"
#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/cgroups.h"
#include "common/system/subprocess.h"
#include "common/text/cpu_list.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/api/limits.h"
#include "vmctl/devices/pci.h"
#include "vmctl/machine/host_words.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// Numbered children of a sysfs folder: "cpu7" of prefix "cpu" is 7; in order.
std::vector<int> numbered(const fs::path& folder, std::string_view prefix) {
  std::vector<int> numbers;
  for (const auto& entry : entries_of(folder)) {
    const auto name = entry.filename().string();
    if (!name.starts_with(prefix)) { continue; }
    if (const auto number = parse_integer(std::string_view(name).substr(prefix.size()))) {
      numbers.push_back(static_cast<int>(*number));
    }
  }
  std::ranges::sort(numbers);
  return numbers;
}

/// As much of a line's value as is shown.
std::string value_of(std::string_view text, std::string_view name) {
  return line_value(text, name).substr(0, longest_shown_bytes);
}

/// "16384 kB" in bytes.
std::uint64_t bytes_of_kilobytes(const std::string& text) {
  const auto number = parse_integer(trim(std::string_view(text).substr(0, text.find(' '))));
  return number && *number > 0 ? static_cast<std::uint64_t>(*number) << 10 : 0;
}

/// By what /proc/cpuinfo of each looks like (arch/*/kernel of Linux).
std::string architecture_of(const std::string& cpu) {
  if (!value_of(cpu, "CPU implementer").empty()) { return "aarch64"; }
  if (value_of(cpu, "cpu").starts_with("POWER")) { return "ppc64le"; }
  if (value_of(cpu, "isa").starts_with("rv")) { return "riscv64"; }
  return value_of(cpu, "vendor_id") == "IBM/S390" ? "s390x" : supported_architecture;
}

/// "address sizes\t: 46 bits physical, 57 bits virtual" of /proc/cpuinfo.
int physical_address_bits(const std::string& cpu) {
  const auto sizes = value_of(cpu, "address sizes");
  const auto words = words_of(sizes);
  return words.empty() ? 0 : static_cast<int>(parse_integer(words[0]).value_or(0));
}

std::uint64_t number_in_file(const fs::path& file) {
  const auto text = read_value(file);
  const auto number = text ? parse_integer(*text) : std::nullopt;
  return number && *number > 0 ? static_cast<std::uint64_t>(*number) : 0;
}

/// Reads a file with a list of CPUs; none if it is not there.
std::vector<int> cpus_in(const fs::path& file) {
  try {
    return parse_cpu_list(read_value(file).value_or(""));
  } catch (const Error& error) {
    throw Error("read " + file.string(), error.code(), file.string() + ": " + error.message());
  }
}

/// The lowest CPU that is a thread of the same physical core; -1 where it is the core's only one, or unknown.
int first_sibling(const fs::path& cpu_folder, int cpu) {
  const auto list = cpu_folder / fmt::format("cpu{}", cpu) / "topology/thread_siblings_list";
  const auto threads = cpus_in(list);
  return threads.size() < 2 ? -1 : *std::ranges::min_element(threads);
}

/// The lowest CPU that shares this one's last-level cache, of the highest level there is; -1: unknown.
int last_level_cache(const fs::path& cpu_folder, int cpu) {
  int highest = 0;
  int lowest_cpu = -1;
  const auto caches = cpu_folder / fmt::format("cpu{}", cpu) / "cache";
  for (const int index : numbered(caches, "index")) {
    const auto folder = caches / fmt::format("index{}", index);
    const auto level = parse_integer(read_value(folder / "level").value_or(""));
    const auto cpus = cpus_in(folder / "shared_cpu_list");
    if (!level || *level <= highest || cpus.empty()) { continue; }
    highest = static_cast<int>(*level);
    lowest_cpu = *std::ranges::min_element(cpus);
  }
  return lowest_cpu;
}

std::vector<Core> read_cores(const fs::path& root, const std::vector<int>& nodes) {
  const auto cpu_folder = root / "sys/devices/system/cpu";
  std::vector<int> online = cpus_in(cpu_folder / "online");
  if (online.empty()) { online = numbered(cpu_folder, "cpu"); }
  std::map<int, int> node_of;
  for (const int node : nodes) {
    const auto list = root / "sys/devices/system/node" / ("node" + std::to_string(node)) / "cpulist";
    for (const int cpu : cpus_in(list)) { node_of[cpu] = node; }
  }
  std::vector<Core> cores;
  cores.reserve(online.size());
  for (const int cpu : online) {
    cores.push_back({cpu, node_of.contains(cpu) ? node_of[cpu] : 0, first_sibling(cpu_folder, cpu),
                     last_level_cache(cpu_folder, cpu)});
  }
  return cores;
}

/// Whoever takes cores in order shall share a physical core with somebody else only once each is in use. Of
/// usable cores: where a first thread is not, the second is as good.
void put_first_threads_first(std::vector<Core>& cores) {
  std::map<int, int> seen;  // threads so far, by physical core
  std::vector<std::vector<Core>> by_thread(1);
  for (const auto& core : cores) {
    const auto thread = static_cast<std::size_t>(core.first_sibling < 0 ? 0 : seen[core.first_sibling]++);
    if (thread == by_thread.size()) { by_thread.emplace_back(); }
    by_thread[thread].push_back(core);
  }
  cores.clear();
  for (const auto& some : by_thread) { cores.insert(cores.end(), some.begin(), some.end()); }
}

/// CPUs that this process may run on; covers affinity and cpusets alike.
std::set<int> own_affinity() {
  std::set<int> allowed;
  // The kernel refuses a mask that is shorter than its own, and says nothing of how long that is.
  for (std::size_t words = 1; words <= 64; words *= 2) {
    std::vector<cpu_set_t> mask(words);
    const std::size_t bytes = words * sizeof mask[0];
    if (::sched_getaffinity(0, bytes, mask.data()) != 0) { continue; }
    for (std::size_t cpu = 0; cpu < words * CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, mask.data())) { allowed.insert(static_cast<int>(cpu)); }
    }
    break;
  }
  return allowed;
}

NumaNode read_node(const fs::path& root, int id) {
  const auto folder = root / "sys/devices/system/node" / ("node" + std::to_string(id));
  NumaNode node;
  node.id = id;
  node.memory_bytes = bytes_of_kilobytes(
      value_of(read_file(folder / "meminfo").value_or(""), fmt::format("Node {} MemTotal", id)));
  node.free_hugepages_1gib = number_in_file(folder / "hugepages/hugepages-1048576kB/free_hugepages");
  node.free_hugepages_2mib = number_in_file(folder / "hugepages/hugepages-2048kB/free_hugepages");
  return node;
}

std::map<std::string, std::string> read_mitigations(const fs::path& root) {
  std::map<std::string, std::string> found;
  for (const auto& entry : entries_of(root / "sys/devices/system/cpu/vulnerabilities")) {
    if (auto value = read_value(entry)) { found[entry.filename().string()] = *value; }
  }
  return found;
}

void restrict_to_this_process(Inventory& inventory) {
  const auto allowed = own_affinity();
  if (!allowed.empty()) {
    std::erase_if(inventory.cores, [&](const Core& core) { return !allowed.contains(core.id); });
  }
  if (const auto limit = cgroup_memory_limit()) {
    inventory.memory_bytes = std::min(inventory.memory_bytes, *limit);
    inventory.available_memory_bytes = std::min(inventory.available_memory_bytes, *limit);
  }
}

void add_if_known(std::map<std::string, std::string>& facts, const char* name,
                  std::optional<std::string> value) {
  if (value && !value->empty()) { facts[name] = *value; }
}

/// First line of a program's --version, without blanks around; nothing if it is not installed.
std::optional<std::string> version_of(const std::vector<std::string>& command) {
  try {
    const auto result = run_command(command);
    if (result.exit_status != 0) { return std::nullopt; }
    return std::string(trim(std::string_view(result.out).substr(0, result.out.find('\n'))));
  } catch (const Error&) { return std::nullopt; }
}

}  // namespace

Inventory load_machine(const fs::path& root) {
  const auto cpu = read_file(root / "proc/cpuinfo").value_or("");
  const auto memory = read_file(root / "proc/meminfo").value_or("");
  if (cpu.find(':') == cpu.npos || memory.find(':') == memory.npos) {
    throw Error("read the inventory", ErrorCode::bad_input,
                "no proc/cpuinfo and proc/meminfo under " + root.string() + "; is it a recorded host?");
  }
  auto nodes = numbered(root / "sys/devices/system/node", "node");
  if (nodes.empty()) { nodes = {0}; }

  Inventory inventory;
  inventory.hostname = read_value(root / "proc/sys/kernel/hostname")
                           .value_or(read_value(root / "etc/hostname").value_or("unknown"));
  inventory.cores = read_cores(root, nodes);
  for (const int node : nodes) { inventory.numa_nodes.push_back(read_node(root, node)); }
  if (const auto bytes = bytes_of_kilobytes(value_of(memory, "Hugepagesize"))) {
    inventory.hugepage_bytes = bytes;
  }
  const auto allowed = number_in_file(root / "proc/sys/vm/nr_overcommit_hugepages");
  const auto made = static_cast<std::uint64_t>(parse_integer(value_of(memory, "HugePages_Surp")).value_or(0));
  inventory.surplus_hugepage_bytes = (allowed - std::min(allowed, made)) * inventory.hugepage_bytes;
  inventory.memory_bytes = bytes_of_kilobytes(value_of(memory, "MemTotal"));
  inventory.available_memory_bytes = bytes_of_kilobytes(value_of(memory, "MemAvailable"));
  if (inventory.numa_nodes.size() == 1 && inventory.numa_nodes[0].memory_bytes == 0) {
    inventory.numa_nodes[0].memory_bytes = inventory.memory_bytes;
  }
  inventory.cpu_quota_cores = cgroup_cpu_quota(root);
  inventory.architecture = architecture_of(cpu);
  inventory.address_bits = physical_address_bits(cpu);
  inventory.cpu_vendor = value_of(cpu, "vendor_id");
  inventory.cpu_model = value_of(cpu, "model name");
  const auto flags = value_of(cpu, "flags");
  for (const auto flag : words_of(flags)) { inventory.cpu_flags.emplace_back(flag); }
  inventory.microcode = value_of(cpu, "microcode");
  inventory.kernel = read_value(root / "proc/sys/kernel/osrelease").value_or("");
  inventory.boot_id = read_value(root / "proc/sys/kernel/random/boot_id").value_or("");
  inventory.mitigations = read_mitigations(root);
  // A recorded tree has no device nodes; sysfs shows the same.
  inventory.has_kvm_device =
      fs::exists(root / "dev/kvm") || (root != "/" && fs::exists(root / "sys/class/misc/kvm"));
  inventory.is_virtual_machine = contains(inventory.cpu_flags, std::string("hypervisor"));
  if (root == "/") { restrict_to_this_process(inventory); }
  put_first_threads_first(inventory.cores);
  return inventory;
}

Inventory load_inventory(const fs::path& root) {
  auto inventory = load_machine(root);
  auto found = read_host_devices(root);
  inventory.devices = std::move(found.devices);
  inventory.other_devices = std::move(found.others);
  add_fabric(root, inventory);
  for (auto& device : inventory.devices) {
    if (device.device_class != DeviceClass::gpu) { continue; }
    const auto bridges = acs_above(root, {&device});
    device.has_acs_above = acs_gaps(bridges).size() < bridges.size();
  }
  return inventory;
}

std::map<std::string, std::string> host_fingerprint() {
  const auto inventory = load_machine();
  std::map<std::string, std::string> facts;
  const auto dmi = [](const char* name) { return read_value(fs::path("/sys/class/dmi/id") / name); };
  add_if_known(facts, "kernel", inventory.kernel);
  add_if_known(facts, "cpu_model", inventory.cpu_model);
  add_if_known(facts, "cpu_flags", join(inventory.cpu_flags, " "));
  add_if_known(facts, "microcode", inventory.microcode);
  add_if_known(facts, "boot_id", inventory.boot_id);
  add_if_known(facts, "hostname", inventory.hostname);
  std::vector<std::string> mitigations;
  for (const auto& [name, state] : inventory.mitigations) {
    mitigations.push_back(fmt::format("{}={}", name, state));
  }
  add_if_known(facts, "mitigations", join(mitigations, "; "));
  add_if_known(facts, "bios", dmi("bios_version"));
  add_if_known(facts, "product", dmi("product_name"));
  add_if_known(facts, "governor", read_value("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  add_if_known(facts, "smt", read_value("/sys/devices/system/cpu/smt/control"));
  add_if_known(facts, "driver", read_value("/sys/module/nvidia/version"));
  add_if_known(facts, "vgpu_scheduler", vgpu_scheduler_words(kernel_log().value_or("")));
  add_if_known(facts, "command_line", read_value("/proc/cmdline"));
  auto libvirt = version_of({"libvirtd", "--version"});
  if (!libvirt) { libvirt = version_of({"virtqemud", "--version"}); }  // where each driver has its daemon
  add_if_known(facts, "libvirt", libvirt);
  add_if_known(facts, "qemu", version_of({"qemu-system-x86_64", "--version"}));
  add_if_known(facts, "open_mpi", version_of({"mpirun.openmpi", "--version"}));
  return facts;
}

void check_cpu_model(const std::string& name, const std::filesystem::path& root) {
  constexpr std::string_view prefix = "x86_", suffix = ".xml";  // a file for each model, and a few others
  std::vector<std::string> models;
  for (const auto& file : entry_names(root / "usr/share/libvirt/cpu_map")) {
    if (!file.starts_with(prefix) || !file.ends_with(suffix)) { continue; }
    models.push_back(file.substr(prefix.size(), file.size() - prefix.size() - suffix.size()));
  }
  if (models.empty() || contains(models, name)) { return; }
  const auto near = nearest_word(name, models);
  throw Error("use guest.cpu_model " + name, ErrorCode::host_unable,
              "libvirt has no such model (virsh cpu-models x86_64 lists them" +
                  (near ? "; did you mean " + *near + "?)" : std::string(")")));
}

namespace {

std::string words(const std::optional<int>& group) {
  return group ? std::to_string(*group) : "none";
}

std::string words(const std::string& driver) {
  return driver.empty() ? "none" : driver;
}

}  // namespace

std::vector<std::string> disagreements(const std::vector<HostDevice>& devices,
                                       const std::vector<NodeDevice>& node_devices) {
  std::map<std::string, const NodeDevice*> seen;
  for (const auto& device : node_devices) { seen[device.pci_address] = &device; }
  std::vector<std::string> found;
  for (const auto& device : devices) {
    const auto& pci = device.function;
    const auto other = seen.find(pci.address);
    if (other == seen.end()) {
      found.push_back(fmt::format("{}: libvirt does not see it", pci.address));
      continue;
    }
    const auto& theirs = *other->second;
    if (theirs.iommu_group != pci.iommu_group) {
      found.push_back(fmt::format("{}: IOMMU group {} in sysfs, {} in libvirt", pci.address,
                                  words(pci.iommu_group), words(theirs.iommu_group)));
    }
    if (theirs.driver != pci.driver) {
      found.push_back(fmt::format("{}: driver {} in sysfs, {} in libvirt", pci.address, words(pci.driver),
                                  words(theirs.driver)));
    }
  }
  return found;
}

namespace {

constexpr const char* configuration = "usr/share/nvidia/nvswitch/fabricmanager.cfg";

bool is_true(const nlohmann::json& value) {
  return value.is_boolean() ? value.get<bool>() : value.is_number_integer() && value.get<std::int64_t>() != 0;
}

FabricPartition partition_of(const nlohmann::json& entry) {
  FabricPartition partition;
  partition.id = entry.at("partitionId").get<int>();
  partition.is_active = is_true(entry.at("isActive"));
  for (const auto& gpu : entry.at("gpuInfo")) {
    partition.gpus.push_back(kernel_address(gpu.at("pciBusId").get<std::string>()));
  }
  std::ranges::sort(partition.gpus);
  return partition;
}

}  // namespace

std::optional<int> fabric_mode_in(const std::string& text) {
  std::optional<int> mode;
  for (const auto& line : split(text, '\n')) {
    const auto words = trim(line);
    const auto equals = words.find('=');
    if (equals == std::string_view::npos || trim(words.substr(0, equals)) != "FABRIC_MODE") { continue; }
    if (const auto value = parse_integer(trim(words.substr(equals + 1)))) { mode = static_cast<int>(*value); }
  }
  return mode;
}

std::vector<FabricPartition> fabric_partitions_in(const std::string& list) {
  std::vector<FabricPartition> partitions;
  try {
    const auto json = parse_json_or_null(list);
    for (const auto& entry : json.at("partitionInfo")) {
      auto partition = partition_of(entry);
      // The Fabric Manager may not know the address of a GPU that the host's driver does not have.
      if (!contains(partition.gpus, std::string("0000:00:00.0"))) {
        partitions.push_back(std::move(partition));
      }
    }
  } catch (const nlohmann::json::exception&) { return {}; }
  return partitions;
}

void add_fabric(const std::filesystem::path& root, Inventory& inventory) {
  if (!has_nvlink_switches(inventory.devices)) { return; }
  inventory.fabric_mode = fabric_mode_in(read_file(root / configuration).value_or(""));
  if (inventory.fabric_mode == 1) {
    inventory.fabric_partitions = fabric_partitions_in(fabric_partition_list(root).value_or(""));
  }
}

}  // namespace virtrain::vmctl
