#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "common/error.h"
#include "common/file_lock.h"
#include "common/scanner.h"
#include "common/text.h"
#include "common/unique_fd.h"
#include "common/units.h"
#include "vmctl/guest/mirror/guest_image.h"
#include "vmctl/process/host_claims.h"
#include "vmctl/process/paths.h"
#include "vmctl/process/process_info.h"
#include "vmctl/resources/cleanup.h"
#include "vmctl/resources/device_lender.h"
#include "vmctl/resources/devices/kvm_device.h"
#include "vmctl/slice/cgroups.h"
#include "vmctl/slice/net_devices.h"
#include "vmctl/slice/slice.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view domain_prefix = "virtrain-";
constexpr std::string_view device_prefix = "vt";
constexpr std::string_view namespace_prefix = "vt-";

/// "virtrain-<experiment>-<n>" without its ends; for things that carry no mark.
std::string experiment_in_name(std::string_view name) {
  if (!name.starts_with(domain_prefix)) { return {}; }
  name.remove_prefix(domain_prefix.size());
  return std::string(name.substr(0, name.rfind('-')));
}

/// The tag in a name as virtrain makes them (the last six characters of the experiment's id); nothing in
/// other names: "virtrain-dev" and "vt-lab" are somebody's own.
std::optional<std::string> generated_tag(const std::string& name) {
  const auto is_hex = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  Scanner in(name);
  const bool is_ours = in.take("virtrain-")
                           ? in.take_digits(8) && in.take("t") && in.take_digits(6) && in.take("-")
                           : in.take("vtb") || in.take("vtt") || in.take("vtv") || in.take("vt-");
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

/// The real user of a process: everybody may read it, unlike the environment. Nothing of one that is gone.
std::optional<uid_t> user_of(pid_t pid) {
  constexpr std::string_view uid = "Uid:";  // "Uid:\t1000\t1000\t1000\t1000"
  for (const auto& line : split(read_file(fmt::format("/proc/{}/status", pid)).value_or(""), '\n')) {
    if (!line.starts_with(uid)) { continue; }
    const auto number = parse_integer(split(trim(std::string_view(line).substr(uid.size())), '\t').at(0));
    return number ? std::optional(static_cast<uid_t>(*number)) : std::nullopt;
  }
  return std::nullopt;
}

/// Whose a thing of this user is: libvirt's system instance runs QEMU as one of these for whoever asked.
std::optional<uid_t> holder_of(std::optional<uid_t> user) {
  if (!user || *user == 0) { return std::nullopt; }
  const passwd* account = ::getpwuid(*user);
  const std::string_view name = account != nullptr ? account->pw_name : "";
  return name == "libvirt-qemu" || name == "qemu" ? std::nullopt : user;
}

uid_t folder_owner(const fs::path& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 ? status.st_uid : 0;
}

/// What cannot be looked at is not known to be back; the others are to be cleaned all the same.
std::string left_of(const Effect& effect) {
  try {
    return what_is_left(effect);
  } catch (const Error& failure) { return failure.what(); }
}

/// Sorts what it is shown into leftovers, things in use, and foreign things.
class Search {
 public:
  Search(Hypervisor* hypervisor, const LeaseJournal* journal, const Caller& caller)
      : hypervisor_(hypervisor), journal_(journal), caller_(caller) {
    view_.dead_owners = read_journal();
  }

  CleanupView run() {
    for (const auto& process : all_processes()) { processes_[process.pid] = process; }
    for (const auto& folder : find_slice_cgroups()) {
      if (folder_owner(folder) == caller_.user) { slice_groups_.insert(folder.filename()); }
    }
    look_at_processes();
    look_at_libvirt();
    look_at_lost_qemus();
    look_at_devices();
    look_at_namespaces();
    look_at_cgroups();
    look_at_files();
    look_at_lent_devices();
    look_at_foreign_devices();
    spare_what_has_just_begun();
    return std::move(view_);
  }

 private:
  /// Adds what the journal knows now; returns its dead owners.
  std::vector<Owner> read_journal() {
    std::vector<Owner> dead;
    const auto add_live = [&](const std::string& experiment) {
      live_experiments_.insert(experiment);
      live_tags_.insert(tag_of(experiment));
    };
    // Of runs with other state folders, whose journals nobody can find.
    for (const auto& experiment : held_claims(claims_folder(), experiment_claim)) {
      known_experiments_.insert(experiment);
      add_live(experiment);
    }
    if (journal_ == nullptr) { return dead; }
    for (const auto& owner : journal_->owners()) {
      known_experiments_.insert(owner.experiment);
      if (is_alive(owner)) {
        add_live(owner.experiment);
      } else {
        dead.push_back(owner);
      }
    }
    effects_ = journal_->effects();
    for (const auto& effect : effects_) {
      known_names_.insert(effect.name);
      if (is_alive(effect.owner)) { live_names_.insert(effect.name); }
    }
    return dead;
  }

  /// A run that began after the journal was read is in it by now, for it writes there before it makes
  /// anything.
  void spare_what_has_just_begun() {
    read_journal();
    if (hypervisor_ != nullptr) {
      for (const auto& domain : hypervisor_->domains()) { domains_.insert(domain.name); }
    }
    const auto is_left = [&](const Leftover& one) {
      const auto domain = domain_of_folder(fs::path(one.name).filename());
      return !is_live(one.name, one.experiment) && !(domain && belongs_to_domain(*domain));
    };
    auto& found = view_.leftovers;
    const auto spared = std::stable_partition(found.begin(), found.end(), is_left);
    view_.in_use.insert(view_.in_use.end(), std::make_move_iterator(spared),
                        std::make_move_iterator(found.end()));
    found.erase(spared, found.end());
  }

  bool is_live(const std::string& name, const std::string& experiment) const {
    const auto tag = generated_tag(fs::path(name).filename());
    return live_names_.contains(name) || live_experiments_.contains(experiment) ||
           (tag && live_tags_.contains(*tag));
  }

  void add(EffectKind kind, std::string name, std::string experiment, std::string detail, bool used = false) {
    auto& into = used || is_live(name, experiment) ? view_.in_use : view_.leftovers;
    into.push_back({kind, std::move(name), std::move(experiment), std::move(detail)});
  }

  /// As add(), of what somebody else's experiment may have too.
  void add_held(std::optional<uid_t> holder, Leftover found, bool used = false) {
    const bool known = known_experiments_.contains(found.experiment) || known_names_.contains(found.name);
    const auto reason = known || used ? std::string() : reason_to_leave(caller_, holder);
    if (reason.empty()) {
      return add(found.kind, std::move(found.name), std::move(found.experiment), std::move(found.detail),
                 used);
    }
    found.detail += "; " + reason;
    view_.foreign.push_back(std::move(found));
  }

  bool is_named_by_us(const std::string& name) const {
    return known_names_.contains(name) || generated_tag(name);
  }

  /// As add_held(), of what carries no mark: a prefix alone makes nothing ours.
  void add_unmarked(std::optional<uid_t> holder, Leftover found, bool used = false) {
    if (is_named_by_us(fs::path(found.name).filename())) { return add_held(holder, std::move(found), used); }
    found.detail += ", but virtrain makes no such names";
    view_.foreign.push_back(std::move(found));
  }

  /// Of domains and networks.
  std::optional<uid_t> libvirt_holder() const {
    return caller_.own_libvirt ? std::optional(caller_.user) : std::nullopt;
  }

  /// A slice's helper ends when its harness does, so one that still has a parent proves a live harness.
  bool below_living_harness(pid_t pid) const {
    for (auto at = processes_.find(pid); at != processes_.end(); at = processes_.find(at->second.parent)) {
      if (at->second.name == "virtrain-slice" && at->second.parent != 1) { return true; }
    }
    return false;
  }

  bool orphaned(const ProcessInfo& process) const {
    return process.parent == 1 || !processes_.contains(process.parent);
  }

  /// Name, arguments and environment are what the process says of itself, and anybody may say them. What
  /// counts is what only its user could arrange: the user it runs as, and a cgroup that the caller has made
  /// for a slice.
  std::optional<uid_t> holder_of_process(pid_t pid) const {
    for (const auto& line : split(read_file(fmt::format("/proc/{}/cgroup", pid)).value_or(""), '\n')) {
      const auto group = fs::path(line.substr(line.rfind(':') + 1));  // "5:memory:/vt-7f3a2b-1"
      if (!slice_groups_.contains(group.filename())) { continue; }
      return caller_.user;
    }
    return user_of(pid);
  }

  void look_at_processes() {
    for (const auto& [pid, process] : processes_) {
      if (pid == ::getpid() || pid == 1 || process.state == 'Z') { continue; }
      const auto slice = process_variable(pid, slice_variable);
      const bool named = process.name == "virtrain-agent" || process.name.starts_with("virtrain-resnet") ||
                         process.name == "virtrain-slice";
      if (!slice && !(named && orphaned(process))) { continue; }
      const bool used = below_living_harness(pid);
      if (slice && used) { used_slices_.insert(*slice); }
      const auto experiment = process_variable(pid, experiment_variable).value_or("");
      add_held(holder_of_process(pid),
               {EffectKind::process,
                std::to_string(pid),
                experiment,
                process.name + (slice ? " in slice " + *slice : " without a harness"),
                {},
                process.start_time},
               used);
    }
  }

  void look_at_libvirt() {
    if (hypervisor_ == nullptr) { return; }
    for (const auto& domain : hypervisor_->domains()) {
      domains_.insert(domain.name);
      if (domain.mark) {
        add_held(libvirt_holder(), {EffectKind::domain, domain.name, domain.mark->experiment,
                                    "libvirt domain with virtrain's metadata"});
      } else if (domain.name.starts_with(domain_prefix)) {
        add_unmarked(libvirt_holder(), {EffectKind::domain, domain.name, experiment_in_name(domain.name),
                                        "libvirt domain with virtrain's name"});
      }
    }
    for (const auto& network : hypervisor_->networks()) {
      network_bridges_.insert(network.bridge);
      if (network.mark) {
        add_held(libvirt_holder(), {EffectKind::network, network.name, network.mark->experiment,
                                    "libvirt network with virtrain's metadata"});
      } else if (network.name.starts_with(domain_prefix)) {
        add_unmarked(libvirt_holder(), {EffectKind::network, network.name, experiment_in_name(network.name),
                                        "libvirt network with virtrain's name"});
      }
    }
  }

  void look_at_lost_qemus() {
    for (const auto& [pid, process] : processes_) {
      if (!process.name.starts_with("qemu-system")) { continue; }
      for (const auto& argument : process_arguments(pid)) {
        constexpr std::string_view guest = "guest=virtrain-";
        if (!argument.starts_with(guest)) { continue; }
        const auto name = argument.substr(6, argument.find(',') - 6);
        if (!domains_.contains(name) && is_named_by_us(name)) {
          add_held(holder_of(user_of(pid)), {EffectKind::process,
                                             std::to_string(pid),
                                             experiment_in_name(name),
                                             "QEMU of domain " + name + ", which libvirt does not know",
                                             {},
                                             process.start_time});
        }
      }
    }
  }

  bool has_foreign_port(const std::string& bridge) const {
    const auto ports = bridge_ports(bridge);
    return std::any_of(ports.begin(), ports.end(),
                       [](const auto& port) { return !port.starts_with(device_prefix); });
  }

  void look_at_devices() {
    for (const auto& device : list_links()) {
      const auto kind = link_kind(device);
      const auto marked = link_experiment(device);
      if (!marked && !device.starts_with(device_prefix)) { continue; }
      if (kind == LinkKind::tap || network_bridges_.contains(device)) {
        continue;  // go with domain and network
      }
      const bool other_alias = !marked && !link_alias_of(device).empty();
      if (kind == LinkKind::other || other_alias || (kind == LinkKind::bridge && has_foreign_port(device))) {
        view_.foreign.push_back({EffectKind::bridge, device, "", "network device that is not virtrain's"});
        continue;
      }
      const auto found_as = kind == LinkKind::bridge ? EffectKind::bridge : EffectKind::veth;
      if (marked) {
        add_held(root, {found_as, device, *marked, "network device with virtrain's alias"});
      } else {
        add_unmarked(root, {found_as, device, "", "network device with virtrain's name"});
      }
    }
  }

  static std::string link_alias_of(const std::string& device) {
    return read_value(fs::path("/sys/class/net") / device / "ifalias").value_or("");
  }

  void look_at_namespaces() {
    for (const auto& name : list_namespaces()) {
      if (name.starts_with(namespace_prefix)) {
        add_unmarked(root, {EffectKind::netns, name, "", "network namespace with a slice's name"},
                     used_slices_.contains(name));
      }
    }
  }

  void look_at_cgroups() {
    for (const auto& folder : find_slice_cgroups()) {
      const auto slice = folder.filename().string();
      add_unmarked(folder_owner(folder),
                   {EffectKind::cgroup, folder.string(), "", "cgroup with a slice's name"},
                   used_slices_.contains(slice) || live_names_.contains(slice));
    }
  }

  /// The domain in the name of a channel folder, "domain-<id>-<name>", which libvirt may have shortened.
  static std::optional<std::string> domain_of_folder(const std::string& folder) {
    Scanner in(folder);
    if (!in.take("domain-") || in.take_while(is_digit).empty() || !in.take("-")) { return std::nullopt; }
    const std::string domain(in.rest());
    const bool is_ours = in.take("virtrain-") && in.take_digits(8) && in.take("t");
    return is_ours ? std::optional(domain) : std::nullopt;
  }

  void look_at_files() {
    for (const auto& effect : effects_) {
      if (effect.kind == EffectKind::file && fs::exists(effect.name)) {
        add(EffectKind::file, effect.name, effect.owner.experiment, "file in the journal");
      }
    }
    look_at_build_folders();
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/var/lib/libvirt/qemu/channel/target", ignored)) {
      const auto domain = domain_of_folder(entry.path().filename().string());
      if (hypervisor_ != nullptr && domain && !belongs_to_domain(*domain)) {
        add_held(holder_of(folder_owner(entry.path())),
                 {EffectKind::file, entry.path().string(), "", "channel folder of a domain that is gone"});
      }
    }
  }

  /// libvirt shortens long names in paths.
  bool belongs_to_domain(const std::string& name) const {
    return std::any_of(domains_.begin(), domains_.end(), [&](const auto& domain) {
      return domain.starts_with(name) || name.starts_with(domain);
    });
  }

  /// Left by a killed image build; while somebody builds, the lock is taken.
  void look_at_build_folders() {
    const auto images = cache_dir() / "images";
    std::error_code ignored;
    if (!fs::exists(images, ignored)) { return; }
    const auto lock = try_lock_file(locks_of_images(images) / build_lock, LockKind::exclusive);
    if (!lock) { return; }
    for (const auto& entry : fs::directory_iterator(images, ignored)) {
      if (entry.path().filename().string().starts_with(".build-")) {
        add(EffectKind::file, entry.path().string(), "", "folder of an unfinished image build");
      }
    }
  }

  /// The journal says what is ours, sysfs whether it is still so. A reboot undoes most of it by itself.
  void look_at_lent_devices() {
    for (const auto& effect : effects_) {
      if (!is_device_effect(effect.kind)) { continue; }
      lent_.insert(effect.name);
      if (effect.owner.boot_id != boot_id() && !survives_reboot(effect.kind)) { continue; }
      const auto left = left_of(effect);
      if (left.empty()) { continue; }
      const bool used = is_alive(effect.owner) ||
                        (effect.kind == EffectKind::kvm_device && !kvm_device_is_unused(effect.name));
      auto& into = used ? view_.in_use : view_.leftovers;
      into.push_back({effect.kind, effect.name, effect.owner.experiment, left, effect});
    }
  }

  /// Without the journal nobody can tell who lent a device, so these are only shown.
  void look_at_foreign_devices() {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/sys/bus/pci/drivers/vfio-pci", ignored)) {
      const auto name = entry.path().filename().string();
      if (name.starts_with("0") && !lent_.contains(name)) {
        view_.foreign.push_back({EffectKind::binding, name, "", "bound to vfio-pci, not by virtrain"});
      }
    }
    for (const auto& entry : fs::directory_iterator("/sys/bus/mdev/devices", ignored)) {
      const auto name = entry.path().filename().string();
      if (!lent_.contains(name)) {
        view_.foreign.push_back({EffectKind::mdev, name, "", "mediated device that is not virtrain's"});
      }
    }
  }

  static constexpr uid_t root = 0;  ///< who alone makes network devices and namespaces

  Hypervisor* const hypervisor_;
  const LeaseJournal* const journal_;
  const Caller& caller_;
  CleanupView view_;
  std::set<std::string> live_experiments_, live_names_, live_tags_;  ///< of the journal's living owners
  std::set<std::string> known_experiments_, known_names_;            ///< all of the journal
  std::vector<Effect> effects_;
  std::map<pid_t, ProcessInfo> processes_;
  std::set<std::string> domains_, network_bridges_, used_slices_, lent_;
  std::set<std::string> slice_groups_;  ///< names of slices' cgroups that the caller has made
};

/// Position in the order of removal: what uses something goes before it.
int removal_order(EffectKind kind) {
  constexpr EffectKind order[] = {EffectKind::process,
                                  EffectKind::slice,
                                  EffectKind::domain,
                                  EffectKind::network,
                                  EffectKind::veth,
                                  EffectKind::netns,
                                  EffectKind::bridge,
                                  EffectKind::cgroup,
                                  EffectKind::file,
                                  EffectKind::mdev,
                                  EffectKind::vgpu_type,
                                  EffectKind::binding,
                                  EffectKind::guids,
                                  EffectKind::virtual_functions,
                                  EffectKind::device_settings,
                                  EffectKind::service,
                                  EffectKind::kvm_device};
  return static_cast<int>(std::find(std::begin(order), std::end(order), kind) - std::begin(order));
}

}  // namespace

Caller this_caller() {
  Caller caller;
  caller.user = ::geteuid();
  for (const auto& process : all_processes()) {
    if (process.name != "virtrain" || process.state == 'Z') { continue; }
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

CleanupView find_leftovers(Hypervisor* hypervisor, const LeaseJournal* journal, const Caller& caller) {
  auto view = Search(hypervisor, journal, caller).run();
  std::stable_sort(view.leftovers.begin(), view.leftovers.end(), [](const Leftover& a, const Leftover& b) {
    return removal_order(a.kind) < removal_order(b.kind);
  });
  return view;
}

}  // namespace virtrain::vmctl
