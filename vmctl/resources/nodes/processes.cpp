#include <unistd.h>

#include <set>

#include "common/error.h"
#include "common/files/open_folder.h"
#include "common/system/process_info.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"
#include "vmctl/slice/cgroups.h"
#include "vmctl/slice/slice.h"

namespace virtrain::vmctl {
namespace {

/// The processes in groups that the caller has made for slices, and in groups below them: as the kernel lists
/// them, for anybody can give a group of their own the same name.
std::set<pid_t> processes_in_groups_of_caller(const Search& search) {
  std::set<pid_t> members;
  for (const auto& group : find_slice_cgroups()) {
    if (folder_owner(group) == search.caller().user) { members.merge(processes_in_cgroup(group)); }
  }
  return members;
}

/// Name, arguments and environment are what the process says of itself, and anybody may say them. What counts
/// is what only its user could arrange: the user it runs as, and a cgroup that the caller has made for a
/// slice.
std::optional<uid_t> holder_of_process(const Search& search, const std::set<pid_t>& members, pid_t pid) {
  return members.contains(pid) ? search.caller().user : user_of(pid);
}

/// A slice's helper ends when its host process does, so one that still has a parent proves a living run: of
/// the caller's, or of root's for the caller.
bool below_living_harness(const Search& search, const std::set<pid_t>& members, pid_t pid) {
  const auto& processes = search.processes;
  for (auto at = processes.find(pid); at != processes.end(); at = processes.find(at->second.parent)) {
    const bool is_helper = at->second.name == "virtrain-slice" && at->second.parent != 1;
    if (!is_helper) { continue; }
    const auto holder = holder_of_process(search, members, at->first);
    if (holder == search.caller().user || holder == root_user) { return true; }
  }
  return false;
}

void find_processes(Search& search) {
  const auto members = processes_in_groups_of_caller(search);
  for (const auto& [pid, process] : search.processes) {
    if (pid == ::getpid() || pid == 1) { continue; }
    const auto slice = process_variable(pid, slice_variable);
    const bool named = process.name == "virtrain-agent" || process.name.starts_with("virtrain-resnet") ||
                       process.name == "virtrain-slice";
    const bool orphaned = process.parent == 1 || !search.processes.contains(process.parent);
    if (!slice && !(named && orphaned)) { continue; }
    const auto holder = holder_of_process(search, members, pid);
    const bool used = holder == search.caller().user && below_living_harness(search, members, pid);
    if (slice && used) { search.used_slices.insert(*slice); }
    search.add_held(holder,
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
