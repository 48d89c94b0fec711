#pragma once

#include <boost/asio/awaitable.hpp>

#include <span>
#include <string>
#include <vector>

#include "harness/security/canary_tool.h"
#include "harness/trial/run_context.h"

// Searches of memory that a tenant's device can read and the tenant does not own: the host's, and another
// tenant's device's.

namespace virtrain::harness {

inline constexpr const char* device_peer_search = "device_peer";

/// Evidence of an arm whose devices have no engine that the search can drive: nothing is known.
LeakEvidence no_known_engine();

/// Memory that a device of a node is to read by itself.
struct PeerRange : canary::BusRange {
  bool is_of_device = false;
};

/// Regions that a device's memory is in, as other devices of its host see them.
std::vector<PeerRange> ranges_of(const vmctl::PlacedDevice& device);

/// Judges what the device has read. `control` is the name of the canary in the tenant's own memory and
/// devices: without a device of its own with memory, nothing shows that the engine reads devices at all, and
/// what it did not find in those of others does not count. Nor does memory that the device could not be told
/// to read. A GPU (`engine`) reads its tenant's memory in another way than all the rest.
LeakEvidence peer_evidence(const canary::PeerReads& seen, std::span<const PeerRange> ranges,
                           const std::string& control, const vmctl::PlacedDevice& engine);

/// VMs of all tenants of the placement at once. The first one's first device has an engine; the second
/// tenant, where there is one, fills the memory of its device, and this process has a canary in its own
/// memory. `lacks`: why the node cannot program the engine. Throws what ended it early.
asio::awaitable<LeakEvidence> run_peer_search(RunContext& context, const Placement& placement);

}  // namespace virtrain::harness
