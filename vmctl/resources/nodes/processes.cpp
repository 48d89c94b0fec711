#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "common/error.h"
#include "common/text/text.h"
#include "vmctl/process/process_info.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"
#include "vmctl/slice/cgroups.h"
#include "vmctl/slice/slice.h"

namespace virtrain::vmctl {
namespace {

/// A slice's helper ends when its harness does, so one that still has a parent proves a live harness.
bool below_living_harness(const Search& search, pid_t pid) {
  const auto& processes = search.processes;
  for (auto at = processes.find(pid); at != processes.end(); at = processes.find(at->second.parent)) {
    if (at->second.name == "virtrain-slice" && at->second.parent != 1) { return true; }
  }
  return false;
}

/// Names of slices' cgroups that the caller has made.
std::set<std::string> groups_of_caller(const Search& search) {
  std::set<std::string> groups;
  for (const auto& folder : find_slice_cgroups()) {
    if (folder_owner(folder) == search.caller().user) { groups.insert(folder.filename()); }
  }
  return groups;
}

/// Name, arguments and environment are what the process says of itself, and anybody may say them. What counts
/// is what only its user could arrange: the user it runs as, and a cgroup that the caller has made for a
/// slice.
std::optional<uid_t> holder_of_process(const Search& search, const std::set<std::string>& groups, pid_t pid) {
  for (const auto& line : split(read_file(fmt::format("/proc/{}/cgroup", pid)).value_or(""), '\n')) {
    const auto group = std::filesystem::path(line.substr(line.rfind(':') + 1));  // "5:memory:/vt-7f3a2b-1"
    if (groups.contains(group.filename())) { return search.caller().user; }
  }
  return user_of(pid);
}

void find_processes(Search& search) {
  const auto groups = groups_of_caller(search);
  for (const auto& [pid, process] : search.processes) {
    if (pid == ::getpid() || pid == 1) { continue; }
    const auto slice = process_variable(pid, slice_variable);
    const bool named = process.name == "virtrain-agent" || process.name.starts_with("virtrain-resnet") ||
                       process.name == "virtrain-slice";
    const bool orphaned = process.parent == 1 || !search.processes.contains(process.parent);
    if (!slice && !(named && orphaned)) { continue; }
    const bool used = below_living_harness(search, pid);
    if (slice && used) { search.used_slices.insert(*slice); }
    search.add_held(holder_of_process(search, groups, pid),
                    {.kind = EffectKind::process,
                     .name = std::to_string(pid),
                     .experiment = process_variable(pid, experiment_variable).value_or(""),
                     .detail = process.name + (slice ? " in slice " + *slice : " without a harness"),
                     .start_time = process.start_time},
                    used);
  }
}

void end_process(const Leftover& found, Hypervisor* /*unused*/) {
  if (!kill_and_wait(static_cast<pid_t>(std::stol(found.name)), found.start_time)) {
    throw Error("remove " + found.name, ErrorCode::io, "it is still there");
  }
}

}  // namespace

const Handler process_handler{.kind = EffectKind::process, .find = find_processes, .remove = end_process};

/// Found as its processes, its namespace, its veth and its cgroups.
const Handler slice_handler{.kind = EffectKind::slice, .remove = end_process};

}  // namespace virtrain::vmctl
