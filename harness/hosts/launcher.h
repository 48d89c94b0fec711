#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files/unique_fd.h"
#include "harness/hosts/elevation.h"
#include "harness/scenario/host_list.h"
#include "vmctl/api/host_mode.h"

namespace virtrain::harness {

/// The purpose of a host process.
struct HostRequest {
  std::filesystem::path root = "/";          ///< of a recorded host
  std::optional<vmctl::HostMode> mode = {};  ///< of the run; absent: of this host only what is there is asked
  bool with_vms = false;
  Elevation elevation = Elevation::none;
};

/// A started `virtrain-host`.
struct HostProcess {
  UniqueFd in, out;       ///< its answers, and where requests go
  pid_t pid = -1;         ///< of the program that was started, or of sudo; -1: systemd has it
  UniqueFd err = {};      ///< what a launcher says on standard error; not open: it says it on ours
  std::string name = {};  ///< of one of several hosts; empty: it is the only one
  std::optional<AllocatedNode> allocated = {};  ///< to which its inventory is limited
};

/// Starts the program for this machine. Signals of the terminal are not for it: it is in a session of its
/// own, or, for sudo knows a user by the terminal, in a process group of its own.
HostProcess start_host(const HostRequest& request);

/// Options of virtrain-host for that purpose.
std::vector<std::string> host_options(const HostRequest& request);

/// Starts virtrain-host on the host of that name by a launcher's words, in a session of its own as above.
/// Throws Error(not_found) where the launcher is not installed.
HostProcess start_launcher(const std::vector<std::string>& words, const std::string& name);

/// Throws Error(io).
UniqueFd connect_to_group_socket();

}  // namespace virtrain::harness
