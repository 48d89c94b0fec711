#include "harness/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/text.h"
#include "common/units.h"
#include "harness/plan/baselines.h"
#include "harness/plan/placer.h"

namespace virtrain::harness {
namespace {

/// Rates for the estimate only, one core: oneDNN's convolutions natively, and under QEMU's TCG.
constexpr double kNativeGflopPerSecond = 200.0;
constexpr double kEmulatedGflopPerSecond = 0.7;
constexpr double kGpuImagesPerSecond = 2500.0;
/// ResNet-50's training step at 224 px: forward 8.2 GFLOP, backward twice that.
constexpr double kGflopPerImage224 = 24.3;

double estimate_seconds(const Placement& placement, const std::string& arm, bool emulated) {
  const bool vm = arm == kArmVm;
  double longest = 0;
  for (const auto& tenant : placement.tenants) {
    const auto& w = tenant.workload;
    const double scale = static_cast<double>(w.image_size) / 224.0;
    const double images = static_cast<double>(w.batch_size * w.accumulate_steps * (w.warmup_steps + w.steps));
    const double gflop = images * kGflopPerImage224 * scale * scale;
    const double rate = (vm && emulated ? kEmulatedGflopPerSecond : kNativeGflopPerSecond) *
                        static_cast<double>(tenant.threads_per_rank);
    const double run = w.backend == Backend::cuda ? images / kGpuImagesPerSecond : gflop / rate;
    const double setup = vm && emulated ? 15.0 : 3.0;
    longest = std::max(longest, setup + run);
  }
  const double boot = vm ? (emulated ? 8.0 : 5.0) : 0.5;
  return boot + longest;
}

/// Arms of pair k: as listed, and reversed in every second pair, so that drift hits both alike (ABBA).
std::vector<std::string> order_of_arms(const Scenario& scenario, std::int64_t pair) {
  auto arms = scenario.arms;
  if (pair % 2 == 0) std::reverse(arms.begin(), arms.end());
  return arms;
}

void count_bindings(Plan& plan) {
  std::string bound_to = kArmBareMetal;  // the host's own driver
  for (const auto& trial : plan.trials) {
    const std::string side = trial.arm == kArmVm ? kArmVm : kArmBareMetal;
    std::int64_t devices = 0;
    for (const auto& tenant : plan.placements[trial.placement].tenants)
      for (const auto& node : tenant.nodes) devices += static_cast<std::int64_t>(node.devices.size());
    if (devices > 0 && side != bound_to) {
      plan.device_bindings += devices;
      bound_to = side;
    }
  }
}

nlohmann::json node_json(const NodePlacement& node) {
  nlohmann::json out{{"hostname", node.hostname},
                     {"cores", node.cores},
                     {"memory_bytes", node.memory_bytes},
                     {"devices", node.devices},
                     {"devices_reason", node.devices_reason},
                     {"emulator_cores", node.emulator_cores},
                     {"network", {{"address", node.address}, {"mac", node.mac}}}};
  out["numa_node"] = node.numa_node ? nlohmann::json(*node.numa_node) : nlohmann::json(nullptr);
  return out;
}

nlohmann::json tenant_json(const TenantPlacement& tenant) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const auto& node : tenant.nodes) nodes.push_back(node_json(node));
  return {{"name", tenant.name},
          {"gpus_per_node", tenant.gpus_per_node},
          {"ranks_per_node", tenant.ranks_per_node},
          {"threads_per_rank", tenant.threads_per_rank},
          {"nodes", std::move(nodes)},
          {"workload", to_json(tenant.workload)}};
}

}  // namespace

nlohmann::json to_json(const Workload& workload) {
  return {{"model", workload.model},
          {"backend", to_string(workload.backend)},
          {"precision", to_string(workload.precision)},
          {"batch_size", workload.batch_size},
          {"image_size", workload.image_size},
          {"warmup_steps", workload.warmup_steps},
          {"steps", workload.steps},
          {"accumulate_steps", workload.accumulate_steps},
          {"seed", workload.seed}};
}

std::int64_t Placement::nodes() const {
  std::int64_t sum = 0;
  for (const auto& tenant : tenants) sum += static_cast<std::int64_t>(tenant.nodes.size());
  return sum;
}

bool expects_emulation(const vmctl::Inventory& inventory) {
  const auto& flags = inventory.cpu_flags;
  const auto has = [&](const char* flag) {
    return std::find(flags.begin(), flags.end(), flag) != flags.end();
  };
  return !inventory.has_kvm_device || !(has("vmx") || has("svm"));
}

Plan make_plan(const Scenario& scenario, const vmctl::Inventory& inventory, bool emulated) {
  Plan plan;
  plan.scenario = scenario.name;
  plan.warnings = scenario.warnings;
  Placer placer(scenario, inventory, emulated);
  for (const auto& wanted : scenario.cases) plan.placements.push_back(placer.place(wanted));
  auto problems = impossible_arms(scenario);
  problems.insert(problems.end(), placer.problems().begin(), placer.problems().end());
  if (!problems.empty()) throw Error("plan " + scenario.name, ErrorCode::host_unable, join(problems, "\n"));
  plan.warnings.insert(plan.warnings.end(), placer.warnings().begin(), placer.warnings().end());

  for (std::size_t p = 0; p < plan.placements.size(); ++p) {
    bool booted = false;  // and kept for the case's later trials, if the scenario says so
    for (std::int64_t pair = 1; pair <= scenario.pairs; ++pair) {
      for (const auto& arm : order_of_arms(scenario, pair)) {
        const double seconds = estimate_seconds(plan.placements[p], arm, emulated) +
                               static_cast<double>(scenario.settle_ns) * 1e-9;
        plan.trials.push_back({static_cast<std::int64_t>(plan.trials.size()) + 1, p, arm, pair, seconds});
        plan.estimate_seconds += seconds;
        if (arm != kArmVm) continue;
        if (!booted || scenario.reuse == Reuse::trial) plan.vm_boots += plan.placements[p].nodes();
        booted = true;
      }
    }
  }
  count_bindings(plan);
  return plan;
}

nlohmann::json to_json(const Plan& plan) {
  nlohmann::json trials = nlohmann::json::array();
  for (const auto& trial : plan.trials) {
    const auto& placement = plan.placements[trial.placement];
    nlohmann::json tenants = nlohmann::json::array();
    for (const auto& tenant : placement.tenants) tenants.push_back(tenant_json(tenant));
    trials.push_back({{"order", trial.order},
                      {"case", placement.case_name},
                      {"arm", trial.arm},
                      {"pair", trial.pair},
                      {"nodes", placement.nodes()},
                      {"oversubscribed", placement.oversubscribed},
                      {"estimate_seconds", trial.estimate_seconds},
                      {"tenants", std::move(tenants)}});
  }
  return {{"scenario", plan.scenario},
          {"trials", std::move(trials)},
          {"vm_boots", plan.vm_boots},
          {"device_bindings", plan.device_bindings},
          {"estimate_seconds", plan.estimate_seconds},
          {"warnings", plan.warnings}};
}

std::string to_table(const Plan& plan) {
  std::size_t width = 4;
  for (const auto& placement : plan.placements) width = std::max(width, placement.case_name.size());
  std::string out = fmt::format("{:>5}  {:<{}}  {:<18} {:>4}  {:>5}  {:>9}\n", "order", "case", width, "arm",
                                "pair", "nodes", "estimate");
  for (const auto& trial : plan.trials) {
    const auto& placement = plan.placements[trial.placement];
    out += fmt::format("{:>5}  {:<{}}  {:<18} {:>4}  {:>5}  {:>9}\n", trial.order, placement.case_name, width,
                       trial.arm, trial.pair, placement.nodes(),
                       format_duration(static_cast<std::int64_t>(trial.estimate_seconds * 1e9)));
  }
  out += "\nplacement\n";
  for (const auto& placement : plan.placements) {
    out += fmt::format("  {}{}\n", placement.case_name,
                       placement.oversubscribed ? "  (oversubscribed: more vCPUs than cores)" : "");
    for (const auto& tenant : placement.tenants)
      for (const auto& node : tenant.nodes)
        out += fmt::format("    {} {}: cores {}, NUMA node {}, {}{}, {} × {} {} px batch {}\n", tenant.name,
                           node.hostname, format_cpu_list(node.cores),
                           node.numa_node ? std::to_string(*node.numa_node) : "several",
                           format_size(node.memory_bytes),
                           node.devices.empty()
                               ? ""
                               : fmt::format(", GPUs {} ({})", join(node.devices, " "), node.devices_reason),
                           tenant.ranks_per_node, to_string(tenant.workload.precision),
                           tenant.workload.image_size, tenant.workload.batch_size);
  }
  out += fmt::format("\n{} trials, {} VM boots, {} device rebinds, about {}\n", plan.trials.size(),
                     plan.vm_boots, plan.device_bindings,
                     format_duration(static_cast<std::int64_t>(plan.estimate_seconds * 1e9)));
  for (const auto& warning : plan.warnings) out += "warning: " + warning + "\n";
  return out;
}

}  // namespace virtrain::harness
