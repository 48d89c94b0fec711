#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "harness/agent/client/agent_client.h"

namespace virtrain::harness {

/// Input of a command beside its arguments, which other users of the node may see.
struct NodeInput {
  std::string standard_input = {};
  std::map<std::string, std::string> environment = {};
};

/// Runs a short command in a node and returns its standard output. Throws Error(trial_failed) with the end of
/// what it said where it exits with anything but 0 or has not ended by the deadline (it is killed then), and
/// for more output than is kept: half of it could say something else than all.
asio::awaitable<std::string> run_in_node(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                         std::vector<std::string> argv, std::chrono::milliseconds deadline,
                                         NodeInput input);
/// Without input. Not by a default argument: GCC 12 destroys those of a coroutine twice.
inline asio::awaitable<std::string> run_in_node(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                                std::vector<std::string> argv,
                                                std::chrono::milliseconds deadline) {
  return run_in_node(io, std::move(agent), std::move(argv), deadline, NodeInput());
}

}  // namespace virtrain::harness
