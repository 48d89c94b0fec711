#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"

namespace virtrain::harness {

/// The hosts' shares of one case.
struct HostShares {
  std::vector<std::vector<std::int64_t>> nodes;  ///< by host and tenant
  std::vector<std::string> problems = {};        ///< why some tenant has no such place, a sentence each
};

/// Gives the nodes of each tenant to hosts: to the one that it names, so many to each host in their order, or
/// as evenly as it goes, where the hosts that the case has used least come first. Pure.
HostShares share_nodes(const Case& wanted, const std::vector<std::string>& hosts);

/// The plan as far as one of its hosts is concerned: without nodes of others, and tenants that have none
/// there.
Plan part_of_host(Plan plan, const std::string& host);
/// Visits each host with its part; of one host that is the plan itself.
void for_each_part(const Plan& plan, const std::vector<PlanHost>& hosts,
                   const std::function<void(const PlanHost& host, const Plan& part)>& visit);

/// Features that a plan over several hosts cannot have, a sentence each.
std::vector<std::string> impossible_over_hosts(const Scenario& scenario);

/// Features that nodes cannot have whose network is of that kind, a sentence each: virtual functions have no
/// end on the host.
std::vector<std::string> impossible_over_functions(const Scenario& scenario, vmctl::HostNetworkKind kind);

/// The names of the hosts on which the plan makes nodes; those of attached machines are not among them.
std::vector<std::string> hosts_of(const Plan& plan);
/// The place of a run of it, as the database has it: that host's own name, or the names of several, or of
/// attached machines where a run has no other nodes.
std::string place_of(const Plan& plan, const std::vector<PlanHost>& hosts);
/// Whether a tenant has nodes on several hosts.
bool crosses_hosts(const Plan& plan);

/// Addresses in the networks between hosts, where those of other experiments may be: each tenant has 1,022 of
/// 10.64.0.0/10, and each node a MAC address, that follow from the experiment. Of a plan on one host, whose
/// networks are its own, nothing is changed. Pure.
void give_addresses(Plan& plan, const std::string& experiment);

}  // namespace virtrain::harness
