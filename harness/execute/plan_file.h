#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <string>

#include "harness/coordinator/agent_client.h"

namespace virtrain::harness {

/// Where the CUDA trainer looks for the engines that it has timed before, if nothing else is said.
inline constexpr const char* kCacheVariable = "XDG_CACHE_HOME";

/// cuDNN's engines as the trials of one experiment have timed them (cudnn-plans.json of the CUDA trainer).
/// Every node gets it before its ranks start: the arms must run the same engines, and a guest, which is fresh
/// each time, or a host that remembers older runs would have others.
class PlanFile {
 public:
  /// Adds what a node's file knows and this does not: the first trial to time a graph decides for all later
  /// ones. The text is untrusted: Error(protocol), and nothing is added, where it is no such file or where
  /// both together are too large to be sent to a node.
  void add(const std::string& text);
  bool empty() const { return engines_.empty(); }
  /// What the trainer reads.
  std::string text() const;

 private:
  using Engines = std::map<std::string, std::string>;  ///< by graph
  std::map<std::string, Engines> engines_;             ///< by GPU, driver and cuDNN
};

/// Makes the folders under the node's `cache_home` and puts the file there, unless it is empty. Throws Error.
asio::awaitable<void> give_plans(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                 std::string cache_home, const PlanFile& plans);
/// Adds what the node's ranks have timed. Throws Error, also where they have left no file.
asio::awaitable<void> take_plans(std::shared_ptr<AgentClient> agent, std::string cache_home, PlanFile& plans);

}  // namespace virtrain::harness
