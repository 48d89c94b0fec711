#pragma once

#include <exception>
#include <functional>
#include <string>

#include "harness/trial/live_nodes.h"

namespace virtrain::harness {

/// The warning after a tear-down that left something.
inline constexpr const char* something_is_left = "something could not be removed; run: virtrain clean";

/// Does the work, which brings the nodes up, until it ends or the experiment is to stop, and tears them down.
/// Returns what failed, if it was not the stop.
asio::awaitable<std::exception_ptr> on_searched_nodes(RunContext& context, const Placement& placement,
                                                      const std::string& base,
                                                      std::function<asio::awaitable<void>(LiveNodes&)> work);
/// Lends the nodes their devices and waits for their agents.
asio::awaitable<void> lend_and_boot(RunContext& context, const Placement& placement, LiveNodes& nodes);

}  // namespace virtrain::harness
