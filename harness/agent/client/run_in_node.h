#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "harness/agent/client/agent_client.h"

namespace virtrain::harness {

/// Runs a short command in a node and returns its standard output. Throws Error(trial_failed) with the end of
/// what it said where it exits with anything but 0 or has not ended by the deadline (it is killed then).
asio::awaitable<std::string> run_in_node(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                         std::vector<std::string> argv, std::chrono::milliseconds deadline);

}  // namespace virtrain::harness
