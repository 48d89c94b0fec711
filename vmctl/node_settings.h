#pragma once

namespace virtrain::vmctl {

// What a guest and a bare-metal slice have in common, set by each one's init.

/// net.ipv4.tcp_retries2: a dead peer ends a connection after seconds, not a quarter of an hour.
inline constexpr const char* kTcpRetries2 = "5";
inline constexpr const char* kNodePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The line with which a KVM probe guest shows that it booted.
inline constexpr const char* kProbeLine = "virtrain-guest-init: probe booted";

/// Where the agent lies in a guest.
inline constexpr const char* kGuestAgent = "/usr/bin/virtrain-agent";

}  // namespace virtrain::vmctl
