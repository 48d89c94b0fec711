#include "vmctl/slice/cgroups.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "common/text/text.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
const fs::path cgroup_mount = "/sys/fs/cgroup";

/// This process's group of a v1 controller, as a folder; nothing if it is not mounted.
std::optional<fs::path> own_v1_group(const std::string& controller) {
  for (const auto& line : split(read_file("/proc/self/cgroup").value_or(""), '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() == 3 && fields[1] == controller) {
      const auto folder = cgroup_mount / controller / fs::path(fields[2]).relative_path();
      // Inside a container the path may be the host's: then the mount itself is our group.
      return fs::exists(folder / "cgroup.procs") ? folder : cgroup_mount / controller;
    }
  }
  return std::nullopt;
}

/// Control files take one plain write; what they refuse shows as a failed stream.
bool put(const fs::path& file, const std::string& value) {
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
    if (put(*own / name / file, value)) { continue; }
    remove_cgroup(*own / name);
    return std::nullopt;
  }
  return *own / name;
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
             SliceCgroups& groups) {
  const auto controllers = read_value(cgroup_mount / "cgroup.controllers").value_or("");
  const bool has_memory = controllers.find("memory") != std::string::npos;
  const bool has_cpuset = controllers.find("cpuset") != std::string::npos;
  if (!has_memory && !has_cpuset) { return; }
  const auto parent = cgroup_mount / "virtrain";
  const std::string enable = std::string(has_memory ? "+memory " : "") + (has_cpuset ? "+cpuset" : "");
  if (!put(cgroup_mount / "cgroup.subtree_control", enable) || !make_folder(parent) ||
      !put(parent / "cgroup.subtree_control", enable) || !make_folder(parent / name)) {
    return;
  }
  if (has_memory && put(parent / name / "memory.max", std::to_string(bytes))) { groups.memory = "cgroup v2"; }
  if (has_cpuset) { put(parent / name / "cpuset.cpus", format_cpu_list(cores)); }
  put(parent / name / "memory.swap.max", "0");
  groups.folders.push_back(parent / name);
}

void search(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.is_directory(ignored) || entry.is_symlink(ignored)) { continue; }
    if (entry.path().filename().string().starts_with("vt-")) {
      found.push_back(entry.path());
    } else if (depth > 0) {
      search(entry.path(), depth - 1, found);
    }
  }
}

}  // namespace

SliceCgroups make_slice_cgroups(const std::string& name, const std::vector<int>& cores,
                                std::uint64_t memory_bytes) {
  SliceCgroups groups;
  if (::geteuid() != 0) { return groups; }
  make_v1(name, cores, memory_bytes, groups);
  if (groups.folders.empty()) { make_v2(name, cores, memory_bytes, groups); }
  return groups;
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

std::vector<fs::path> find_slice_cgroups() {
  constexpr int most_depth = 4;  // controller, then container or session
  std::vector<fs::path> found;
  search(cgroup_mount, most_depth, found);
  return found;
}

}  // namespace virtrain::vmctl
