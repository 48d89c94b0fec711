#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/enum_text.h"
#include "vmctl/api/leftover.h"

/// The kinds of lease, in the order in which what is left of them is removed: what uses something goes before
/// it. Each is a line here and a handler in a file of its own (vmctl/resources).
#define VIRTRAIN_EFFECT_KINDS(KIND) \
  KIND(process)                     \
  KIND(slice)                       \
  KIND(domain)                      \
  KIND(network_function)            \
  KIND(vxlan)                       \
  KIND(network)                     \
  KIND(veth)                        \
  KIND(netns)                       \
  KIND(bridge)                      \
  KIND(cgroup)                      \
  KIND(resctrl)                     \
  KIND(loop)                        \
  KIND(file)                        \
  KIND(mdev)                        \
  KIND(vgpu_type)                   \
  KIND(binding)                     \
  KIND(guids)                       \
  KIND(vgpu_scheduler)              \
  KIND(virtual_functions)           \
  KIND(device_settings)             \
  KIND(service)                     \
  KIND(kvm_device)

namespace virtrain::vmctl {

using virtrain::to_string;

/// Their names are the words of the journal and of `virtrain clean`.
#define VIRTRAIN_KIND(word) word,
VIRTRAIN_ENUM_CLASS(EffectKind, VIRTRAIN_EFFECT_KINDS(VIRTRAIN_KIND))
#undef VIRTRAIN_KIND

/// Throws Error(bad_input) for a word that is none: nothing may be removed for what it does not say.
EffectKind parse_effect_kind(std::string_view word);

/// Who holds a lease: a process (pid and start time, of one boot) and where its experiment's rows are.
struct Owner {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  ///< field 22 of /proc/<pid>/stat
  std::string boot_id;
  std::string experiment;
  std::string results_db;
};

/// This process as an owner.
Owner this_process(std::string experiment, std::string results_db);
/// Whether that very process still runs in this boot, or its run lives where its processes cannot be seen: on
/// another host, or in another container, that shares the state folder.
bool is_alive(const Owner& owner);
/// Where runs that journal here hold their experiment_claim while they live; for HostClaims.
std::filesystem::path living_folder();

/// A side effect that was announced and not yet undone.
struct Effect {
  std::int64_t id = 0;
  Owner owner = {};
  EffectKind kind = EffectKind::file;
  std::string name;        ///< domain name, bridge name, path, pid…
  bool done = false;       ///< false: announced only; it may or may not have happened
  std::string state = {};  ///< JSON: what was there before, for those kinds that have to put it back
};

/// The host's write-ahead journal: who holds what, and what was made. Safe for many processes; every change
/// is on disk before the call returns.
class LeaseJournal {
 public:
  /// Whether this user has one: where the state folder cannot be made, nothing was ever leased.
  static bool is_there();
  /// Opens or makes the journal; by default state_dir()/leases.db.
  explicit LeaseJournal(const std::filesystem::path& file = {});
  ~LeaseJournal();

  /// Takes all of the exclusive resources ("core:3", "device:0000:17:00.0") or none: Error(busy) naming the
  /// holder, Error(host_unable) for a device in quarantine. What the same owner already holds is no conflict,
  /// nor what is held on another host, which then has its own claims alone; what a dead owner holds is taken
  /// over.
  void acquire(const Owner& owner, const std::vector<std::string>& resources);
  /// Gives these back.
  void release(const Owner& owner, const std::vector<std::string>& resources);
  /// Gives everything of the owner back and forgets its undone effects; call after tear-down.
  void release_all(const Owner& owner);
  /// Gives everything of the owner back, and forgets it unless it has effects that still have to be undone.
  void end(const Owner& owner);

  /// Journals a side effect before it is tried; returns its id.
  std::int64_t intent(const Owner& owner, EffectKind kind, std::string_view name,
                      std::string_view state = {});
  void done(std::int64_t id);
  /// The effect no longer exists (or never happened).
  void undone(std::int64_t id);

  /// Effects not undone, newest first, of all owners.
  std::vector<Effect> effects() const;
  struct Lease {
    std::string resource;
    Owner owner;
  };
  std::vector<Lease> leases() const;
  /// Cores that live owners hold on this host.
  std::vector<int> leased_cores() const;
  /// Owners of this host's devices by PCI address, dead ones too.
  std::map<std::string, Owner> device_owners() const;
  /// Every owner that holds a lease or an effect.
  std::vector<Owner> owners() const;

  /// From now on acquire() refuses the device; an older reason stays.
  void quarantine(const std::string& address, const std::string& reason);
  /// False: it was in none.
  bool lift_quarantine(const std::string& address);
  std::vector<Quarantine> quarantined() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace virtrain::vmctl
