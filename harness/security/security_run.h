#pragma once

#include <boost/asio/awaitable.hpp>

#include <cstdint>

#include "harness/security/killed_run.h"
#include "harness/trial/run_context.h"

namespace virtrain::harness {

/// Runs the leak searches of the plan's arms, one arm after the other on nodes of its own, and stores each
/// search as it ends. Throws only what ends the experiment (the database). Returns how many arms could not
/// bring up their nodes.
asio::awaitable<std::int64_t> run_security(RunContext& context, const SecurityOptions& options);

}  // namespace virtrain::harness
