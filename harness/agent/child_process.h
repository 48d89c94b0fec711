#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "common/files/unique_fd.h"

namespace virtrain::harness {

struct ProcessSpec {
  std::vector<std::string> argv;                   ///< argv[0] is searched on PATH
  std::map<std::string, std::string> environment;  ///< added to the agent's own
};

/// A started process in a process group of its own, with our ends of its three pipes (non-blocking).
struct ChildProcess {
  pid_t pid = -1;
  UniqueFd standard_input, standard_output, standard_error;
};

/// Forks and executes. A program that is not found is an Error, not a process that exits with 127.
ChildProcess start_process(const ProcessSpec& spec);

/// Whether that is this process, or one that it started, directly or not.
bool is_descendant(pid_t pid);
/// Kills all descendants with SIGKILL and waits until they are gone; returns how many there were. The agent
/// is their subreaper, so none escapes.
int kill_descendants();

}  // namespace virtrain::harness
