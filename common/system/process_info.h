#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace virtrain {

/// One process (or thread) as /proc shows it.
struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;  ///< comm, at most 15 characters
  char state = '?';
  std::int64_t threads = 0;      ///< none or one of a zombie, unless only its first thread has ended
  std::uint64_t start_time = 0;  ///< clock ticks after boot
};

/// Decodes the text of /proc/<pid>/stat; nothing if it is not one.
std::optional<ProcessInfo> parse_proc_stat(std::string_view text);
/// A process that has ended gives nothing, also while it stays a zombie: the first process of many containers
/// reaps nobody.
std::optional<ProcessInfo> process_info(pid_t pid);
std::vector<ProcessInfo> all_processes();
/// Command line, one argument each; empty for kernel threads and gone processes.
std::vector<std::string> process_arguments(pid_t pid);
/// Value of a variable in a process's environment at its start; nothing if it has none or is not ours to
/// read.
std::optional<std::string> process_variable(pid_t pid, std::string_view name);
/// The real user of a process: everybody may read it, unlike the environment. Nothing of one that is gone.
std::optional<uid_t> user_of(pid_t pid);
/// The process and everything below it, parents first.
std::vector<pid_t> process_tree(pid_t root);
/// SIGKILL and wait until it has ended; false if it is still there after 5 s.
/// A process of another start time has only inherited the number, and is left alone (0: whichever has it
/// now).
bool kill_and_wait(pid_t pid, std::uint64_t start_time = 0);

/// SIGKILL for everything below this process, also what it adopted as a subreaper, again and again until all
/// of it is reaped or the patience ends.
void end_descendants(std::chrono::milliseconds patience);

std::string boot_id();

}  // namespace virtrain
