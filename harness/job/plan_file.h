#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/model/workload.h"
#include "harness/agent/client/agent_client.h"

namespace virtrain::harness {

/// Where the CUDA trainer looks for the engines that it has timed before, if nothing else is said.
inline constexpr const char* cache_variable = "XDG_CACHE_HOME";

/// cuDNN's engines, and what was fastest fused, as ranks have timed them (cudnn-plans.json of the CUDA
/// trainer).
class PlanFile {
 public:
  /// Adds what a node's file knows and this does not: the first to time a graph decides. The text is
  /// untrusted: Error(protocol), and nothing is added, where it is no such file or where both together are
  /// too large to be sent to a node.
  void add(const std::string& text);
  void add(const PlanFile& other);
  bool empty() const { return engines_.empty(); }
  /// How many graphs both know, on the same machine, with different engines.
  std::size_t differences_from(const PlanFile& other) const;
  /// The file as the trainer reads it.
  std::string text() const;

 private:
  using Engines = std::map<std::string, std::string>;  ///< by graph
  std::map<std::string, Engines> engines_;             ///< by GPU, driver and cuDNN
};

/// Engine timings that the trials of one experiment have made. Every node gets them before its ranks start:
/// the arms must run the same engines, and a guest, which is fresh each time, or a host that remembers older
/// runs would have others. All nodes get bare metal's timings. A guest's timings go to later guests of its
/// own tenant only, and only where bare metal has none: no tenant chooses how fast another, or the baseline,
/// computes.
class KnownPlans {
 public:
  /// For a node; `guest_of` names the tenant of a VM, and is empty on bare metal.
  PlanFile for_node(const std::string& guest_of) const;
  /// Adds what such a node has timed. Returns how many engines of guests differ from those of bare metal, as
  /// far as this node has shown it. Throws Error(protocol), and nothing is added, where it would be too
  /// large.
  std::size_t add(const std::string& guest_of, const PlanFile& found);

  /// How a tenant's ranks, which begin after this, choose what they fuse. All that train the same must fuse
  /// the same: bare metal may time until the first guest or the first tenant beside others has begun, and its
  /// choice then reaches all; if it has not timed by then, all take the highest level. `trained`: what the
  /// choice depends on. `alone`: nobody else computes in this trial.
  FusionRule fusion_rule(const std::string& guest_of, const std::string& trained, bool alone);

 private:
  std::set<std::string> fused_;  ///< what is timed no more
  PlanFile bare_metal_;
  std::map<std::string, PlanFile> guests_;  ///< by tenant
};

/// Makes the folders under the node's `cache_home` and puts the file there, unless it is empty. Throws Error.
asio::awaitable<void> give_plans(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                 std::string cache_home, const PlanFile& plans);
/// Fetches the file that the node's ranks have left. Throws Error, also where there is none.
asio::awaitable<PlanFile> take_plans(std::shared_ptr<AgentClient> agent, std::string cache_home);

}  // namespace virtrain::harness
