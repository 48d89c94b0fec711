#pragma once

#include "vmctl/api/payload.h"

namespace virtrain::vmctl {

// Settings on which a node's first process and the code that sets the node up must agree.

/// net.ipv4.tcp_retries2 of guests and slices: a dead peer ends a connection after seconds, not a quarter of
/// an hour.
inline constexpr const char* tcp_retries2 = "5";
/// TMPDIR, of mode 0700, in nodes that have a /tmp of their own (cloud/start.sh repeats it).
inline constexpr const char* node_temporary_folder = "/tmp/virtrain";

/// Where nodes have a job's payload, below their TMPDIR.
inline constexpr const char* payload_folder = "/payload";

/// Folders of a GPU driver's libraries: of the packages of Debian and Ubuntu, and of NVIDIA's run file there
/// and on other systems.
inline constexpr const char* driver_library_folders[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"};
/// Debian's packages have theirs in a folder of it for each series: current, tesla-535.
inline constexpr const char* driver_series_folder = "/usr/lib/x86_64-linux-gnu/nvidia";
/// Makes NVIDIA's device nodes where there is no udev.
inline constexpr const char* nvidia_modprobe = "/usr/bin/nvidia-modprobe";

/// A KVM probe guest prints this line when it has booted.
inline constexpr const char* probe_line = "virtrain-guest-init: probe booted";

/// Where a guest has the agent.
inline constexpr const char* guest_agent = "/usr/bin/virtrain-agent";

}  // namespace virtrain::vmctl
