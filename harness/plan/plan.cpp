#include "harness/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "common/units.h"

namespace virtrain::harness {
namespace {

/// Resident memory of QEMU beside the guest's own: measured 286-351 MiB under TCG, far less under KVM.
constexpr std::uint64_t kEmulatedOverheadBytes = 350ULL << 20;
constexpr std::uint64_t kKvmOverheadBytes = 150ULL << 20;

/// Of a CPU rank with the smallest batch: parameters, gradients, momentum, and what the libraries take (seen:
/// 350 MiB alone, 350-440 MiB with others).
constexpr std::uint64_t kLeastRankBytes = 400ULL << 20;

/// Rates for the estimate only, one core: oneDNN's convolutions natively, and under QEMU's TCG.
constexpr double kNativeGflopPerSecond = 200.0;
constexpr double kEmulatedGflopPerSecond = 0.7;
constexpr double kGpuImagesPerSecond = 2500.0;
/// ResNet-50's training step at 224 px: forward 8.2 GFLOP, backward twice that.
constexpr double kGflopPerImage224 = 24.3;

/// Hands out cores of one host, node by node.
class CoreAllocator {
 public:
  /// Of all the host's cores, or of those that no other run holds where `wanted` of them are left.
  CoreAllocator(const vmctl::Inventory& inventory, std::size_t wanted, bool by_numa) {
    const std::set<int> leased(inventory.leased_cores.begin(), inventory.leased_cores.end());
    const auto is_leased = [&](const vmctl::Core& core) { return leased.contains(core.id); };
    const auto held = std::count_if(inventory.cores.begin(), inventory.cores.end(), is_leased);
    const bool avoid_leased = inventory.cores.size() - static_cast<std::size_t>(held) >= wanted;
    for (const auto& core : inventory.cores) {
      if (avoid_leased && is_leased(core)) continue;
      free_[by_numa ? core.numa_node : 0].push_back(core.id);
      all_.push_back(core.id);
      numa_of_[core.id] = core.numa_node;
    }
  }

  /// `count` cores, of one NUMA node if any has that many left, else of several; nothing when too few are
  /// left.
  std::vector<int> take(std::size_t count) {
    const auto roomy = std::find_if(free_.begin(), free_.end(),
                                    [&](const auto& entry) { return entry.second.size() >= count; });
    if (roomy != free_.end()) return take_from(roomy->second, count);
    if (left() < count) return {};
    std::vector<int> cores;
    for (auto& [numa, list] : free_)
      for (const int core : take_from(list, std::min(count - cores.size(), list.size())))
        cores.push_back(core);
    return cores;
  }

  /// Cores that are shared with others because none are left, in turn over the whole host.
  std::vector<int> share(std::size_t count) {
    std::vector<int> cores;
    for (std::size_t i = 0; i < count; ++i) cores.push_back(all_[next_shared_++ % all_.size()]);
    return cores;
  }

  std::size_t left() const {
    std::size_t sum = 0;
    for (const auto& [numa, list] : free_) sum += list.size();
    return sum;
  }
  std::vector<int> remaining() const {
    std::vector<int> cores;
    for (const auto& [numa, list] : free_) cores.insert(cores.end(), list.begin(), list.end());
    return cores;
  }
  std::optional<int> common_numa_node(const std::vector<int>& cores) const {
    for (const int core : cores)
      if (numa_of_.at(core) != numa_of_.at(cores[0])) return std::nullopt;
    return cores.empty() ? std::nullopt : std::optional(numa_of_.at(cores[0]));
  }

 private:
  static std::vector<int> take_from(std::vector<int>& list, std::size_t count) {
    const auto end = list.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<int> cores(list.begin(), end);
    list.erase(list.begin(), end);
    return cores;
  }

  std::map<int, std::vector<int>> free_;
  std::map<int, int> numa_of_;
  std::vector<int> all_;
  std::size_t next_shared_ = 0;
};

std::vector<const vmctl::Device*> selected_devices(const Devices& devices,
                                                   const vmctl::Inventory& inventory) {
  std::vector<const vmctl::Device*> found;
  for (const auto& device : inventory.devices) {
    const bool vendor_fits = !devices.vendor || *devices.vendor == device.vendor;
    const bool address_fits =
        devices.addresses.empty() || std::find(devices.addresses.begin(), devices.addresses.end(),
                                               device.pci_address) != devices.addresses.end();
    if (vendor_fits && address_fits) found.push_back(&device);
  }
  if (devices.count && static_cast<std::size_t>(*devices.count) < found.size())
    found.resize(static_cast<std::size_t>(*devices.count));
  return found;
}

class Placer {
 public:
  Placer(const Scenario& scenario, const vmctl::Inventory& inventory, bool emulated)
      : scenario_(scenario), inventory_(inventory), emulated_(emulated) {}

  Placement place(const Case& wanted) {
    Placement out{wanted.name, wanted.scaling_of, {}, false};
    auto devices = selected_devices(scenario_.devices, inventory_);
    check_totals(wanted, inventory_.cores.size(), devices.size(), out);
    warn_of_little_memory(wanted);
    std::int64_t nodes = 0;
    for (const auto& tenant : wanted.tenants) nodes += tenant.nodes;
    CoreAllocator cores(inventory_, static_cast<std::size_t>(nodes * scenario_.guest.vcpus),
                        scenario_.guest.pinning == Pinning::numa);
    std::int64_t index = 0;
    std::size_t next_device = 0;
    for (const auto& tenant : wanted.tenants) {
      TenantPlacement placed{tenant.name, tenant.workload, tenant.gpus_per_node, tenant.ranks_per_node, 1,
                             {}};
      placed.threads_per_rank = tenant.workload.threads.value_or(
          std::max<std::int64_t>(1, scenario_.guest.vcpus / tenant.ranks_per_node));
      for (std::int64_t n = 0; n < tenant.nodes; ++n, ++index) {
        auto node = place_node(out.tenants.size(), n, index, cores);
        for (std::int64_t g = 0; g < tenant.gpus_per_node && next_device < devices.size(); ++g)
          node.devices.push_back(devices[next_device++]->pci_address);
        placed.nodes.push_back(std::move(node));
      }
      out.tenants.push_back(std::move(placed));
    }
    give_emulator_cores(out, cores.remaining());
    return out;
  }

  const std::vector<std::string>& problems() const { return problems_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void check_totals(const Case& wanted, std::size_t cores, std::size_t devices, Placement& out) {
    std::int64_t nodes = 0, gpus = 0, needed = 0;
    bool crowded = false;  // a node's ranks share its vCPUs, however many cores the host has
    for (const auto& tenant : wanted.tenants) {
      nodes += tenant.nodes;
      gpus += tenant.nodes * tenant.gpus_per_node;
      needed += tenant.nodes * std::max(scenario_.guest.vcpus, tenant.ranks_per_node);
      crowded = crowded || tenant.ranks_per_node > scenario_.guest.vcpus;
    }
    out.oversubscribed = crowded || needed > static_cast<std::int64_t>(cores);
    if (inventory_.cores.empty()) problems_.push_back("no core of this host may be used");
    if (crowded && !scenario_.oversubscribe)
      problems_.push_back(fmt::format(
          "case {}: its nodes have {} vCPUs, fewer than ranks (use more vcpus, or oversubscribe: true)",
          wanted.name, scenario_.guest.vcpus));
    else if (out.oversubscribed && !scenario_.oversubscribe)
      problems_.push_back(fmt::format(
          "case {}: {} nodes of {} vCPUs need {} cores, {} has {} (use fewer, or oversubscribe: true)",
          wanted.name, nodes, scenario_.guest.vcpus, needed, inventory_.hostname, cores));
    const std::uint64_t overhead = emulated_ ? kEmulatedOverheadBytes : kKvmOverheadBytes;
    const std::uint64_t memory =
        static_cast<std::uint64_t>(nodes) * (scenario_.guest.memory_bytes + overhead);
    if (memory > inventory_.memory_bytes)
      problems_.push_back(fmt::format("case {}: {} nodes of {} and QEMU's own {} each need {}, {} has {}",
                                      wanted.name, nodes, format_size(scenario_.guest.memory_bytes),
                                      format_size(overhead), format_size(memory), inventory_.hostname,
                                      format_size(inventory_.memory_bytes)));
    if (gpus > static_cast<std::int64_t>(devices))
      problems_.push_back(fmt::format(
          "case {}: needs {} GPUs, {} has {} that devices.select allows (virtrain doctor says more)",
          wanted.name, gpus, inventory_.hostname, devices));
  }

  void warn_of_little_memory(const Case& wanted) {
    std::int64_t ranks = 0;
    for (const auto& tenant : wanted.tenants)
      if (tenant.workload.backend == Backend::cpu) ranks = std::max(ranks, tenant.ranks_per_node);
    const auto needed = static_cast<std::uint64_t>(ranks) * kLeastRankBytes;
    if (needed > scenario_.guest.memory_bytes)
      warnings_.push_back(fmt::format(
          "case {}: {} ranks in a node of {} will most likely be killed for want of memory (each takes at "
          "least {})",
          wanted.name, ranks, format_size(scenario_.guest.memory_bytes), format_size(kLeastRankBytes)));
  }

  NodePlacement place_node(std::size_t tenant, std::int64_t n, std::int64_t index, CoreAllocator& cores) {
    NodePlacement node;
    node.hostname = fmt::format("t{}n{}", tenant + 1, n + 1);
    // Each tenant's network is a bridge of its own, so all of them may use the same addresses.
    node.address = fmt::format("10.77.{}.{}/16", n / 250, n % 250 + 1);
    node.mac =
        fmt::format("52:54:00:{:02x}:{:02x}:{:02x}", index >> 16 & 0xff, index >> 8 & 0xff, index & 0xff);
    node.memory_bytes = scenario_.guest.memory_bytes;
    const auto count = static_cast<std::size_t>(scenario_.guest.vcpus);
    node.cores = cores.take(count);
    if (node.cores.empty() && !inventory_.cores.empty()) node.cores = cores.share(count);
    node.numa_node = cores.common_numa_node(node.cores);
    return node;
  }

  /// `left` are the cores of no node; but where cores are shared, vCPUs may sit there too.
  static void give_emulator_cores(Placement& placement, const std::vector<int>& left) {
    std::set<int> used;
    for (const auto& tenant : placement.tenants)
      for (const auto& node : tenant.nodes) used.insert(node.cores.begin(), node.cores.end());
    std::vector<int> spare;
    for (const int core : left)
      if (!used.contains(core)) spare.push_back(core);
    for (auto& tenant : placement.tenants)
      for (auto& node : tenant.nodes) node.emulator_cores = spare;
  }

  const Scenario& scenario_;
  const vmctl::Inventory& inventory_;
  bool emulated_;
  std::vector<std::string> problems_, warnings_;
};

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
  if (!placer.problems().empty())
    throw Error("plan " + scenario.name, ErrorCode::host_unable, join(placer.problems(), "\n"));
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
        out += fmt::format(
            "    {} {}: cores {}, NUMA node {}, {}{}, {} × {} {} px batch {}\n", tenant.name, node.hostname,
            format_cpu_list(node.cores), node.numa_node ? std::to_string(*node.numa_node) : "several",
            format_size(node.memory_bytes), node.devices.empty() ? "" : ", GPUs " + join(node.devices, " "),
            tenant.ranks_per_node, to_string(tenant.workload.precision), tenant.workload.image_size,
            tenant.workload.batch_size);
  }
  out += fmt::format("\n{} trials, {} VM boots, {} device rebinds, about {}\n", plan.trials.size(),
                     plan.vm_boots, plan.device_bindings,
                     format_duration(static_cast<std::int64_t>(plan.estimate_seconds * 1e9)));
  for (const auto& warning : plan.warnings) out += "warning: " + warning + "\n";
  return out;
}

}  // namespace virtrain::harness
