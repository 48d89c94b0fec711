#include <fmt/format.h>

#include <algorithm>

#include "common/contains.h"
#include "common/text/cpu_list.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/plan/plan.h"
#include "harness/plan/security_placement.h"

namespace virtrain::harness {
namespace {

/// "core 1", "4 cores 0-3", and "32 cores 0,2,…,62" where the gaps between many are equal, as on a host whose
/// sockets take turns.
std::string cores_text(const std::vector<int>& cores) {
  constexpr std::size_t many_cores = 6;
  if (cores.size() == 1) { return fmt::format("core {}", cores[0]); }
  bool regular = cores.size() >= many_cores && cores[1] - cores[0] > 1;
  for (std::size_t i = 2; regular && i < cores.size(); ++i) {
    regular = cores[i] - cores[i - 1] == cores[1] - cores[0];
  }
  return fmt::format(
      "{} cores {}", cores.size(),
      regular ? fmt::format("{},{},…,{}", cores[0], cores[1], cores.back()) : format_cpu_list(cores));
}

/// "GPUs", "vGPUs" or, where there is anything else among them, "devices".
const char* word_for(const std::vector<vmctl::PlacedDevice>& devices) {
  const auto is_vgpu = [](const vmctl::PlacedDevice& device) {
    return vmctl::is_made_for_each_vm(device.grant);
  };
  if (std::all_of(devices.begin(), devices.end(), is_vgpu)) { return "vGPUs"; }
  const bool all_gpus = std::all_of(devices.begin(), devices.end(), [&](const auto& device) {
    return device.is_display && !is_vgpu(device);
  });
  return all_gpus ? "GPUs" : "devices";
}

std::string work_of(const TenantPlacement& tenant) {
  if (tenant.neighbour) { return tenant.neighbour->condition(); }
  if (tenant.runs_job()) {
    const auto& job = *tenant.workload.job;
    return fmt::format("{} ({}, in {})", excerpt(join(job_words(tenant), " ")), to_string(job.launch),
                       job.throughput.unit);
  }
  return fmt::format("{} × {} {} px batch {}", tenant.ranks_per_node, to_string(tenant.workload.precision),
                     tenant.workload.image_size, tenant.workload.batch_size);
}

/// ", each reset before each VM".
std::string clearing_words(const std::vector<vmctl::PlacedDevice>& devices) {
  switch (devices.front().grant.between_tenants) {
    case vmctl::BetweenTenants::none:
      break;
    case vmctl::BetweenTenants::reset:
      return ", each reset before each VM";
    case vmctl::BetweenTenants::erase:
      return ", each erased before each VM";
  }
  return "";
}

std::string node_line(const Placement& placement, const TenantPlacement& tenant, const NodePlacement& node) {
  if (placement.is_attached) {
    return fmt::format("    {} {} on {}, which exists already{}, {}\n", tenant.name, node.hostname, node.host,
                       node.address.empty() ? "" : " (" + node.address + ")", work_of(tenant));
  }
  const auto limits = vmctl::limits_text(node.limits);
  return fmt::format(
      "    {} {}{}: {}, NUMA node {}, {}{}{}, {}{}\n", tenant.name, node.hostname,
      node.host.empty() ? "" : " on " + node.host, cores_text(node.cores),
      node.numa_node ? std::to_string(*node.numa_node) : "several", format_size(node.memory_bytes),
      node.devices.empty()
          ? ""
          : fmt::format(", {} {} ({}){}", word_for(node.devices), join(node.device_addresses(), " "),
                        node.devices_reason, clearing_words(node.devices)),
      node.network_function ? ", network by " + node.network_function->grant.address : "", work_of(tenant),
      limits.empty() ? "" : "; at most " + limits);
}

/// "  vm-unpinned is like vm, with guest.pinning none" for each variant.
std::string arm_lines(const std::vector<Arm>& arms) {
  constexpr std::size_t longest_launcher = 90;
  std::string out;
  for (const auto& arm : arms) {
    if (arm.like.empty() && !arm.attached.empty()) {
      out += fmt::format("  {} attaches\n", arm.name);
      for (const auto& machine : arm.attached) {
        out += fmt::format("    {} by {}\n", machine.name,
                           excerpt(join(machine.launcher, " "), longest_launcher));
      }
    }
    if (arm.like.empty()) { continue; }
    std::vector<std::string> changes;
    for (const auto& [key, value] : arm.own_changes) { changes.push_back(key + " " + excerpt(value)); }
    out += fmt::format("  {} is like {}, {}\n", arm.name, arm.like,
                       changes.empty() ? "unchanged" : "with " + join(changes, ", "));
  }
  return out.empty() ? out : "\narms\n" + out;
}

/// "  (vm, vm-unpinned)" where the arms of the placement's case have several.
std::string arms_of(const Plan& plan, std::size_t placement) {
  const auto& name = plan.placements[placement].case_name;
  const auto has_name = [&](const Placement& one) { return one.case_name == name; };
  if (std::count_if(plan.placements.begin(), plan.placements.end(), has_name) == 1) { return ""; }
  std::vector<std::string> arms;
  for (const auto& trial : plan.trials) {
    if (trial.placement == placement && trial.pair == 1) { arms.push_back(trial.arm); }
  }
  return "  (" + join(arms, ", ") + ")";
}

/// All trials of a case.
struct CaseLine {
  std::string name;
  std::int64_t nodes = 0;
  std::vector<std::string> arms;
  std::int64_t pairs = 0, trials = 0;
  SecondsRange likely;
};

/// The cases in their order.
std::vector<CaseLine> case_lines(const Plan& plan) {
  std::vector<CaseLine> lines;
  for (const auto& trial : plan.trials) {
    const auto& placement = plan.placements[trial.placement];
    if (lines.empty() || lines.back().name != placement.case_name) {
      lines.push_back({placement.case_name, 0, {}, 0, 0, {}});
    }
    auto& line = lines.back();
    line.nodes = std::max(line.nodes, placement.nodes());
    add_once(line.arms, trial.arm);
    line.pairs = std::max(line.pairs, trial.pair);
    ++line.trials;
    line.likely += trial.likely;
  }
  return lines;
}

/// "bare_metal, vm", or "28 arms" where there are too many for a line.
std::string arms_words(const std::vector<std::string>& arms) {
  constexpr std::size_t longest = 30;
  auto words = join(arms, ", ");
  return words.size() <= longest ? words : counted(arms.size(), "arm");
}

std::size_t widest_case(const Plan& plan) {
  std::size_t width = 4;
  for (const auto& placement : plan.placements) { width = std::max(width, placement.case_name.size()); }
  return width;
}

std::string table_of_cases(const Plan& plan) {
  const auto lines = case_lines(plan);
  const auto width = widest_case(plan);
  std::size_t arms_width = 4;
  for (const auto& line : lines) { arms_width = std::max(arms_width, arms_words(line.arms).size()); }
  for (const auto& one : plan.security) { arms_width = std::max(arms_width, one.arm.size()); }
  std::string out;
  if (!lines.empty()) {
    out += fmt::format("\n{:<{}}  {:>5}  {:<{}}  {:>5}  {:>6}  estimate\n", "case", width, "nodes", "arms",
                       arms_width, "pairs", "trials");
  }
  for (const auto& line : lines) {
    out += fmt::format("{:<{}}  {:>5}  {:<{}}  {:>5}  {:>6}  {}\n", line.name, width, line.nodes,
                       arms_words(line.arms), arms_width, line.pairs, line.trials, to_words(line.likely));
  }
  return out;
}

std::string table_of_trials(const Plan& plan) {
  const auto width = widest_case(plan);
  auto out = fmt::format("\n{:>5}  {:<{}}  {:<18} {:>4}  {:>5}  estimate\n", "order", "case", width, "arm",
                         "pair", "nodes");
  for (const auto& trial : plan.trials) {
    const auto& placement = plan.placements[trial.placement];
    out += fmt::format("{:>5}  {:<{}}  {:<18} {:>4}  {:>5}  {}\n", trial.order, placement.case_name, width,
                       trial.arm, trial.pair, placement.nodes(), to_words(trial.likely));
  }
  return out;
}

/// Leak searches, which come after the trials.
std::string table_of_security(const Plan& plan) {
  std::string out;
  for (const auto& one : plan.security) {
    const auto line = [&](std::size_t placement, std::int64_t nodes) {
      out += fmt::format("{:<{}}  {:>5}  {}\n", plan.placements[placement].case_name, widest_case(plan),
                         nodes, one.arm);
    };
    line(one.placement, plan.placements[one.placement].nodes());
    if (one.device_placement) { line(*one.device_placement, tenants_of_device); }
    if (one.peer_placement) { line(*one.peer_placement, plan.placements[*one.peer_placement].nodes()); }
  }
  return out.empty() ? out : "\nleak searches, after the trials\n" + out;
}

}  // namespace

std::string to_table(const Plan& plan, bool every_trial) {
  auto out =
      fmt::format("{}, {}, {}, {}\n", counted(plan.trials.size(), "trial"), counted(plan.vm_boots, "VM boot"),
                  counted(plan.device_bindings, "device rebind"), to_words(plan.likely));
  if (plan.image.high > 0) {
    out += fmt::format("guest image: up to {} of these, once, unless it is in the cache\n",
                       to_words({plan.image.high, plan.image.high}));
  }
  for (const auto& warning : plan.warnings) { out += "warning: " + warning + "\n"; }
  out += every_trial ? table_of_trials(plan) : table_of_cases(plan);
  out += table_of_security(plan);
  out += arm_lines(plan.arms);
  out += "\nplacement\n";
  for (std::size_t p = 0; p < plan.placements.size(); ++p) {
    const auto& placement = plan.placements[p];
    out += fmt::format("  {}{}{}\n", placement.case_name, arms_of(plan, p),
                       placement.oversubscribed ? "  (oversubscribed: more vCPUs than cores)" : "");
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) { out += node_line(placement, tenant, node); }
    }
  }
  return out;
}

}  // namespace virtrain::harness
