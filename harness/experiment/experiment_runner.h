#pragma once

#include <boost/asio/awaitable.hpp>

#include "harness/experiment/experiment.h"

namespace virtrain::harness {

/// Runs the trials of the context's plan, one after the other, each stored when it ends; then tears down
/// whatever is left and gives the devices back. Throws what no further trial could survive.
asio::awaitable<void> run_trials(RunContext& context, const ExperimentOptions& options,
                                 ExperimentOutcome& outcome);

}  // namespace virtrain::harness
