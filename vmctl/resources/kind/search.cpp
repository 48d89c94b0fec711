#include "vmctl/resources/kind/search.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>

#include "common/files/file_lock.h"
#include "common/files/reading.h"
#include "common/files/user_folders.h"
#include "common/system/process_info.h"
#include "common/text/scanner.h"
#include "vmctl/devices/pci.h"
#include "vmctl/process/host_claims.h"
#include "vmctl/slice/temporary_folder.h"

namespace virtrain::vmctl {

namespace fs = std::filesystem;

Search::Search(Hypervisor* hypervisor, const LeaseJournal* journal, const Caller& caller)
    : hypervisor_(hypervisor), journal_(journal), caller_(caller) {
  view_.dead_owners = read_journal();
  for (const auto& process : all_processes()) { processes[process.pid] = process; }
  if (hypervisor_ == nullptr) { return; }
  domains = hypervisor_->domains();
  for (const auto& domain : domains) { domain_names_.insert(domain.name); }
  networks = hypervisor_->networks();
}

std::optional<uid_t> Search::libvirt_holder() const {
  return caller_.own_libvirt ? std::optional(caller_.user) : std::nullopt;
}

bool Search::has_domain_like(const std::string& name) const {
  return std::ranges::any_of(domain_names_, [&](const auto& domain) {
    return domain.starts_with(name) || name.starts_with(domain);
  });
}

bool Search::is_named_by_us(const std::string& name) const {
  return is_journalled(name) || generated_tag(name);
}

bool Search::is_live(const std::string& name, const std::string& experiment) const {
  const auto tag = generated_tag(fs::path(name).filename());
  return live_names_.contains(name) || live_experiments_.contains(experiment) ||
         (tag && live_tags_.contains(*tag));
}

bool Search::is_live_device(const std::string& address) const {
  return std::ranges::any_of(live_devices_, [&](const auto& live) {
    return live == address || link_name(pci_folder(live) / "physfn") == address;
  });
}

void Search::add(Leftover found, bool used) {
  auto& into = used || is_live(found.name, found.experiment) ? view_.in_use : view_.leftovers;
  into.push_back(std::move(found));
}

void Search::add_held(std::optional<uid_t> holder, Leftover found, bool used) {
  const bool known = known_experiments_.contains(found.experiment) || known_names_.contains(found.name);
  const auto reason = known || used ? std::string() : reason_to_leave(caller_, holder);
  if (reason.empty()) { return add(std::move(found), used); }
  found.detail += "; " + reason;
  add_foreign(std::move(found));
}

void Search::add_unmarked(std::optional<uid_t> holder, Leftover found, bool used) {
  if (is_named_by_us(fs::path(found.name).filename())) { return add_held(holder, std::move(found), used); }
  found.detail += ", but virtrain makes no such names";
  add_foreign(std::move(found));
}

/// Adds what the journal knows now; returns its dead owners.
std::vector<Owner> Search::read_journal() {
  std::vector<Owner> dead;
  const auto add_live = [&](const std::string& experiment) {
    live_experiments_.insert(experiment);
    live_tags_.insert(tag_of(experiment));
  };
  // Runs with other state folders have journals that nobody can find.
  for (const auto& experiment : held_claims(claims_folder(), experiment_claim)) {
    known_experiments_.insert(experiment);
    add_live(experiment);
  }
  constexpr const char* device_claim = "device:";
  for (const auto& address : held_claims(claims_folder(), device_claim)) { live_devices_.insert(address); }
  if (journal_ == nullptr) { return dead; }
  for (const auto& [address, owner] : journal_->device_owners()) {
    if (is_alive(owner)) { live_devices_.insert(address); }
  }
  for (const auto& owner : journal_->owners()) {
    known_experiments_.insert(owner.experiment);
    if (is_alive(owner)) {
      add_live(owner.experiment);
    } else if (!live_experiments_.contains(owner.experiment)) {  // else it lives in another PID namespace
      dead.push_back(owner);
    }
  }
  effects = journal_->effects();
  for (const auto& effect : effects) {
    known_names_.insert(effect.name);
    if (is_alive(effect.owner)) { live_names_.insert(effect.name); }
  }
  return dead;
}

/// A run that began after the journal was read is in it by now, for it writes there before it makes anything.
void Search::spare_what_has_just_begun() {
  read_journal();
  if (hypervisor_ != nullptr) {
    for (const auto& domain : hypervisor_->domains()) { domain_names_.insert(domain.name); }
  }
  const auto is_left = [&](const Leftover& one) {
    const auto domain = domain_of_folder(fs::path(one.name).filename());
    return !is_live(one.name, one.experiment) && !(domain && has_domain_like(*domain));
  };
  auto& found = view_.leftovers;
  const auto spared = std::stable_partition(found.begin(), found.end(), is_left);
  view_.in_use.insert(view_.in_use.end(), std::make_move_iterator(spared),
                      std::make_move_iterator(found.end()));
  found.erase(spared, found.end());
}

CleanupView Search::sorted() {
  spare_what_has_just_begun();
  std::ranges::stable_sort(view_.leftovers,
                           [](const Leftover& a, const Leftover& b) { return a.kind < b.kind; });
  view_.live = live_experiments_;
  return std::move(view_);
}

std::string experiment_in_name(std::string_view name) {
  if (!name.starts_with(domain_prefix)) { return {}; }
  name.remove_prefix(domain_prefix.size());
  return std::string(name.substr(0, name.rfind('-')));
}

std::optional<std::string> generated_tag(const std::string& name) {
  if (const auto slice = slice_of_unforeseen(name)) { return generated_tag(*slice); }
  const auto is_hex = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  Scanner in(name);
  const bool is_ours =
      in.take("virtrain-")
          ? in.take_digits(8) && in.take("t") && in.take_digits(6) && in.take("-")
          : in.take("vtb") || in.take("vtt") || in.take("vtv") || in.take("vtx") || in.take("vt-");
  const auto tag = is_ours ? in.take_while(is_hex, 6, 6) : std::string_view();
  if (in.take("-")) {
    in.take("t");
  } else {
    in.take("s");
  }
  const bool is_numbered = !in.take_while(is_digit).empty() && in.at_end();
  return tag.empty() || !is_numbered ? std::nullopt : std::optional<std::string>(tag);
}

std::string tag_of(const std::string& experiment) {
  return experiment.substr(experiment.rfind('-') + 1);
}

std::optional<std::string> domain_of_folder(const std::string& folder) {
  Scanner in(folder);
  if (!in.take("domain-") || in.take_while(is_digit).empty() || !in.take("-")) { return std::nullopt; }
  const std::string domain(in.rest());
  const bool is_ours = in.take("virtrain-") && in.take_digits(8) && in.take("t");
  return is_ours ? std::optional(domain) : std::nullopt;
}

Caller this_caller() {
  Caller caller;
  caller.user = ::geteuid();
  for (const auto& process : all_processes()) {
    if (process.name != "virtrain" && process.name != "virtrain-host") { continue; }
    const auto user = user_of(process.pid);
    if (user && *user != 0 && *user != caller.user) { caller.other_harnesses.insert(*user); }
  }
  return caller;
}

std::string reason_to_leave(const Caller& caller, std::optional<uid_t> holder) {
  if (caller.user != 0) { return holder == caller.user ? "" : "of another user, left alone"; }
  if (holder) {
    return *holder == 0 ? "" : fmt::format("of user {}, whose own virtrain clean removes it", *holder);
  }
  const auto& others = caller.other_harnesses;
  return others.empty() ? ""
                        : fmt::format("perhaps of user {}, whose virtrain runs, left alone", *others.begin());
}

std::optional<uid_t> holder_of(std::optional<uid_t> user) {
  if (!user || *user == 0) { return std::nullopt; }
  const passwd* account = ::getpwuid(*user);
  const std::string_view name = account != nullptr ? account->pw_name : "";
  return name == "libvirt-qemu" || name == "qemu" ? std::nullopt : user;
}

namespace {

std::filesystem::path lock_of(const std::string& name) {
  constexpr unsigned owner_only = 0700;
  make_own_folder(claims_folder(), owner_only);
  std::string file = "use:" + name;
  std::replace(file.begin(), file.end(), '/', '_');
  return claims_folder() / file;
}

}  // namespace

UniqueFd use_shared(const std::string& name) {
  constexpr std::chrono::seconds undoing{30};  // a service takes its time to start
  return lock_file(lock_of(name), LockKind::shared, undoing);
}

UniqueFd try_keep_unused(const std::string& name) {
  return try_lock_file(lock_of(name), LockKind::exclusive);
}

}  // namespace virtrain::vmctl
