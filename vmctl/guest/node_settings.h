#pragma once

namespace virtrain::vmctl {

// What whoever sets up a node and the node's first process must agree on.

/// Of guests and slices: net.ipv4.tcp_retries2: a dead peer ends a connection after seconds, not a quarter of
/// an hour.
inline constexpr const char* tcp_retries2 = "5";
/// Of both as well.
inline constexpr const char* node_path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Of both, where they have a /tmp of their own: TMPDIR, of mode 0700 (cloud/start.sh has it too).
inline constexpr const char* node_temporary_folder = "/tmp/virtrain";

/// Of guests: the line with which a KVM probe guest shows that it booted.
inline constexpr const char* probe_line = "virtrain-guest-init: probe booted";

/// Where a guest has the agent.
inline constexpr const char* guest_agent = "/usr/bin/virtrain-agent";

}  // namespace virtrain::vmctl
