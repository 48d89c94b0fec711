#pragma once

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <string>
#include <vector>

#include "harness/security/canary_tool.h"
#include "harness/trial/live_nodes.h"

namespace virtrain::harness {

/// Canaries of one arm that its nodes and the host have to do with.
struct ArmCanaries {
  Canary host = make_canary("a file of the host");                    ///< must not travel
  Canary image = make_canary("the image's own canary");               ///< travels in mirror images
  Canary secret = make_canary("a secret of tenant-a's environment");  ///< must not be left behind
  std::vector<std::string> host_files = {};                           ///< where `host` is planted
};

/// The tenants of the plan's placement: the first one has what the second one looks for.
inline constexpr const char* owner_tenant = "tenant-a";
inline constexpr const char* looking_tenant = "tenant-b";

/// Searches of one arm while its nodes are up. `done` gets each record as soon as it is there. A search that
/// fails is `inconclusive` and does not stop the others; throws only what ends the arm (a stop, a lost node).
asio::awaitable<void> run_tenant_searches(RunContext& context, std::vector<LiveNode>& nodes,
                                          const ArmCanaries& canaries, bool mirror,
                                          std::function<void(results::LeakSearch)> done);

}  // namespace virtrain::harness
