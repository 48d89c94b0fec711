#include "harness/security/guest_channels.h"

#include <fmt/format.h>

#include "vmctl/api/node.h"

namespace virtrain::harness {

LeakEvidence channel_evidence(const std::vector<GuestPort>& ports, const std::string& planted) {
  LeakEvidence evidence;
  evidence.scanned = evidence.total = static_cast<double>(ports.size());
  bool has_agents = false, has_planted = false;
  for (const auto& one : ports) {
    auto* const expected = one.name == vmctl::agent_channel          ? &has_agents
                           : !planted.empty() && one.name == planted ? &has_planted
                                                                     : nullptr;
    if (expected != nullptr && !*expected) {
      *expected = true;
    } else {
      evidence.leaks.push_back(fmt::format("port {} named '{}'", one.port, one.name));
    }
  }
  evidence.control = has_agents && has_planted;
  return evidence;
}

}  // namespace virtrain::harness
