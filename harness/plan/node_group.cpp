#include "harness/plan/node_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace virtrain::harness {

bool runs_in_vms(const std::string& base) {
  return base == arm_vm;
}

bool shares_nodes(const std::string& base) {
  return base == arm_bare_metal_shared;
}

vmctl::NodeKind node_kind(const std::string& base) {
  return runs_in_vms(base)    ? vmctl::NodeKind::vm
         : shares_nodes(base) ? vmctl::NodeKind::shared_slice
                              : vmctl::NodeKind::slice;
}

std::map<std::string, bool> payload_paths(const Plan& plan) {
  std::map<std::string, bool> paths;
  for (const auto& placement : plan.placements) {
    for (const auto& tenant : placement.tenants) {
      auto& of_hosts = paths[payload_of(tenant)];
      of_hosts = of_hosts || !placement.is_attached;
    }
  }
  paths.erase("");
  return paths;
}

vmctl::NodeGroupSpec node_group(const Placement& placement, const std::string& base,
                                const PayloadDigests& payloads) {
  vmctl::NodeGroupSpec group;
  group.kind = node_kind(base);
  group.guest = placement.guest;
  for (const auto& tenant : placement.tenants) {
    auto& nodes = group.tenants.emplace_back(tenant.nodes.begin(), tenant.nodes.end());
    const auto payload = payloads.find(payload_of(tenant));
    if (payload == payloads.end()) { continue; }
    for (auto& node : nodes) { node.payload = payload->second; }
  }
  return group;
}

bool lends_nvidia_devices(const Plan& plan) {
  const auto is_nvidia = [](const auto& device) { return device.vendor == vmctl::nvidia; };
  for (const auto& placement : plan.placements) {
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) {
        if (std::any_of(node.devices.begin(), node.devices.end(), is_nvidia)) { return true; }
      }
    }
  }
  return false;
}

ByHost<std::vector<std::string>> resources_of(const Plan& plan) {
  ByHost<std::set<std::string>> by_host;
  for (const auto& placement : plan.placements) {
    if (placement.is_attached) { continue; }
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) {
        auto& names = by_host[node.host];
        for (const int core : node.cores) { names.insert(fmt::format("core:{}", core)); }
        for (const auto& device : vmctl::devices_of(node)) {
          names.insert("device:" + device.grant.address);
          // How a card is set is so for all of its vGPUs.
          if (is_made_for_each_vm(device.grant)) { names.insert("device:" + card_of(device.grant)); }
        }
      }
    }
  }
  ByHost<std::vector<std::string>> resources;
  for (const auto& [host, names] : by_host) { resources[host] = {names.begin(), names.end()}; }
  return resources;
}

ByHost<std::vector<vmctl::DeviceGrant>> grants_of(const Placement& placement, const std::string& experiment) {
  ByHost<std::vector<vmctl::DeviceGrant>> by_host;
  for (const auto& tenant : placement.tenants) {
    for (const auto& node : tenant.nodes) {
      for (auto& grant : vmctl::grants_of(node, experiment)) {
        by_host[node.host].push_back(std::move(grant));
      }
    }
  }
  return by_host;
}

vmctl::CardSettings settings_of_cards(const Devices& devices) {
  if (devices.kind != DeviceKind::vgpu) { return {}; }
  return {devices.settings, devices.vgpu_scheduler};
}

std::vector<PlannedDomain> planned_domains(const Plan& plan, const PayloadDigests& payloads,
                                           const PlannedXml& planned_xml) {
  std::vector<PlannedDomain> domains;
  ByHost<vmctl::NodeId> numbers;  // each host counts its own
  for (std::size_t i = 0; i < plan.trials.size(); ++i) {
    const auto& trial = plan.trials[i];
    const auto group = node_group(plan.placements[trial.placement], trial.base, payloads);
    for (std::size_t t = 0; t < group.tenants.size(); ++t) {
      for (std::size_t n = 0; n < group.tenants[t].size(); ++n) {
        // Slices take numbers too; in the shared arm one stands for all nodes of its tenant on a host.
        const auto& nodes = group.tenants[t];
        auto& number = numbers[nodes[n].host];
        if (!shares_nodes(trial.base) || n == 0 || nodes[n].host != nodes[n - 1].host) { ++number; }
        if (runs_in_vms(trial.base)) { domains.push_back({i, t, n, planned_xml(group, t, n, number)}); }
      }
    }
  }
  return domains;
}

std::string to_text(const Plan& plan, const std::vector<PlannedDomain>& domains) {
  std::string out;
  std::map<std::pair<std::string, std::string>, std::size_t> first;  // trial of a case in an arm
  for (const auto& domain : domains) {
    const auto& trial = plan.trials[domain.trial];
    const auto& placement = plan.placements[trial.placement];
    const auto shown = first.emplace(std::pair(placement.case_name, trial.arm), domain.trial).first;
    if (shown->second != domain.trial) { continue; }
    const auto& tenant = placement.tenants[domain.tenant];
    out += fmt::format("\n<!-- {} {} pair {}, {} {} -->\n{}", placement.case_name, trial.arm, trial.pair,
                       tenant.name, tenant.nodes[domain.node].hostname, domain.xml);
  }
  return out;
}

}  // namespace virtrain::harness
