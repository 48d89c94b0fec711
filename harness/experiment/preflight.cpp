#include "harness/experiment/preflight.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/experiment/cuda_host.h"
#include "harness/hosts/at_once.h"
#include "harness/job/programs.h"
#include "harness/plan/device_demand.h"
#include "harness/plan/host_shares.h"
#include "harness/plan/node_group.h"
#include "vmctl/api/domain_template.h"

namespace virtrain::harness {
namespace {

using vmctl::HostMode;

/// The CPU trainer's bf16 needs AVX-512's instructions for it, which QEMU does not emulate.
void check_bf16(const Scenario& scenario, const vmctl::Inventory& inventory,
                std::vector<std::string>& reasons) {
  if (is_all_attached(scenario)) { return; }
  const bool host_can = contains<std::string>(inventory.cpu_flags, "avx512_bf16");
  const bool guest_can = host_can && !expects_emulation(inventory);
  if (host_can && (guest_can || !has_arm(scenario, arm_vm))) { return; }
  for (const auto& placement : scenario.cases) {
    for (const auto& tenant : placement.tenants) {
      if (!tenant.workload.job && tenant.workload.backend == Backend::cpu &&
          tenant.workload.precision == Precision::bf16) {
        reasons.push_back(fmt::format(
            "case {}: {} trains in bf16, but {} no avx512_bf16 (use precision fp32{})", placement.name,
            tenant.name, host_can ? "VMs are emulated here and their CPU has" : "this host's CPU has",
            host_can ? ", or a host with KVM" : ""));
      }
    }
  }
}

/// A template may want the host's own processor, which QEMU cannot emulate.
void check_templates(const Scenario& scenario, const Plan& plan, const vmctl::Inventory& inventory,
                     std::vector<std::string>& reasons) {
  if (!has_arm(scenario, arm_vm) || !expects_emulation(inventory)) { return; }
  for (const auto& placement : plan.placements) {
    const auto mode = vmctl::cpu_mode_of_template(placement.guest.domain_template);
    if (mode != "host-passthrough" && mode != "host-model") { continue; }
    add_once(reasons,
             fmt::format("guest.template: <cpu mode='{}'> needs KVM, and VMs are emulated here (use mode "
                         "maximum, or a host with KVM)",
                         *mode));
  }
}

void add_what_blocks(const std::vector<Finding>& findings, std::vector<std::string>& reasons) {
  for (const auto& finding : findings) {
    if (blocks(finding)) {
      reasons.push_back(fmt::format("{}: {} ({})", finding.id, finding.found, finding.fix));
    }
  }
}

void check_devices(vmctl::HostLooks& host, const Scenario& scenario, const Plan& plan, HostMode mode,
                   std::vector<std::string>& reasons) {
  auto findings = host.examine_devices(device_demands(plan, scenario));
  // The plan has none with users, nor one that another run of ours holds and that can be waited for.
  std::erase_if(findings, [](const auto& finding) { return finding.id == "USE-1"; });
  add_what_blocks(findings, reasons);
  if (!host.privileges().is_root) {
    reasons.emplace_back("devices: binding them to another driver needs root");
  }
  if (mode != HostMode::system) {
    reasons.push_back(
        fmt::format("devices: mode {} cannot assign any (allowed: mode system)", to_string(mode)));
  }
  std::set<std::string> tokens;
  for (const auto& placement : plan.placements) { tokens.insert(placement.devices.licence_token); }
  for (const auto& token : tokens) {
    if (token.empty() || ::access(token.c_str(), R_OK) == 0) { continue; }
    reasons.push_back("devices: the licence token " + printable(token) + " cannot be read");
  }
  const bool all_in_vms =
      std::ranges::all_of(scenario.arms, [](const Arm& arm) { return runs_in_vms(arm.base); });
  if (scenario.reuse == Reuse::experiment_case && !all_in_vms) {
    reasons.emplace_back(
        "reuse: case would keep the devices in VMs while bare metal needs them (use reuse: trial)");
  }
}

/// Whether nodes have virtual functions as their networks.
bool has_network_functions(const Plan& plan) {
  return std::ranges::any_of(plan.placements, [](const Placement& placement) {
    return std::ranges::any_of(placement.tenants, [](const TenantPlacement& tenant) {
      return std::ranges::any_of(tenant.nodes,
                                 [](const NodePlacement& node) { return node.network_function.has_value(); });
    });
  });
}

/// Keeps only the named limits.
template <auto... members>
vmctl::NodeLimits only(const vmctl::NodeLimits& limits) {
  vmctl::NodeLimits kept;
  ((kept.*members = limits.*members), ...);
  return kept;
}
constexpr auto cpu_of = only<&vmctl::NodeLimits::cpu_cores>;
constexpr auto disk_of = only<&vmctl::NodeLimits::disk_read, &vmctl::NodeLimits::disk_write,
                              &vmctl::NodeLimits::disk_read_iops, &vmctl::NodeLimits::disk_write_iops>;
constexpr auto network_of = only<&vmctl::NodeLimits::network_in, &vmctl::NodeLimits::network_out>;
constexpr auto resctrl_of = only<&vmctl::NodeLimits::llc, &vmctl::NodeLimits::memory_bandwidth>;

/// A limit that cannot be had is refused: it would look like a mitigation that does nothing.
void check_limits(vmctl::HostLooks& host, const Plan& plan, HostMode mode,
                  std::vector<std::string>& reasons) {
  std::vector<std::string> refused;
  std::set<std::tuple<vmctl::NodeKind, std::string, bool>> tried;
  for (const auto& trial : plan.trials) {
    const auto& placement = plan.placements[trial.placement];
    const auto kind = node_kind(trial.base);
    const bool vm = kind == vmctl::NodeKind::vm;
    for (const auto& tenant : placement.tenants) {
      const auto& limits = tenant.nodes[0].limits;
      const auto words = vmctl::limits_text(limits);
      const bool writes_to_memory = vm && placement.guest.is_mirror() && tenant.nodes[0].scratch_bytes == 0;
      if (words.empty() || !tried.emplace(kind, words, writes_to_memory).second) { continue; }
      const auto refuse = [&](const vmctl::NodeLimits& which, const std::string& why) {
        add_once(refused, fmt::format("limits ({}): {}", vmctl::limits_text(which), why));
      };
      if (mode != HostMode::system && limits.cpu_cores) {
        refuse(cpu_of(limits),
               fmt::format("mode {} has no cgroups that bound CPU time (allowed: mode system)",
                           to_string(mode)));
      }
      if (mode != HostMode::system && limits.of_disk() && !vm) {
        refuse(disk_of(limits),
               fmt::format(
                   "mode {} has no cgroups that bound the disk of slices (allowed: mode system, or arm vm)",
                   to_string(mode)));
      }
      if (mode != HostMode::system && limits.of_network() && vm) {
        refuse(
            network_of(limits),
            fmt::format("mode {} cannot bound the network of VMs (allowed: mode system)", to_string(mode)));
      }
      if (mode != HostMode::system && limits.of_resctrl()) {
        refuse(resctrl_of(limits), fmt::format("mode {} cannot write {} (allowed: mode system)",
                                               to_string(mode), "/sys/fs/resctrl"));
      }
      if (limits.of_network() && kind == vmctl::NodeKind::shared_slice) {
        refuse(network_of(limits),
               "bare_metal_shared has no network of its own to bound (allowed: arms bare_metal and vm)");
      }
      if (writes_to_memory && (limits.disk_write || limits.disk_write_iops)) {
        refuse(
            disk_of(limits),
            "mirror guests write to memory (allowed: arm bare_metal, a guest.image with a disk of its own, "
            "or aggressor disk, whose VM has one)");
      }
      if (mode != HostMode::system) { continue; }
      for (const auto& why : host.lacks_limits(kind, limits)) { refuse(limits, why); }
    }
  }
  reasons.insert(reasons.end(), refused.begin(), refused.end());
}

void check_vm_arm(vmctl::HostLooks& host, const Plan& plan, HostMode mode,
                  std::vector<std::string>& reasons) {
  std::set<std::pair<std::string, std::string>> checked;
  for (const auto& trial : plan.trials) {
    const auto& guest = plan.placements[trial.placement].guest;
    if (!runs_in_vms(trial.base) || !checked.emplace(guest.image, guest.cpu_model).second) { continue; }
    try {
      host.check_guest(guest);
    } catch (const Error& error) { reasons.emplace_back(error.what()); }
  }
  add_what_blocks(host.examine(mode), reasons);
  std::set<std::string> refused;
  for (const auto& placement : plan.placements) {
    const auto& guest = placement.guest;
    if (guest.nccl_topology.starts_with('/') && ::access(guest.nccl_topology.c_str(), R_OK) != 0) {
      refused.insert("guest.nccl_topology: " + printable(guest.nccl_topology) + " cannot be read");
    }
    if (guest.network != vmctl::GuestNetwork() && mode != HostMode::system) {
      refused.insert(fmt::format("guest.network: mode {} has a NIC of its own kind (allowed: mode system)",
                                 to_string(mode)));
    }
    if (guest.memory_encryption == vmctl::MemoryEncryption::bounce && !guest.is_mirror()) {
      refused.insert(
          "guest.memory_encryption: a cloud image has its own kernel command line (use image mirror)");
    }
  }
  reasons.insert(reasons.end(), refused.begin(), refused.end());
  const bool huge = std::any_of(plan.placements.begin(), plan.placements.end(),
                                [](const auto& placement) { return placement.guest.hugepages; });
  if (huge && mode != HostMode::system) {
    reasons.push_back(fmt::format("guest.hugepages: mode {} may not take huge pages (allowed: mode system)",
                                  to_string(mode)));
  }
  if (mode != HostMode::system || host.privileges().is_root) { return; }
  if (const auto why = host.lacks_system_libvirt(); !why.empty()) {
    reasons.push_back(
        fmt::format("libvirt does not answer at {}: {} (start libvirtd, run as root, or use --mode "
                    "namespaces or session)",
                    vmctl::system_libvirt, why));
  }
}

/// Slices with namespaces of their own.
void check_bare_metal_arm(vmctl::HostLooks& host, HostMode mode, std::vector<std::string>& reasons) {
  const auto privileges = host.privileges();
  if (mode == HostMode::namespaces || (mode == HostMode::system && privileges.lacks_isolation.empty())) {
    return;
  }
  const auto why = mode == HostMode::system || privileges.lacks_user_namespaces.empty()
                       ? privileges.lacks_isolation
                       : privileges.lacks_user_namespaces;
  reasons.push_back(
      fmt::format("arm bare_metal isolates its slices with namespaces, which mode {} cannot make{} (run as "
                  "root on a host that allows them, or use arm bare_metal_shared)",
                  to_string(mode), why.empty() ? "" : ": " + why));
}

/// Whether the system's libvirt does all that the scenario wants for a user who is not root.
bool system_libvirt_is_enough(vmctl::HostLooks& host, const Scenario& scenario) {
  return !host.privileges().is_root && has_arm(scenario, arm_vm) && !has_arm(scenario, arm_bare_metal) &&
         host.closed_to_qemu().empty() && host.lacks_system_libvirt().empty();
}

}  // namespace

HostMode choose_mode(vmctl::HostLooks& host, std::optional<HostMode> asked, const Scenario& scenario) {
  if (asked == HostMode::namespaces) {
    if (const auto why = host.lacks_user_namespaces(); !why.empty()) {
      throw Error("run " + scenario.name, ErrorCode::host_unable, "mode namespaces: " + why);
    }
  }
  if (asked) { return *asked; }
  const auto best = vmctl::best_mode(host.privileges());
  return best != HostMode::system && system_libvirt_is_enough(host, scenario) ? HostMode::system : best;
}

void check_host(vmctl::HostLooks& host, const Scenario& scenario, const Plan& plan,
                const vmctl::Inventory& inventory, HostMode mode) {
  std::vector<std::string> reasons;
  if (scenario.devices.kind != DeviceKind::none || has_network_functions(plan)) {
    check_devices(host, scenario, plan, mode, reasons);
  } else if (const auto demands = device_demands(plan, scenario); !demands.empty()) {
    auto findings = host.examine_devices(demands);
    std::erase_if(findings, [](const auto& finding) { return finding.id != "CVM-1"; });
    add_what_blocks(findings, reasons);
  }
  if (uses_cuda(plan)) {
    const auto missing = cuda_reasons(scenario, plan, host.look_at_cuda(trainer_name(Backend::cuda)));
    reasons.insert(reasons.end(), missing.begin(), missing.end());
  }
  check_bf16(scenario, inventory, reasons);
  check_templates(scenario, plan, inventory, reasons);
  check_limits(host, plan, mode, reasons);
  if (has_arm(scenario, arm_vm)) { check_vm_arm(host, plan, mode, reasons); }
  if (has_arm(scenario, arm_bare_metal)) { check_bare_metal_arm(host, mode, reasons); }
  if (!reasons.empty()) { throw Error("run " + scenario.name, ErrorCode::host_unable, join(reasons, "\n")); }
}

void leave_out_impossible_arms(vmctl::HostLooks& host, const Scenario& scenario,
                               const vmctl::Inventory& inventory, HostMode mode, Plan& plan) {
  std::optional<Error> first;
  bool any = false;
  for (auto& arm : plan.security) {
    auto alone = scenario;
    std::erase_if(alone.arms, [&](const Arm& one) { return one.base != arm.base; });
    try {
      check_host(host, alone, plan, inventory, mode);
      any = true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::host_unable) { throw; }
      arm.lacks = error.message();
      if (!first) { first = error; }
    }
  }
  if (!any && first) { throw Error(*first); }
  if (plan.security.empty()) {
    throw Error("run " + scenario.name, ErrorCode::host_unable,
                "leak searches need arm bare_metal or vm, which the scenario does not have");
  }
}

std::vector<PlanHost> plan_hosts(const std::vector<NamedHost>& hosts, const Scenario& scenario) {
  return at_once(hosts, [&](const NamedHost& one) {
    const bool by_functions = one.network.kind == vmctl::HostNetworkKind::vf;
    const auto inventory = one.host->inventory(scenario.devices.kind != DeviceKind::none || by_functions);
    return PlanHost{hosts.size() == 1 ? "" : one.name, inventory, expects_emulation(inventory), one.network};
  });
}

void check_hosts(const std::vector<NamedHost>& hosts, const std::vector<PlanHost>& rooms,
                 const Scenario& scenario, const Plan& plan, HostMode mode) {
  std::vector<std::string> reasons;
  auto next = hosts.begin();
  for_each_part(plan, rooms, [&](const PlanHost& room, const Plan& part) {
    const auto& one = *next++;
    try {
      check_host(*one.host, scenario, part, room.inventory, mode);
    } catch (const Error& error) {
      if (hosts.size() == 1 || error.code() != ErrorCode::host_unable) { throw; }
      reasons.push_back(one.name + ": " + error.message());
    }
  });
  const bool has_network = hosts.front().network.kind != vmctl::HostNetworkKind::none;
  if (crosses_hosts(plan) && !has_network) {
    reasons.emplace_back(
        "the hosts have no network for nodes of one tenant (give them one in a hosts file: network: {kind: "
        "bridge, name: …}, {kind: vxlan, name: NIC} or {kind: vf, name: NIC})");
  }
  // Nodes of the shared arm have the host's own network, which mode session leaves them.
  const bool is_shared =
      std::ranges::all_of(scenario.arms, [](const Arm& arm) { return shares_nodes(arm.base); });
  const bool reaches = mode == HostMode::system || (mode == HostMode::session && is_shared);
  if (hosts.size() > 1 && !reaches) {
    reasons.push_back(
        fmt::format("mode {} has no network that reaches other hosts (allowed: mode system, or "
                    "--mode session with arm bare_metal_shared alone)",
                    to_string(mode)));
  }
  if (!reasons.empty()) { throw Error("run " + scenario.name, ErrorCode::host_unable, join(reasons, "\n")); }
}

HostMode choose_mode(const std::vector<NamedHost>& hosts, std::optional<HostMode> asked,
                     const Scenario& scenario) {
  const auto modes =
      at_once(hosts, [&](const NamedHost& one) { return choose_mode(*one.host, asked, scenario); });
  for (std::size_t i = 1; i < modes.size(); ++i) {
    if (modes[i] != modes[0]) {
      throw Error("run " + scenario.name, ErrorCode::host_unable,
                  fmt::format("{} gives mode {}, and {} mode {} (--mode says which is wanted)", hosts[0].name,
                              to_string(modes[0]), hosts[i].name, to_string(modes[i])));
    }
  }
  return modes.front();
}

}  // namespace virtrain::harness
