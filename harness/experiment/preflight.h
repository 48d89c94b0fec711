#pragma once

#include <optional>
#include <vector>

#include "harness/hosts/named_host.h"
#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"
#include "vmctl/api/host.h"

namespace virtrain::harness {

/// The mode in which this process runs a scenario: the one asked for, or the best that the host gives, found
/// out by trying. Starts no thread. Throws Error(host_unable) where the one asked for is not to be had.
vmctl::HostMode choose_mode(vmctl::HostLooks& host, std::optional<vmctl::HostMode> asked,
                            const Scenario& scenario);

/// Looks, before anything is done, whether this host can run the scenario at all. Throws Error(host_unable)
/// with the doctor's words, one reason a line.
void check_host(vmctl::HostLooks& host, const Scenario& scenario, const Plan& plan,
                const vmctl::Inventory& inventory, vmctl::HostMode mode);

// The same of all hosts of a run.

/// As plans see them. One alone has no name.
std::vector<PlanHost> plan_hosts(const std::vector<NamedHost>& hosts, const Scenario& scenario);
/// Throws Error(host_unable) where hosts give different modes.
vmctl::HostMode choose_mode(const std::vector<NamedHost>& hosts, std::optional<vmctl::HostMode> asked,
                            const Scenario& scenario);
/// Throws Error(host_unable) with all reasons, each with its host's name where there are several.
void check_hosts(const std::vector<NamedHost>& hosts, const std::vector<PlanHost>& rooms,
                 const Scenario& scenario, const Plan& plan, vmctl::HostMode mode);

/// For leak searches, which go by base: what the host cannot do is noted in the plan. Throws
/// Error(host_unable) where it can do none.
void leave_out_impossible_arms(vmctl::HostLooks& host, const Scenario& scenario,
                               const vmctl::Inventory& inventory, vmctl::HostMode mode, Plan& plan);

}  // namespace virtrain::harness
