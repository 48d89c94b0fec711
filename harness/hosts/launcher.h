#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "common/files/unique_fd.h"
#include "vmctl/api/host_mode.h"

namespace virtrain::harness {

/// The purpose of a host process.
struct HostRequest {
  std::filesystem::path root = "/";          ///< of a recorded host
  std::optional<vmctl::HostMode> mode = {};  ///< of the run; absent: of this host only what is there is asked
  bool with_vms = false;
};

/// A started `virtrain-host`.
struct HostProcess {
  UniqueFd in, out;  ///< its answers, and where requests go
  pid_t pid = -1;
};

/// Starts the program for this machine, in a session of its own: signals of the terminal are not for it.
HostProcess start_host(const HostRequest& request);

}  // namespace virtrain::harness
