#pragma once

#include <boost/asio/awaitable.hpp>

#include "harness/trial/live_trial.h"

namespace virtrain::harness {

/// Machines that exist already tell what they are; for the rows of the trial and its nodes. Throws
/// Error(trial_failed) for one that is too small.
asio::awaitable<void> look_at_machines(LiveTrial& trial, LiveNodes& nodes);

}  // namespace virtrain::harness
