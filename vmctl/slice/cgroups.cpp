#include "vmctl/slice/cgroups.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "common/contains.h"
#include "common/files/reading.h"
#include "common/system/cgroups.h"
#include "common/text/cpu_list.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
const fs::path cgroup_mount = "/sys/fs/cgroup";
constexpr std::string_view tried_prefix = "vt-try-";

/// This process's group of a v1 controller, as a folder; nothing if it is not mounted.
std::optional<fs::path> own_v1_group(const std::string& controller) {
  // Inside a container the path may be the host's: then the mount itself is our group.
  for (const auto& group : own_cgroups(controller)) {
    if (!group.is_v2 && fs::exists(group.path / "cgroup.procs")) { return group.path; }
  }
  return std::nullopt;
}

/// Control files take one plain write; what they refuse shows as a failed stream.
bool set_control(const fs::path& file, const std::string& value) {
  std::ofstream out(file);
  out << value << std::flush;
  return out.good();
}

bool make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directory(folder, failed);
  return !failed;
}

/// A group below this process's own with these values in its files; nothing where that cannot be.
std::optional<fs::path> make_v1_group(const std::string& controller, const std::string& name,
                                      const std::vector<std::pair<const char*, std::string>>& values) {
  const auto own = own_v1_group(controller);
  if (!own || !make_folder(*own / name)) { return std::nullopt; }
  for (const auto& [file, value] : values) {
    if (set_control(*own / name / file, value)) { continue; }
    remove_cgroup(*own / name);
    return std::nullopt;
  }
  return *own / name;
}

/// "254:0" of each disk, and of what is made of disks; of none that is memory, or read-only media.
std::vector<std::string> disk_numbers() {
  std::vector<std::string> numbers;
  for (const auto& disk : entries_of("/sys/block")) {
    const auto name = disk.filename().string();
    const auto is_a = [&](const char* prefix) { return name.starts_with(prefix); };
    if (is_a("loop") || is_a("ram") || is_a("zram") || is_a("sr") || is_a("fd")) { continue; }
    if (const auto number = read_value(disk / "dev")) { numbers.push_back(*number); }
  }
  return numbers;
}

/// A file of these takes one disk a write.
using Values = std::vector<std::pair<const char*, std::string>>;

Values v1_disk_values(const NodeLimits& limits) {
  Values values;
  for (const auto& disk : disk_numbers()) {
    const auto put = [&](const char* file, const std::optional<std::uint64_t>& limit) {
      if (limit) { values.emplace_back(file, fmt::format("{} {}", disk, *limit)); }
    };
    put("blkio.throttle.read_bps_device", limits.disk_read);
    put("blkio.throttle.write_bps_device", limits.disk_write);
    put("blkio.throttle.read_iops_device", limits.disk_read_iops);
    put("blkio.throttle.write_iops_device", limits.disk_write_iops);
  }
  return values;
}

Values v2_disk_values(const NodeLimits& limits) {
  Values values;
  for (const auto& disk : disk_numbers()) {
    std::string line = disk;
    const auto put = [&](const char* name, const std::optional<std::uint64_t>& limit) {
      if (limit) { line += fmt::format(" {}={}", name, *limit); }
    };
    put("rbps", limits.disk_read);
    put("wbps", limits.disk_write);
    put("riops", limits.disk_read_iops);
    put("wiops", limits.disk_write_iops);
    values.emplace_back("io.max", line);
  }
  return values;
}

/// Those that were asked for, each in a controller of its own.
void make_v1_limits(const std::string& name, const NodeLimits& limits, SliceCgroups& groups) {
  if (limits.cpu_cores) {
    const auto cpu = make_v1_group("cpu", name,
                                   {{"cpu.cfs_period_us", std::to_string(cpu_period_us)},
                                    {"cpu.cfs_quota_us", std::to_string(cpu_quota_us(*limits.cpu_cores))}});
    groups.cpu = cpu.has_value();
    if (cpu) { groups.folders.push_back(*cpu); }
  }
  const auto values = v1_disk_values(limits);
  if (!values.empty()) {
    const auto disk = make_v1_group("blkio", name, values);
    groups.disk = disk.has_value();
    if (disk) { groups.folders.push_back(*disk); }
  }
}

void make_v1(const std::string& name, const std::vector<int>& cores, std::uint64_t bytes,
             SliceCgroups& groups) {
  if (const auto memory = make_v1_group("memory", name, {{"memory.limit_in_bytes", std::to_string(bytes)}})) {
    groups.folders.push_back(*memory);
    groups.memory = "cgroup v1";
  }
  const auto own = own_v1_group("cpuset");
  const auto nodes = own ? read_value(*own / "cpuset.mems").value_or("0") : "";
  if (const auto cpuset =
          make_v1_group("cpuset", name, {{"cpuset.mems", nodes}, {"cpuset.cpus", format_cpu_list(cores)}})) {
    groups.folders.push_back(*cpuset);
  }
}

void make_v2(const std::string& name, const std::vector<int>& cores, std::uint64_t bytes,
             const NodeLimits& limits, SliceCgroups& groups) {
  const auto controllers = read_value(cgroup_mount / "cgroup.controllers").value_or("");
  const bool has_memory = controllers.find("memory") != std::string::npos;
  const bool has_cpuset = controllers.find("cpuset") != std::string::npos;
  const auto words = split(controllers, ' ');
  const bool has_cpu = limits.cpu_cores && contains<std::string>(words, "cpu");
  const bool has_io = limits.of_disk() && contains<std::string>(words, "io");
  if (!has_memory && !has_cpuset && !has_cpu && !has_io) { return; }
  const auto parent = cgroup_mount / "virtrain";
  const std::string enable = std::string(has_memory ? "+memory " : "") + (has_cpuset ? "+cpuset " : "") +
                             (has_cpu ? "+cpu " : "") + (has_io ? "+io" : "");
  if (!set_control(cgroup_mount / "cgroup.subtree_control", enable) || !make_folder(parent) ||
      !set_control(parent / "cgroup.subtree_control", enable) || !make_folder(parent / name)) {
    return;
  }
  if (has_memory && set_control(parent / name / "memory.max", std::to_string(bytes))) {
    groups.memory = "cgroup v2";
  }
  if (has_cpuset) { set_control(parent / name / "cpuset.cpus", format_cpu_list(cores)); }
  set_control(parent / name / "memory.swap.max", "0");
  if (has_cpu) {
    const auto quota = fmt::format("{} {}", cpu_quota_us(*limits.cpu_cores), cpu_period_us);
    groups.cpu = set_control(parent / name / "cpu.max", quota);
  }
  if (has_io) {
    const auto values = v2_disk_values(limits);
    groups.disk = !values.empty() && std::ranges::all_of(values, [&](const auto& value) {
      return set_control(parent / name / value.first, value.second);
    });
  }
  groups.folders.push_back(parent / name);
}

void search(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  std::error_code ignored;
  for (const auto& entry : entries_of(folder)) {
    if (!fs::is_directory(fs::symlink_status(entry, ignored))) { continue; }
    if (entry.filename().string().starts_with("vt-")) {
      found.push_back(entry);
    } else if (depth > 0) {
      search(entry, depth - 1, found);
    }
  }
}

}  // namespace

SliceCgroups make_slice_cgroups(const std::string& name, const std::vector<int>& cores,
                                std::uint64_t memory_bytes, const NodeLimits& limits) {
  SliceCgroups groups;
  if (::geteuid() != 0) { return groups; }
  make_v1(name, cores, memory_bytes, groups);
  make_v1_limits(name, limits, groups);
  if (groups.folders.empty()) { make_v2(name, cores, memory_bytes, limits, groups); }
  return groups;
}

std::string lacks_cgroups(const NodeLimits& limits) {
  if (!limits.cpu_cores && !limits.of_disk()) { return ""; }
  if (::geteuid() != 0) { return "cgroups need root"; }
  constexpr std::uint64_t some_memory = 64ULL << 20;
  const auto groups =
      make_slice_cgroups(fmt::format("{}{}", tried_prefix, ::getpid()), {0}, some_memory, limits);
  for (const auto& folder : groups.folders) { remove_cgroup(folder); }
  if (limits.cpu_cores && !groups.cpu) { return "the cgroup controller cpu takes no quota here"; }
  if (limits.of_disk() && !groups.disk) { return "the cgroup controllers blkio and io bound no disk here"; }
  return "";
}

std::optional<pid_t> maker_of_tried_cgroup(const std::string& name) {
  if (!name.starts_with(tried_prefix)) { return std::nullopt; }
  const auto pid = parse_integer(std::string_view(name).substr(tried_prefix.size()));
  constexpr std::int64_t most = 1 << 22;  // the kernel's own bound
  return pid && *pid > 0 && *pid <= most ? std::optional(static_cast<pid_t>(*pid)) : std::nullopt;
}

bool remove_cgroup(const fs::path& folder) {
  constexpr int tries = 200;
  for (int i = 0; i < tries; ++i) {
    if (::rmdir(folder.c_str()) == 0 || errno == ENOENT) {
      if (folder.parent_path() == cgroup_mount / "virtrain") {
        ::rmdir(folder.parent_path().c_str());  // if it was the last
      }
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::set<pid_t> processes_in_cgroup(const fs::path& group) {
  std::set<pid_t> members;
  for (const auto& line : split(read_file(group / "cgroup.procs").value_or(""), '\n')) {
    if (const auto pid = parse_integer(line)) { members.insert(static_cast<pid_t>(*pid)); }
  }
  for (const auto& entry : entries_of(group)) {
    std::error_code gone;
    if (fs::is_directory(fs::symlink_status(entry, gone))) { members.merge(processes_in_cgroup(entry)); }
  }
  return members;
}

std::vector<fs::path> find_slice_cgroups() {
  constexpr int most_depth = 4;  // controller, then container or session
  std::vector<fs::path> found;
  search(cgroup_mount, most_depth, found);
  return found;
}

}  // namespace virtrain::vmctl
