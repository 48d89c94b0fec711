#include "harness/plan/host_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/contains.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/plan/node_group.h"
#include "harness/plan/placer.h"

namespace virtrain::harness {
namespace {

/// One node after the other: to the host with the fewest of this tenant, of those to the one with the fewest
/// of the case, of those to the first.
void spread_evenly(std::int64_t nodes, std::size_t tenant, const std::vector<std::int64_t>& used,
                   std::vector<std::vector<std::int64_t>>& shares) {
  for (std::int64_t n = 0; n < nodes; ++n) {
    const auto all_of = [&](std::size_t host) { return used[host] + shares[host][tenant]; };
    std::size_t best = 0;
    for (std::size_t host = 1; host < shares.size(); ++host) {
      if (std::pair(shares[host][tenant], all_of(host)) < std::pair(shares[best][tenant], all_of(best))) {
        best = host;
      }
    }
    ++shares[best][tenant];
  }
}

}  // namespace

HostShares share_nodes(const Case& wanted, const std::vector<std::string>& hosts) {
  HostShares out{std::vector(hosts.size(), std::vector<std::int64_t>(wanted.tenants.size()))};
  std::vector<std::int64_t> used(hosts.size());
  for (std::size_t t = 0; t < wanted.tenants.size(); ++t) {
    const auto& tenant = wanted.tenants[t];
    const auto about = fmt::format("case {}: tenant {}: ", wanted.name, tenant.name);
    if (!tenant.on.empty()) {
      const auto found = std::ranges::find(hosts, tenant.on);
      if (found == hosts.end()) {
        out.problems.push_back(
            fmt::format("{}there is no host {} (allowed: {})", about, tenant.on, join(hosts, ", ")));
      } else {
        out.nodes[static_cast<std::size_t>(found - hosts.begin())][t] = tenant.nodes;
      }
    } else if (tenant.per_host) {
      std::int64_t left = tenant.nodes;
      for (auto& share : out.nodes) { left -= share[t] = std::min(left, *tenant.per_host); }
      if (left > 0) {
        const auto needed = (tenant.nodes + *tenant.per_host - 1) / *tenant.per_host;
        out.problems.push_back(fmt::format("{}{} with {} on each host need {}, there are {}", about,
                                           counted(tenant.nodes, "node"), *tenant.per_host,
                                           counted(needed, "host"), hosts.size()));
      }
    } else {
      spread_evenly(tenant.nodes, t, used, out.nodes);
    }
    for (std::size_t host = 0; host < hosts.size(); ++host) { used[host] += out.nodes[host][t]; }
  }
  return out;
}

Plan part_of_host(Plan plan, const std::string& host) {
  for (auto& placement : plan.placements) {
    for (auto& tenant : placement.tenants) {
      std::erase_if(tenant.nodes, [&](const NodePlacement& node) { return node.host != host; });
    }
    std::erase_if(placement.tenants, [](const TenantPlacement& tenant) { return tenant.nodes.empty(); });
  }
  return plan;
}

void for_each_part(const Plan& plan, const std::vector<PlanHost>& hosts,
                   const std::function<void(const PlanHost& host, const Plan& part)>& visit) {
  for (const auto& host : hosts) { visit(host, hosts.size() == 1 ? plan : part_of_host(plan, host.name)); }
}

std::vector<std::string> impossible_over_hosts(const Scenario& scenario) {
  std::vector<std::string> problems;
  if (scenario.isolation) {
    problems.emplace_back(
        "isolation measures neighbours that share parts of one host (give one host: --hosts NAME)");
  }
  if (scenario.security) {
    problems.emplace_back("leak searches are of one host (give one host: --hosts NAME)");
  }
  const auto is_shared = [](const ListedHost& host) { return vmctl::shares_ethernet(host.network.kind); };
  if (scenario.reuse == Reuse::experiment_case && std::ranges::any_of(scenario.hosts.hosts, is_shared)) {
    problems.emplace_back(
        "reuse: case keeps VMs on the same bridge or NIC as the slices of bare metal, with the same "
        "addresses (use reuse: trial, or a network of kind vxlan)");
  }
  return problems;
}

std::vector<std::string> impossible_over_functions(const Scenario& scenario, vmctl::HostNetworkKind kind) {
  std::vector<std::string> problems;
  if (kind != vmctl::HostNetworkKind::vf) { return problems; }
  for (const auto& arm : scenario.arms) {
    if (shares_nodes(arm.base)) { continue; }
    for (const auto& one : arm.cases) {
      const auto refuse = [&](const std::string& words) {
        add_once(problems, fmt::format("case {}: {} (leave it out, or use kind vxlan)", one.name, words));
      };
      if (one.guest.network.vhost || one.guest.network.queues != 1) {
        refuse("guest.network: vhost and queues are of virtio NICs, and network kind vf has none");
      }
      for (const auto& tenant : one.tenants) {
        if (tenant.limits.of_network()) {
          refuse("limits: what a node sends past the host, through a virtual function, cannot be limited");
        }
      }
    }
  }
  return problems;
}

std::vector<std::string> hosts_of(const Plan& plan) {
  std::set<std::string> names;
  for (const auto& placement : plan.placements) {
    if (placement.is_attached) { continue; }
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) { names.insert(node.host); }
    }
  }
  return {names.begin(), names.end()};
}

std::string place_of(const Plan& plan, const std::vector<PlanHost>& hosts) {
  std::vector<std::string> machines;
  for (const auto& arm : plan.arms) {
    if (arm.attached.empty()) { break; }
    for (const auto& machine : arm.attached) { add_once(machines, machine.name); }
    if (&arm == &plan.arms.back()) { return join(machines, ", "); }
  }
  return hosts.size() == 1 ? hosts.front().inventory.hostname : join(hosts_of(plan), ", ");
}

bool crosses_hosts(const Plan& plan) {
  for (const auto& placement : plan.placements) {
    if (placement.is_attached) { continue; }
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) {
        if (node.host != tenant.nodes.front().host) { return true; }
      }
    }
  }
  return false;
}

void give_addresses(Plan& plan, const std::string& experiment) {
  if (hosts_of(plan).size() < 2) { return; }
  // 10.64.0.0/10 has 4096 networks of 1024 addresses, of which the first and the last are not a node's.
  constexpr std::uint32_t networks = 4096;
  const auto first = static_cast<std::uint32_t>(std::stoul(sha256(experiment).substr(0, 8), nullptr, 16));
  for (auto& placement : plan.placements) {
    if (placement.is_attached) { continue; }
    std::set<std::uint32_t> taken;  // lower halves of MAC addresses
    for (std::size_t t = 0; t < placement.tenants.size(); ++t) {
      const auto network = (first + static_cast<std::uint32_t>(t)) % networks;
      auto& nodes = placement.tenants[t].nodes;
      for (std::size_t n = 0; n < nodes.size(); ++n) {
        const auto address = (10U << 24) + (64U << 16) + network * 1024 + static_cast<std::uint32_t>(n) + 1;
        nodes[n].address = fmt::format("{}.{}.{}.{}/22", address >> 24, address >> 16 & 0xff,
                                       address >> 8 & 0xff, address & 0xff);
        nodes[n].mac = derived_mac("52:54:00", experiment + " " + nodes[n].hostname, taken);
      }
    }
  }
}

}  // namespace virtrain::harness
