#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/unique_fd.h"
#include "common/system/process_info.h"
#include "vmctl/hypervisor/hypervisor.h"
#include "vmctl/resources/kind/handler.h"

namespace virtrain::vmctl {

/// Who cleans. Journals are a user's own while libvirt's system instance and /proc are everybody's, so an
/// experiment that the journal does not know may be somebody else's and alive.
struct Caller {
  uid_t user = 0;
  std::set<uid_t> other_harnesses;  ///< users other than root and the caller of whom a virtrain lives
  bool own_libvirt = false;         ///< the libvirt that is looked at serves only this user (qemu:///session)
};

/// This process's user, on a libvirt for all.
Caller this_caller();

/// Why something of an experiment that the caller's journal does not know is left alone; empty: nobody living
/// can own it. `holder`: whose it is; nothing where libvirt's system instance holds it for whoever asked.
std::string reason_to_leave(const Caller& caller, std::optional<uid_t> holder);

/// Whose a thing of this user is: libvirt's system instance runs QEMU as an account of its own for whoever
/// asked.
std::optional<uid_t> holder_of(std::optional<uid_t> user);

/// One look at this host. Each kind of lease is shown what there is, and says what of it looks like
/// virtrain's; the search sorts that into leftovers, things in use, and foreign things.
class Search {
 public:
  Search(Hypervisor* hypervisor, const LeaseJournal* journal, const Caller& caller);

  // The host as it is.
  std::map<pid_t, ProcessInfo> processes;
  std::vector<DomainInfo> domains;
  std::vector<NetworkInfo> networks;
  std::vector<Effect> effects;        ///< of the journal
  std::set<std::string> used_slices;  ///< that a living harness has: found with the processes
  bool knows_libvirt() const { return hypervisor_ != nullptr; }
  const Caller& caller() const { return caller_; }
  /// The user whose libvirt has the domains and networks.
  std::optional<uid_t> libvirt_holder() const;
  bool has_domain(const std::string& name) const { return domain_names_.contains(name); }
  /// As has_domain() of a name that libvirt may have shortened.
  bool has_domain_like(const std::string& name) const;
  bool is_journalled(const std::string& name) const { return known_names_.contains(name); }
  bool is_named_by_us(const std::string& name) const;
  /// Whether the journal knows it as a living owner's.
  bool is_live_name(const std::string& name) const { return live_names_.contains(name); }
  /// Whether a living run has the device (its address) or a part of it.
  bool is_live_device(const std::string& address) const;

  // The part that looks like ours.
  void add(Leftover found, bool used = false);
  /// As add(), of what somebody else's experiment may have too.
  void add_held(std::optional<uid_t> holder, Leftover found, bool used = false);
  /// As add_held(), of what carries no mark: a prefix alone makes nothing ours.
  void add_unmarked(std::optional<uid_t> holder, Leftover found, bool used = false);
  void add_foreign(Leftover found) { view_.foreign.push_back(std::move(found)); }

  /// All that was added, leftovers in the order in which to remove them; ends the search.
  CleanupView sorted();

 private:
  std::vector<Owner> read_journal();
  void spare_what_has_just_begun();
  bool is_live(const std::string& name, const std::string& experiment) const;

  Hypervisor* const hypervisor_;
  const LeaseJournal* const journal_;
  const Caller caller_;
  CleanupView view_;
  std::set<std::string> domain_names_;
  std::set<std::string> live_experiments_, live_names_, live_tags_;  ///< of the journal's living owners
  std::set<std::string> live_devices_;                               ///< addresses that living runs hold
  std::set<std::string> known_experiments_, known_names_;            ///< all of the journal
};

/// Who alone makes network devices and namespaces.
inline constexpr uid_t root_user = 0;

/// Begins the names of domains and networks.
inline constexpr std::string_view domain_prefix = "virtrain-";

/// "virtrain-<experiment>-<n>" without its ends; for things that carry no mark.
std::string experiment_in_name(std::string_view name);

/// The tag in a name as virtrain makes them (the last six characters of the experiment's id); nothing in
/// other names: "virtrain-dev" and "vt-lab" are somebody's own.
std::optional<std::string> generated_tag(const std::string& name);

std::string tag_of(const std::string& experiment);

/// The domain in the name of a channel folder, "domain-<id>-<name>", which libvirt may have shortened.
std::optional<std::string> domain_of_folder(const std::string& folder);

/// An effect that serves all runs of this user on this host at once (a service that is kept away, /dev/kvm
/// open) is undone by the last of them, whichever has made it. Locks show the others, whatever state folder
/// each journals in; `clean` undoes effects from another folder's journal.

/// While it lives, no other run undoes that. Error(busy) where somebody undoes it for longer than some
/// seconds.
UniqueFd use_shared(const std::string& name);
/// While it lives, no run begins to use that; nothing where one does.
UniqueFd try_keep_unused(const std::string& name);

}  // namespace virtrain::vmctl
