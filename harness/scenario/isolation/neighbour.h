#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace virtrain::harness {

/// What a neighbour and the victim both use.
enum class Share { core, last_level_cache, numa_node, card, pci_switch, host };

/// Whether it is a place among the host's cores, which are on the victim's NUMA node.
constexpr bool is_of_numa_node(Share share) {
  return share == Share::core || share == Share::last_level_cache || share == Share::numa_node;
}

/// A tenant that does not train: it idles, or a stressor of virtrain-stress works in it.
struct Neighbour {
  bool operator==(const Neighbour&) const = default;
  std::string aggressor;  ///< "cpu", "h2d+d2h"; empty: idle
  double level = 1;       ///< share of the time in which it is at work
  Share share = Share::host;

  bool is_idle() const { return aggressor.empty(); }
  /// Two of "net": one sends to the other.
  std::int64_t nodes() const { return aggressor == "net" ? 2 : 1; }
  /// "idle", "cpu@25%"
  std::string condition() const;
};

/// As scenarios name them, in the order of the enumeration.
inline const std::vector<std::string> share_names{"core", "llc", "node", "card", "switch", "host"};
const std::string& share_name(Share share);

/// An aggressor: its name in scenarios, and the kinds of virtrain-stress that it runs side by side.
struct AggressorKind {
  std::string name;
  std::vector<std::string> stressors;
  bool needs_gpu = false;
};
const std::vector<AggressorKind>& aggressor_kinds();
/// Of this name; there is one.
const AggressorKind& aggressor_kind(const std::string& name);

/// Whether all of a scenario's neighbours get GPUs like their victim's: for the work of one of them, or for
/// what they share.
bool need_gpus(const std::vector<Neighbour>& neighbours);

}  // namespace virtrain::harness
