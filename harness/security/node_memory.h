#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <span>
#include <string>

#include "harness/security/canary_tool.h"
#include "harness/trial/live_nodes.h"

// Requests to virtrain-canary about lent devices' memory, in the node that has them.

namespace virtrain::harness {

/// It stops filling and searching by itself after the seconds.
inline constexpr std::int64_t canary_work_seconds = 240;
inline constexpr std::chrono::seconds canary_work_deadline{300};

/// Asks virtrain-canary in the node.
asio::awaitable<std::string> ask_canary(RunContext& context, LiveNode& node, std::string verb,
                                        nlohmann::json request, std::chrono::milliseconds deadline);

/// Where the node sees memory of these devices; it has no other function of the same models.
asio::awaitable<NodeMemory> memory_in_node(RunContext& context, LiveNode& node,
                                           std::span<const vmctl::PlacedDevice> devices);

asio::awaitable<NodeFill> fill_in_node(RunContext& context, LiveNode& node, std::vector<std::string> paths,
                                       const Canary& canary);
/// At most so many bytes.
asio::awaitable<NodeSearch> search_in_node(RunContext& context, LiveNode& node,
                                           std::vector<std::string> paths, const Canary& canary,
                                           std::uint64_t bytes);

}  // namespace virtrain::harness
