#pragma once

#include <boost/asio/awaitable.hpp>

#include <map>
#include <optional>
#include <string>

#include "harness/trial/live_trial.h"

// Preparation of a trial's nodes before their ranks start, and questions to them around the run.

namespace virtrain::harness {

/// Devices that were lent to guests must be there, and near what they are near to on the host; the rest
/// explains figures.
asio::awaitable<void> look_at_guest_devices(LiveTrial& trial);

/// Variables by which ranks on a node know its GPUs: in a guest how they hang together on the host, and on
/// bare metal which of the host's they may use.
asio::awaitable<std::map<std::string, std::string>> gpu_environment(LiveTrial& trial,
                                                                    const LiveTenant& tenant,
                                                                    const TrialNode& node);

/// The experiment's engines go to the nodes, and come back from them. Where that fails the trial goes on, and
/// its ranks or a later trial's time for themselves.
asio::awaitable<void> give_plans_to(LiveTrial& trial);
/// How the tenant's ranks choose what they fuse; the highest level where no plans reach its first node.
FusionRule fusion_rule(LiveTrial& trial, const LiveTenant& tenant);
asio::awaitable<void> take_plans_from(LiveTrial& trial);

asio::awaitable<void> look_at_licences(LiveTrial& trial, std::optional<bool> TrialNode::*into);
asio::awaitable<void> read_first_counters(LiveTrial& trial);
/// After the run. Where the host cannot read them, what was measured still counts, and a rule that needs them
/// says so.
asio::awaitable<void> read_last_counters(LiveTrial& trial);

/// Figures of each node alone, by virtrain-probe. They explain a gap; a trial whose probes fail is as good as
/// any other. One that hangs is ended.
asio::awaitable<void> probe_nodes(LiveTrial& trial);
/// Collectives over all ranks of each tenant that has several, likewise.
asio::awaitable<void> probe_ranks(LiveTrial& trial);

/// Readings of a guest from the host; a host that no longer sees into it is not asked again.
asio::awaitable<void> look_from_host(LiveTrial& trial);

/// Machines that exist already tell what they are; for the rows of the trial and its nodes. Throws
/// Error(trial_failed) for one that is too small.
asio::awaitable<void> look_at_machines(LiveTrial& trial, LiveNodes& nodes);

}  // namespace virtrain::harness
