#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "vmctl/api/device.h"
#include "vmctl/hypervisor/hypervisor.h"
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

class Search;

/// Operations on the leases of one kind. Some leases are things that this host shows, whatever the journal
/// says: they are found and removed; the owner of their description makes them (vmctl/host). Others change a
/// device, and only the journal knows how it was: they are planned, made, and undone from the journal. Calls
/// throw Error.
struct Handler {
  EffectKind kind;

  /// Shows the search all of this kind that this host has.
  void (*find)(Search& search) = nullptr;
  /// Removes one that was found; no error if it is gone.
  void (*remove)(const Leftover& found, Hypervisor* hypervisor) = nullptr;

  /// Effects of this kind for a VM that gets the device, given what is now. Error(not_found) where there is
  /// no such device, Error(busy) where it is in use.
  std::vector<Effect> (*plan)(const DeviceGrant& grant) = nullptr;
  /// Makes a planned effect happen, and sees that it did.
  void (*make)(const Effect& effect) = nullptr;
  /// The part of the effect that is still there, for people, from sysfs alone; empty: nothing.
  std::string (*left)(const Effect& effect) = nullptr;
  /// Puts back what was there before. Idempotent: looks at what is, not at how far anybody came.
  void (*undo)(const Effect& effect) = nullptr;
  /// The device that nobody gets any more when it cannot be undone; null: none.
  std::string (*device)(const Effect& effect) = nullptr;
  bool for_each_vm = false;  ///< made for one VM, and undone after it
  bool is_shared = false;    ///< serves all runs (shared_use.h), the last of which undoes it
  bool survives_reboot = false;
};

/// The device of an effect that is named by its address.
inline std::string named_device(const Effect& effect) {
  return effect.name;
}

#define VIRTRAIN_KIND(word) extern const Handler word##_handler;
VIRTRAIN_EFFECT_KINDS(VIRTRAIN_KIND)
#undef VIRTRAIN_KIND

/// One for each kind of lease, in the order of the kinds.
std::span<const Handler* const> handlers();

const Handler& handler_of(EffectKind kind);

}  // namespace virtrain::vmctl
