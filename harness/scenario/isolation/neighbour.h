#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "common/model/trial_key.h"

namespace virtrain::harness {

/// Hardware that a neighbour and the victim both use.
VIRTRAIN_ENUM_CLASS(Share, core, llc, node, card, switch_, host)

/// Whether it is a place among the host's cores, which are on the victim's NUMA node.
constexpr bool is_of_numa_node(Share share) {
  return share == Share::core || share == Share::llc || share == Share::node;
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
  /// Without the arm that it is beside.
  ArmKey key() const;
  /// "idle", "cpu@25%"
  std::string condition() const;
};

/// An aggressor: its name in scenarios, and the kinds of virtrain-stress that it runs side by side.
struct AggressorKind {
  std::string name;
  std::vector<std::string> stressors;
  bool needs_gpu = false;
};
const std::vector<AggressorKind>& aggressor_kinds();
/// The kind of this name; there is one.
const AggressorKind& aggressor_kind(const std::string& name);

/// Whether all of a scenario's neighbours get GPUs like their victim's: for the work of one of them, or for
/// what they share.
bool need_gpus(const std::vector<Neighbour>& neighbours);

}  // namespace virtrain::harness
