#include "harness/evidence/trial_evidence.h"

#include <algorithm>
#include <utility>

namespace virtrain::harness {

NodeEvidence placed_evidence(const NodePlacement& placed, std::vector<int> core_numa_nodes) {
  NodeEvidence seen;
  seen.hostname = placed.hostname;
  seen.devices = vmctl::devices_of(placed).size();
  if (placed.devices.empty()) { return seen; }
  seen.core_numa_nodes = std::move(core_numa_nodes);
  seen.memory_numa_node = placed.numa_node;
  for (const auto& device : placed.devices) {
    if (device.device_class == vmctl::DeviceClass::gpu) { seen.gpu_numa_nodes.push_back(device.numa_node); }
  }
  return seen;
}

namespace {

using Readings = std::vector<vmctl::EnergyReading>;

std::optional<double> joules_at(const Readings& readings, std::int64_t t_ns) {
  const auto after = std::ranges::lower_bound(readings, t_ns, {}, &vmctl::EnergyReading::t_ns);
  if (after == readings.end()) { return std::nullopt; }
  if (after->t_ns == t_ns) { return after->joules; }
  if (after == readings.begin()) { return std::nullopt; }
  const auto before = after - 1;
  const double share =
      static_cast<double>(t_ns - before->t_ns) / static_cast<double>(after->t_ns - before->t_ns);
  return before->joules + share * (after->joules - before->joules);
}

}  // namespace

std::optional<double> joules_between(const Readings& readings, std::int64_t begin_ns, std::int64_t end_ns) {
  const auto begin = joules_at(readings, begin_ns);
  const auto end = joules_at(readings, end_ns);
  return begin && end && *end > *begin ? std::optional(*end - *begin) : std::nullopt;
}

}  // namespace virtrain::harness
