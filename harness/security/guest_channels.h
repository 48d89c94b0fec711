#pragma once

#include <string>
#include <vector>

#include "harness/security/leak_evidence.h"

// Ports of the hypervisor's channels that a guest sees.

namespace virtrain::harness {

inline constexpr const char* channels_search = "channels";

/// One in the guest: "vport2p1" and the name by which the hypervisor offers it.
struct GuestPort {
  std::string port, name;
};

/// Its agent's port and the one that was planted for this node alone are the controls; any other one leads to
/// somebody else.
LeakEvidence channel_evidence(const std::vector<GuestPort>& ports, const std::string& planted);

}  // namespace virtrain::harness
