#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// Something on this host that looks like virtrain's.
struct Leftover {
  EffectKind kind = EffectKind::file;
  std::string name;                   ///< domain, network, device, namespace, path, or pid
  std::string experiment;             ///< empty where it cannot be known
  std::string detail;                 ///< for people: how it was recognised
  std::optional<Effect> effect = {};  ///< of a device: how it is put back
  std::uint64_t start_time = 0;       ///< of a process: its number may be another's by the time it is removed
};

struct CleanupView {
  std::vector<Leftover> leftovers;  ///< ours, and no live owner: in the order in which to remove them
  std::vector<Leftover> in_use;     ///< ours, held by a live owner
  std::vector<Leftover> foreign;    ///< named like ours or near, but not ours: never touched
  std::vector<Owner> dead_owners;   ///< whose experiments are to be marked interrupted
  std::set<std::string> live;       ///< experiments with a live owner or claim
};

}  // namespace virtrain::vmctl
