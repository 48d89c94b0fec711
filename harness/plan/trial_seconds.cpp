#include "harness/plan/trial_seconds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "common/contains.h"

namespace virtrain::harness {
namespace {

/// Speed of one core: oneDNN's convolutions natively, and under QEMU's TCG (0.866 images/s
/// of 32 px).
constexpr double native_gflop_per_second = 200.0;
constexpr double emulated_gflop_per_second = 0.43;
constexpr double gpu_images_per_second = 2500.0;
/// A guest whose memory is pinned and whose devices start up.
constexpr double boot_seconds_per_device = 10.0;
/// ResNet-50's training step at 224 px: forward 8.2 GFLOP, backward twice that.
constexpr double gflop_per_image224 = 24.3;

/// An emulated guest's boot on a core of its own, and then starting the trainer and removing the VM.
constexpr double emulated_boot_seconds = 5.0, emulated_setup_seconds = 10.0;
constexpr double unknown_job_seconds = 120.0;
/// Until two of its reports in a row show an aggressor's level, and until it has ended.
constexpr double level_seconds = 3.0;
/// Until agent and trainer are on a machine that exists already, over a network of 40 MB/s.
constexpr double travel_seconds = 4.0;

/// Nodes of the neighbour that run on the victim's own cores. SMT siblings count as cores of their own.
std::size_t nodes_on_victims_cores(const Placement& placement) {
  std::set<int> victims;
  for (const auto& tenant : placement.tenants) {
    if (tenant.neighbour) { continue; }
    for (const auto& node : tenant.nodes) { victims.insert(node.cores.begin(), node.cores.end()); }
  }
  std::size_t shared = 0;
  for (const auto& tenant : placement.tenants) {
    if (!tenant.neighbour) { continue; }
    shared += static_cast<std::size_t>(
        std::count_if(tenant.nodes.begin(), tenant.nodes.end(), [&](const auto& node) {
          return std::any_of(node.cores.begin(), node.cores.end(),
                             [&](int core) { return victims.contains(core); });
        }));
  }
  return shared;
}

/// Share of its cores that an aggressor leaves the victim: its level takes what it asks for, up to an equal
/// share.
double share_beside(const Placement& placement) {
  for (const auto& tenant : placement.tenants) {
    const auto& neighbour = tenant.neighbour;
    if (!neighbour || neighbour->is_idle() || aggressor_kind(neighbour->aggressor).needs_gpu) { continue; }
    const auto nodes = static_cast<double>(nodes_on_victims_cores(placement));
    return std::max(1 / (1 + nodes), 1 - nodes * neighbour->level);
  }
  return 1;
}

/// Cores' worth of work of a rank: threads beyond its share of the node's cores wait for each other, and so
/// do nodes that train on the same cores.
double cores_of_rank(const Placement& placement, const TenantPlacement& tenant) {
  const auto& node = tenant.nodes[0];
  const auto ranks = static_cast<double>(tenant.ranks_per_node);
  double cores = placement.is_attached ? static_cast<double>(placement.guest.vcpus)
                                       : static_cast<double>(node.cores.size());
  if (node.limits.cpu_cores) { cores = std::min(cores, *node.limits.cpu_cores); }
  double trainers = 0;
  for (const auto& other : placement.tenants) {
    if (other.neighbour) { continue; }
    trainers += static_cast<double>(std::ranges::count_if(other.nodes, [&](const auto& one) {
      return std::ranges::any_of(one.cores, [&](int core) { return contains(node.cores, core); });
    }));
  }
  return std::min(static_cast<double>(tenant.threads_per_rank), cores / ranks / std::max(trainers, 1.0));
}

bool has_aggressor(const Placement& placement) {
  return std::any_of(placement.tenants.begin(), placement.tenants.end(),
                     [](const auto& tenant) { return tenant.neighbour && !tenant.neighbour->is_idle(); });
}

/// Factors of an estimate, between the quickest and the slowest hosts that were seen. Emulated guests are
/// slowed down most by what else a host does.
constexpr SecondsRange native_spread{0.6, 2.5}, emulated_spread{0.8, 6};
/// The same of a time that was measured on this host.
constexpr SecondsRange measured_spread{0.85, 1.25};

SecondsRange scaled(const SecondsRange& spread, double seconds) {
  return {spread.low * seconds, spread.high * seconds};
}

struct RoundedTime {
  double value;
  const char* unit;
};

RoundedTime rounded(double seconds) {
  constexpr double minute = 60, hour = 3600;
  if (seconds <= 90) { return {std::max(10.0, std::ceil(seconds / 10) * 10), "s"}; }
  if (seconds <= 2 * hour) { return {std::ceil(seconds / minute), "min"}; }
  return {std::ceil(seconds / hour), "h"};
}

}  // namespace

std::string to_words(const SecondsRange& range) {
  const auto low = rounded(range.low), high = rounded(range.high);
  const auto last = fmt::format("{} {}", high.value, high.unit);
  if (std::string_view(low.unit) != high.unit) {
    return fmt::format("{} {} to {}", low.value, low.unit, last);
  }
  return low.value < high.value ? fmt::format("{} to {}", low.value, last) : last;
}

SecondsRange unproven(double estimate_seconds, bool vm, bool emulated) {
  return scaled(vm && emulated ? emulated_spread : native_spread, estimate_seconds);
}

SecondsRange proven(double seconds) {
  return scaled(measured_spread, seconds);
}

double boot_seconds(const Placement& placement, bool vm, bool emulated) {
  std::size_t most_devices = 0;
  for (const auto& tenant : placement.tenants) {
    for (const auto& node : tenant.nodes) { most_devices = std::max(most_devices, node.devices.size()); }
  }
  const double devices = vm ? boot_seconds_per_device * static_cast<double>(most_devices) : 0.0;
  // Emulated guests that boot on the same cores wait for each other.
  const double boots = vm && emulated ? 1.0 + static_cast<double>(nodes_on_victims_cores(placement)) : 1.0;
  const double boot = placement.is_attached ? travel_seconds
                      : vm                  ? (emulated ? emulated_boot_seconds : 5.0)
                                            : 0.5;
  return boot * boots + devices;
}

double trial_seconds(const Placement& placement, bool vm, bool emulated) {
  const double share = share_beside(placement);
  double longest = 0;
  for (const auto& tenant : placement.tenants) {
    if (tenant.neighbour) { continue; }
    const auto& w = tenant.workload;
    if (tenant.runs_job()) {  // nobody knows before the first trial
      longest = std::max(longest, unknown_job_seconds);
      continue;
    }
    const double scale = static_cast<double>(w.image_size) / 224.0;
    // Later steps come when the aggressor has ended.
    const double steps = static_cast<double>(w.warmup_steps + w.steps) / share +
                         static_cast<double>(w.later_steps.value_or(0));
    const double images = static_cast<double>(w.batch_size * w.accumulate_steps) * steps;
    const double images224 = images * scale * scale;
    const double rate = (vm && emulated ? emulated_gflop_per_second : native_gflop_per_second) *
                        cores_of_rank(placement, tenant);
    const double run = w.backend == Backend::cuda ? images224 / gpu_images_per_second
                                                  : images224 * gflop_per_image224 / rate;
    const double setup = vm && emulated ? emulated_setup_seconds : 3.0;
    longest = std::max(longest, setup + run);
  }
  return boot_seconds(placement, vm, emulated) + longest + (has_aggressor(placement) ? level_seconds : 0.0);
}

}  // namespace virtrain::harness
