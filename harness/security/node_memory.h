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

/// Starts virtrain-canary in the node, gives it the text of a request and returns what it writes.
asio::awaitable<std::string> lines_of_canary(RunContext& context, LiveNode& node, std::string verb,
                                             std::string request, std::chrono::milliseconds deadline);

/// Its answer to the request.
template <typename Request>
asio::awaitable<typename Request::Answer> ask_canary(RunContext& context, LiveNode& node, Request request,
                                                     std::chrono::milliseconds deadline) {
  auto text = request_text(request);
  const auto lines = co_await lines_of_canary(context, node, Request::verb, std::move(text), deadline);
  co_return read_answer(lines, request);
}

/// Where the node sees memory of these devices; it has no other function of the same models.
asio::awaitable<canary::FoundMemory> memory_in_node(RunContext& context, LiveNode& node,
                                                    std::span<const vmctl::PlacedDevice> devices);

asio::awaitable<canary::Filled> fill_in_node(RunContext& context, LiveNode& node,
                                             std::vector<std::string> paths, const Canary& canary);
/// At most so many bytes.
asio::awaitable<canary::Searched> search_in_node(RunContext& context, LiveNode& node,
                                                 std::vector<std::string> paths, const Canary& canary,
                                                 std::uint64_t bytes);

}  // namespace virtrain::harness
