#include "vmctl/host/local_host.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "common/contains.h"
#include "common/error.h"
#include "common/files/file_search.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/files/user_folders.h"
#include "common/system/locked_page.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/api/leftover.h"
#include "vmctl/api/payload.h"
#include "vmctl/devices/device_users.h"
#include "vmctl/doctor/doctor.h"
#include "vmctl/guest/cloud/image_copy.h"
#include "vmctl/guest/mirror/guest_driver.h"
#include "vmctl/guest/mirror/guest_packages.h"
#include "vmctl/guest/mirror/supermin.h"
#include "vmctl/host/judge.h"
#include "vmctl/host/run_state.h"
#include "vmctl/host/tenant_network.h"
#include "vmctl/hypervisor/domain/foreign_domain.h"
#include "vmctl/hypervisor/libvirt/hypervisor.h"
#include "vmctl/machine/host_network.h"
#include "vmctl/machine/host_words.h"
#include "vmctl/machine/inventory.h"
#include "vmctl/machine/kvm_probe.h"
#include "vmctl/machine/record.h"
#include "vmctl/process/calling_user.h"
#include "vmctl/process/containment.h"
#include "vmctl/process/host_claims.h"
#include "vmctl/process/paths.h"
#include "vmctl/resources/cleanup.h"
#include "vmctl/resources/devices/host_services.h"
#include "vmctl/resources/kind/search.h"
#include "vmctl/slice/cgroups.h"
#include "vmctl/slice/net_devices.h"
#include "vmctl/slice/resctrl.h"

namespace virtrain::vmctl {
namespace {

/// Files and memory of this host with a canary, where no node should see them. Files are in the journal, so
/// that `clean` removes what a killed run leaves.
class PlantedFiles {
 public:
  /// Below the user's home and the state folder, and as root in /etc. Returns where.
  std::vector<std::filesystem::path> plant(RunState& run, const Canary& canary);
  /// A page of this process; returns its physical address. Throws Error.
  std::uint64_t plant_in_memory(const Canary& canary);
  void remove(RunState& run);

 private:
  std::unique_ptr<LockedPage> page_;
  std::vector<std::pair<std::filesystem::path, std::int64_t>> files_;
};

namespace fs = std::filesystem;

constexpr mode_t own_file = 0600, own_folder = 0700, all_may_read = 0644;

/// A file that goes with this object.
class ControlFile {
 public:
  ControlFile(const RunState& run, const std::string& text, mode_t mode)
      : path_(run.log_dir / "control-canary") {
    write_file_atomically(path_, text, mode);
  }
  ~ControlFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  ControlFile(const ControlFile&) = delete;
  ControlFile& operator=(const ControlFile&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void check(const fs::path& path, mode_t allowed, ModeReport& report) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) { return; }
  ++report.files;
  const mode_t mode = status.st_mode & 07777;
  if ((mode & ~allowed) != 0) { report.loose.push_back({path, mode, allowed}); }
}

std::vector<fs::path> PlantedFiles::plant(RunState& run, const Canary& canary) {
  std::vector<fs::path> paths{home_folder() / (".virtrain-canary-" + run.tag()),
                              state_dir() / ("canary-" + run.tag())};
  if (::geteuid() == 0) { paths.push_back("/etc/virtrain-canary-" + run.tag()); }
  for (const auto& path : paths) {
    const auto id = run.journal.intent(run.owner, EffectKind::file, path.string());
    files_.emplace_back(path, id);
    write_file_atomically(path, canary.text + "\n", own_file);
    run.journal.done(id);
  }
  return paths;
}

std::uint64_t PlantedFiles::plant_in_memory(const Canary& canary) {
  page_ = std::make_unique<LockedPage>();
  canary.text.copy(page_->data(), LockedPage::size);
  return page_->physical_address();
}

void PlantedFiles::remove(RunState& run) {
  page_.reset();
  for (; !files_.empty(); files_.pop_back()) {
    fs::remove(files_.back().first);
    run.journal.undone(files_.back().second);
  }
}

/// Searches where runs leave something: state, cache, claims, what libvirt and QEMU keep, shared memory.
/// `control` is in a file among them for as long as that takes.
SearchReport search_leftovers(const RunState& run, const std::vector<Canary>& canaries,
                              const Canary& control) {
  const ControlFile file(run, control.text + "\n", own_file);
  auto all = canaries;
  all.push_back(control);
  return search_files(all, {state_dir(), cache_dir(), claims_folder(), "/var/log/libvirt/qemu",
                            "/var/lib/libvirt/qemu", "/run/libvirt/qemu", "/dev/shm"});
}

/// Against the modes of docs/security.md.
ModeReport check_modes(const RunState& run) {
  ModeReport report;
  const ControlFile control(run, "", all_may_read);
  for (const auto& path : entries_of(state_dir())) {
    const auto name = path.filename().string();
    if (name.starts_with("leases.db") || name.ends_with(".lock")) { check(path, own_file, report); }
  }
  check(claims_folder(), own_folder, report);
  for (const auto& path : entries_of(run.log_dir)) {
    if (fs::is_regular_file(fs::symlink_status(path))) { check(path, own_file, report); }
  }
  const auto is_control = [&](const LooseFile& one) { return one.path == control.path(); };
  report.found_control = std::erase_if(report.loose, is_control) == 1;
  --report.files;
  return report;
}

namespace fs = std::filesystem;

/// The words of the Error that `look` ends in; "" if it ends in none.
template <typename Look>
std::string trouble(Look&& look) {
  try {
    look();
  } catch (const Error& error) { return error.what(); }
  return "";
}

/// Without the daemons that a run keeps away by itself.
void add_users(const fs::path& root, std::vector<HostDevice>& devices) {
  find_users(root, devices);
  for (auto& device : devices) {
    std::erase_if(device.users, [&](const auto& user) { return is_service_that_grabs_gpus(root, user.pid); });
  }
}

/// Devices of our own live runs are a matter of leases, which can be waited for.
void forget_users_of_leased(const LeaseJournal& journal, std::vector<HostDevice>& devices) {
  const auto owners = journal.device_owners();
  for (auto& device : devices) {
    const auto owner = owners.find(device.function.address);
    if (owner != owners.end() && is_alive(owner->second)) { device.users.clear(); }
  }
}

/// Whoever is plugged into a bridge, or has a virtual function, sees and sends there as a machine of that
/// network. Which ones other users may have is root's to say.
void require_allowed(const HostNetwork& network) {
  if (!shares_ethernet(network.kind) || !works_for_another()) { return; }
  const bool is_bridge = network.kind == HostNetworkKind::bridge;
  const auto* list = is_bridge ? allowed_bridges : allowed_nics;
  if (allows_device(read_file(list).value_or(""), network.name)) { return; }
  throw Error(is_bridge
                  ? fmt::format("plug nodes of user {} into bridge {}", coordinator_user().user, network.name)
                  : fmt::format("give nodes of user {} virtual functions of {}", coordinator_user().user,
                                network.name),
              ErrorCode::host_unable,
              fmt::format("{} does not allow it (root: echo 'allow {}' >> {}; or use a VXLAN)", list,
                          network.name, list));
}

/// Where a user's own folder for claims cannot be had, runs go on without: a stranger may have planted it.
std::unique_ptr<HostClaims> open_claims() {
  try {
    return std::make_unique<HostClaims>(claims_folder());
  } catch (const Error& error) {
    if (::geteuid() == 0) { throw; }
    log::warning("runs with other state folders may share cores with this one", {{"reason", error.what()}});
    return nullptr;
  }
}

Programs find_programs(const std::vector<std::string>& names) {
  Programs programs{sibling_program("virtrain-agent"), sibling_program("virtrain-rsh"), {}};
  for (const auto& name : names) {
    const fs::path given(name);
    programs.others.emplace(given.filename(), given.is_absolute() ? given : sibling_program(name));
  }
  return programs;
}

std::vector<LeftoverWords> words_of(const std::vector<Leftover>& leftovers) {
  std::vector<LeftoverWords> words;
  words.reserve(leftovers.size());
  for (const auto& one : leftovers) {
    words.push_back({to_string(one.kind), one.name, one.experiment, one.detail});
  }
  return words;
}

constexpr std::size_t most_payloads = 64;

/// Looks at the copy, which nobody changes any more.
void require_squashfs(const fs::path& copy, const std::string& path) {
  const auto file = open_to_read(copy);
  if (file && is_squashfs(read_at_most(file.get(), squashfs_header_bytes).value_or(""))) { return; }
  throw Error("take the payload " + printable(path), ErrorCode::host_unable,
              "it is not a squashfs image (make one: virtrain payload make)");
}

std::string reachable_libvirt() {
  return ::geteuid() == 0 || libvirt_answers(system_libvirt) ? system_libvirt : "qemu:///session";
}

}  // namespace

/// One run's part of the host.
struct LocalHost::Run {
  std::unique_ptr<HostClaims> claims = open_claims();
  HostClaims living{living_folder()};  ///< told to who shares the state folder and sees no process of ours
  LeaseJournal journal;
  RunState state;
  DeviceLender lender;
  PlantedFiles planted = {};
  const std::shared_ptr<const Inventory> inventory;  ///< as it was when the run began
  std::vector<std::string> resources = {};           ///< that it has acquired

  Run(const RunSpec& spec, std::shared_ptr<const Inventory> known)
      : state{spec, journal, this_process(spec.experiment, spec.results_db),
              state_dir() / "logs" / spec.experiment, find_programs(spec.programs)},
        lender(journal, state.owner, spec.may_change_host),
        inventory(std::move(known)) {
    living.take({experiment_claim + spec.experiment}, "");
  }

  /// Claims the leases that the journal of this state folder gave, so that runs with other state folders see
  /// them.
  void claim() {
    if (!claims) { return; }
    auto names = resources;
    names.push_back(experiment_claim + state.spec.experiment);
    try {
      claims->take(names, fmt::format("experiment {} (pid {}, state in {})", state.spec.experiment,
                                      state.owner.pid, state_dir().string()));
    } catch (const Error&) {
      journal.release(state.owner, std::exchange(resources, {}));
      throw;
    }
  }
};

/// Connections that leftovers() opened and clean() needs.
struct LocalHost::Cleaning {
  std::unique_ptr<LibvirtDaemon> daemon;
  std::unique_ptr<Hypervisor> hypervisor;
  LeaseJournal journal;
  CleanupView view;
  std::vector<Owner> forgettable = {};  ///< of whom clean() left nothing to remove

  explicit Cleaning(const std::string& uri) {
    try {
      // In a container that allows no namespaces the system's libvirt would not answer, nor had VMs of ours.
      if (::geteuid() == 0 && uri == system_libvirt && try_privileges().lacks_isolation.empty()) {
        daemon = std::make_unique<LibvirtDaemon>();
      }
      hypervisor = connect_libvirt(uri);
    } catch (const Error& error) { log::warning("libvirt is not looked at", {{"reason", error.what()}}); }
    auto caller = this_caller();
    caller.own_libvirt = uri.ends_with("/session");
    view = find_leftovers(hypervisor.get(), &journal, caller);
  }
};

LocalHost::LocalHost(fs::path root) : root_(std::move(root)) {}
LocalHost::~LocalHost() = default;

std::map<std::string, std::string> LocalHost::fingerprint() {
  return host_fingerprint();
}

std::vector<int> LocalHost::numa_nodes_of(const std::vector<int>& cores) {
  return vmctl::numa_nodes_of(root_, cores);
}

HostNetworkFacts LocalHost::look_at_network(const HostNetwork& network) {
  judge_network("network", network);
  if (root_ != "/") {
    throw Error("look at network " + network.name, ErrorCode::host_unable,
                "a recorded host has none to look at (run virtrain on the host itself)");
  }
  require_allowed(network);
  auto facts = read_host_network(network);
  if (facts.free_functions.empty() || !LeaseJournal::is_there()) { return facts; }
  const LeaseJournal journal;
  const auto owners = journal.device_owners();
  const auto quarantined = journal.quarantined();
  std::erase_if(facts.free_functions, [&](const std::string& address) {
    const auto owner = owners.find(address);
    return (owner != owners.end() && is_alive(owner->second)) ||
           std::ranges::any_of(quarantined, [&](const auto& one) { return one.address == address; });
  });
  return facts;
}

std::string LocalHost::planned_xml(const NodeGroupSpec& group, std::size_t tenant, std::size_t node,
                                   NodeId number, bool emulated) {
  if (tenant >= group.tenants.size() || node >= group.tenants[tenant].size()) {
    throw Error("plan a domain", ErrorCode::protocol, "the group has no such node");
  }
  judge_group(group);
  if (!cpu_traits_) { cpu_traits_ = cpu_traits(load_machine(root_), qemu_version(root_)); }
  return vmctl::planned_xml(group, tenant, node, number, emulated, *cpu_traits_);
}

std::string LocalHost::nccl_topology_of(const std::string& domain_xml) {
  const auto domain = read_foreign_domain(domain_xml);
  const auto [devices, others] = read_host_devices(root_);
  for (const auto& words : left_out_of_topology(domain, devices, others)) {
    log::warning("left out of NCCL's topology", {{"device", words}});
  }
  return vmctl::nccl_topology_of(domain, devices);
}

std::string LocalHost::domain_xml_of(const std::string& domain) {
  judge_name("domain", domain);
  return connect_libvirt(reachable_libvirt())->domain_description(domain);
}

fs::path LocalHost::log_root() {
  return state_dir() / "logs";
}

void LocalHost::record(const fs::path& folder) {
  judge_path("folder", folder.string());
  const AsUser coordinator(coordinator_user());
  record_host(folder);
}

/// Judged is what this host itself has read, whatever the caller was told or says.
std::shared_ptr<const Inventory> LocalHost::known_inventory() {
  {
    const std::scoped_lock lock(inventory_mutex_);
    if (inventory_) { return inventory_; }
  }
  inventory(false);
  return known_inventory();
}

std::vector<Finding> LocalHost::examine(HostMode mode) {
  return examine_host(*known_inventory(), mode);
}

std::vector<CheckDescription> LocalHost::checks() {
  return known_checks();
}

std::vector<Finding> LocalHost::examine_devices(const std::optional<std::vector<DeviceDemand>>& demands) {
  const auto known = known_inventory();
  if (!demands) { return vmctl::examine_devices(*known, root_); }
  judge_demands(*known, *demands);
  return vmctl::examine_devices(*known, *demands, root_);
}

Privileges LocalHost::privileges() {
  return try_privileges();
}

std::string LocalHost::lacks_user_namespaces() {
  return try_isolation_in_user_namespace();
}

std::vector<std::string> LocalHost::lacks_limits(NodeKind kind, const NodeLimits& limits) {
  judge_limits(limits);
  std::vector<std::string> reasons;
  const auto add = [&](std::string why) {
    if (!why.empty()) { reasons.push_back(std::move(why)); }
  };
  if (limits.of_resctrl()) { add(lacks_resctrl(read_resctrl(), limits)); }
  if (kind == NodeKind::vm) {  // libvirt finds its cgroups itself; QEMU bounds its disks without any
    if (const auto why = limits.of_network() ? lacks_libvirt_bandwidth() : ""; !why.empty()) {
      add(fmt::format(
          "libvirt's <bandwidth> needs sch_htb, sch_sfq, sch_ingress, cls_u32 and act_police of this "
          "kernel; {} (load them, or use arm bare_metal)",
          why));
    }
    return reasons;
  }
  add(lacks_cgroups(limits));
  if (limits.of_network()) { add(lacks_limits_of_sending()); }
  return reasons;
}

void LocalHost::check_guest(const GuestSpec& guest) {
  judge_guest(guest);
  look_at_image(guest.image);
  if (guest.cpu_model != host_cpu_model) { check_cpu_model(guest.cpu_model, root_); }
}

fs::path LocalHost::begin(const RunSpec& spec) {
  if (run_) { throw Error("begin a run", ErrorCode::protocol, "another one is under way"); }
  judge_run(spec, works_for_another());
  require_allowed(spec.network);
  cancelled_ = false;
  run_ = std::make_unique<Run>(spec, known_inventory());
  return run_->state.log_dir;
}

void LocalHost::keep_services_away(const std::vector<DeviceGrant>& grants) {
  judge_grants(*run().inventory, run().resources, grants);
  run().lender.keep_services_away(grants);
}

std::size_t LocalHost::lend(const std::vector<DeviceGrant>& grants, const CardSettings& cards) {
  judge_lending(*run().inventory, run().resources, grants);
  judge_settings(cards.gpu);
  return run().lender.lend(grants, cards, [this] { return cancelled_.load(); });
}

void LocalHost::set(const std::vector<DeviceGrant>& grants, const DeviceSettings& wanted) {
  judge_grants(*run().inventory, run().resources, grants);
  judge_settings(wanted);
  run().lender.set(grants, wanted);
}

std::vector<std::string> LocalHost::give_back() {
  return run().lender.give_back();
}

std::vector<std::string> LocalHost::end_lending() {
  return run().lender.end();
}

bool LocalHost::lift_quarantine(const std::string& address) {
  judge_name("address", address);
  return LeaseJournal().lift_quarantine(address);
}

Inventory LocalHost::inventory(bool with_users) {
  const auto read = std::make_shared<const Inventory>(read_inventory(with_users));
  const std::scoped_lock lock(inventory_mutex_);
  inventory_ = read;
  return *read;
}

Inventory LocalHost::read_inventory(bool with_users) const {
  auto inventory = load_inventory(root_);
  const auto lists = {&inventory.devices, &inventory.other_devices};
  if (with_users) {
    for (auto* devices : lists) { add_users(root_, *devices); }
  }
  if (root_ != "/") { return inventory; }  // a recorded host has no runs
  std::optional<LeaseJournal> journal;
  if (LeaseJournal::is_there()) { inventory.leased_cores = journal.emplace().leased_cores(); }
  for (const auto& core : held_claims(claims_folder(), "core:")) {
    const auto number = parse_integer(core);
    if (number && !contains(inventory.leased_cores, static_cast<int>(*number))) {
      inventory.leased_cores.push_back(static_cast<int>(*number));
    }
  }
  if (!with_users || !journal) { return inventory; }
  for (auto* devices : lists) { forget_users_of_leased(*journal, *devices); }
  for (const auto& device : journal->quarantined()) {
    inventory.withheld_devices[device.address] =
        fmt::format("in quarantine: {} (once it works: virtrain clean --lift-quarantine {})", device.reason,
                    device.address);
  }
  return inventory;
}

DeviceListing LocalHost::devices() {
  DeviceListing listing;
  auto found = read_host_devices(root_);
  listing.devices = std::move(found.devices);
  for (auto& other : found.others) {
    if (other.function.is_accelerator() || other.function.is_dead()) {
      listing.devices.push_back(std::move(other));
    }
  }
  find_users(root_, listing.devices);
  listing.reports = read_host_words(root_).gpus;
  if (root_ != "/") {  // a recorded host has no journal and no daemon
    return listing;
  }
  const LeaseJournal journal;
  for (const auto& [address, owner] : journal.device_owners()) {
    listing.leases[address] =
        fmt::format("{} (pid {}{})", owner.experiment, owner.pid, is_alive(owner) ? "" : ", dead");
  }
  for (const auto& device : journal.quarantined()) {
    listing.quarantined[device.address] = fmt::format("{} (since {})", device.reason, device.since);
  }
  if (!listing.devices.empty() && libvirt_answers(system_libvirt)) {
    try {
      listing.disagreements = disagreements(listing.devices, connect_libvirt(system_libvirt)->pci_devices());
    } catch (const Error& error) {
      listing.disagreements = {std::string("libvirt could not be asked: ") + error.what()};
    }
  }
  return listing;
}

std::string LocalHost::closed_to_qemu() {
  return vmctl::closed_to_qemu();
}

std::string LocalHost::lacks_system_libvirt() {
  std::string why;
  if (libvirt_answers(system_libvirt, &why)) { return ""; }
  return why.empty() ? "it is silent" : why;
}

CudaHost LocalHost::look_at_cuda(const std::string& trainer) {
  judge_program(trainer);
  CudaHost host;
  host.trainer = trouble([&] {
    const auto program = sibling_program(trainer).string();
    host.libraries = parse_ldd(program, run_command({"ldd", program}).out);
    const auto opened = opened_at_run_time({host.libraries.begin(), host.libraries.end()});
    for (const auto& library : opened) { host.libraries.push_back(library.string()); }
  });
  if (!loaded_nvidia_driver("/")) {
    host.host_driver = "no NVIDIA driver is loaded (modprobe nvidia; nvidia-smi shows whether it works)";
  }
  host.guest_driver = trouble([] {
    if (!find_guest_driver("/", find_guest_kernel().version)) {
      throw Error("carry the NVIDIA driver into the guest", ErrorCode::host_unable,
                  "this host has none (install it, or use a guest.image that has one)");
    }
  });
  return host;
}

bool LocalHost::has_image(const ImageSpec& spec, const std::vector<std::string>& programs) {
  judge_image(spec);
  judge_programs(programs, works_for_another());
  return has_mirror_image(mirror_of(find_programs(programs), spec));
}

// --- a run

void LocalHost::acquire(const std::vector<std::string>& resources) {
  if (!run().resources.empty()) {
    throw Error("acquire cores and devices", ErrorCode::protocol, "the run has its own");
  }
  judge_resources(*run().inventory, resources);
  run().journal.acquire(run().state.owner, resources);
  run().resources = resources;
  run().claim();
  constexpr unsigned passable_by_qemu = 0711;
  const auto& logs = run().state.log_dir;
  for (const auto& folder : {logs.parent_path(), logs}) { make_own_folder(folder, passable_by_qemu); }
}

/// A coordinator may end a run of which it has left something.
std::vector<std::string> LocalHost::undo_all() {
  std::vector<std::string> failures;
  std::map<NodeGroupId, std::shared_ptr<MadeNodes>> groups;
  {
    const std::scoped_lock lock(groups_mutex_);
    groups.swap(groups_);
  }
  for (const auto& [id, nodes] : groups) {
    const auto left = nodes->remove().left;
    failures.insert(failures.end(), left.begin(), left.end());
  }
  try {
    run().planted.remove(run().state);
  } catch (const std::exception& error) { failures.emplace_back(error.what()); }
  const auto kept = run().lender.end();
  failures.insert(failures.end(), kept.begin(), kept.end());
  return failures;
}

void LocalHost::end(bool stored) {
  run();
  for (const auto& reason : undo_all()) {
    log::error("not undone at the end of the run; run: virtrain clean", {{"reason", reason}});
  }
  const std::scoped_lock replacing(run_mutex_);
  run().state.vm_host.reset();
  try {
    if (stored) {
      run().journal.end(run().state.owner);
    } else {
      run().journal.release(run().state.owner, run().resources);
    }
  } catch (const Error& error) {
    log::error("the lease journal could not be updated; when its disk has room: virtrain clean",
               {{"reason", error.what()}});
  }
  run_.reset();
}

std::string LocalHost::take_payload(const std::string& path) {
  judge_path("payload", path);
  auto& state = run().state;
  if (state.payloads.size() >= most_payloads) {
    throw Error("take a payload", ErrorCode::protocol,
                fmt::format("the run has {} already", state.payloads.size()));
  }
  if (state.spec.mode != HostMode::system) {
    throw Error("take the payload " + printable(path), ErrorCode::host_unable,
                fmt::format("mode {} cannot mount it (allowed: mode system)", to_string(state.spec.mode)));
  }
  auto copy = copy_image(
      path, cache_dir(), [this] { return cancelled_.load(); }, "payload");
  require_squashfs(copy.file, path);
  auto digest = copy.sha256;
  state.payloads.insert_or_assign(digest, std::move(copy));
  return digest;
}

ImageFacts LocalHost::make_image(const ImageSpec& spec) {
  auto& state = run().state;
  const auto cancelled = [this] { return cancelled_.load(); };
  judge_image(spec);
  look_at_image(spec.image);
  if (const auto said = run().lender.open_kvm_device(); !said.empty()) { log::warning(said); }
  if (state.vm_host && spec.texts.empty()) {
    choose_image(*state.vm_host, spec.image, cancelled);
  } else {
    {
      const std::scoped_lock replacing(run_mutex_);
      state.vm_host.reset();  // no VM of the old image runs any more
    }
    auto made = prepare_vm_host(state, spec, cancelled);
    const std::scoped_lock replacing(run_mutex_);
    state.vm_host = std::move(made);
  }
  const auto& host = *state.vm_host;
  return {host.image.hash,
          spec.image,
          host.image.kernel_version,
          host.image.from_cache,
          host.virtualization,
          host.virtualization_reason,
          host.cloud_image ? std::map<std::string, std::string>() : versions_of(host.image.packages)};
}

NodeGroup LocalHost::plan_nodes(const NodeGroupSpec& spec) {
  judge_nodes(*run().inventory, run().resources, spec, run().state.spec);
  auto nodes = std::make_shared<MadeNodes>(run().state, spec);
  NodeGroup group{nodes->id(), nodes->facts()};
  const std::scoped_lock lock(groups_mutex_);
  groups_[group.id] = std::move(nodes);
  return group;
}

LocalHost::Run& LocalHost::run() const {
  if (!run_) { throw Error("answer the coordinator", ErrorCode::protocol, "no run has begun"); }
  return *run_;
}

LocalHost::Cleaning& LocalHost::cleaning() const {
  if (!cleaning_) { throw Error("answer the coordinator", ErrorCode::protocol, "nothing was looked for"); }
  return *cleaning_;
}

std::shared_ptr<MadeNodes> LocalHost::group(NodeGroupId id) const {
  const std::scoped_lock lock(groups_mutex_);
  const auto found = groups_.find(id);
  if (found == groups_.end()) {
    throw Error("answer the coordinator", ErrorCode::protocol,
                fmt::format("there is no group {} of nodes", id));
  }
  return found->second;
}

/// A group's id is its first node's; of a group without nodes here it is no node's.
std::shared_ptr<MadeNodes> LocalHost::group_of(NodeId node) const {
  const std::scoped_lock lock(groups_mutex_);
  const auto next = groups_.upper_bound(node);
  if (next == groups_.begin()) {
    throw Error("answer the coordinator", ErrorCode::protocol, fmt::format("there is no node {}", node));
  }
  return std::prev(next)->second;
}

// --- what is looked at while nodes run

GuestTopology LocalHost::check_topology(NodeId node, const std::vector<PciFunction>& guest,
                                        const std::string& peers) {
  judge_functions(guest);
  return group_of(node)->check_topology(node, guest, peers);
}

void LocalHost::watch_devices(const std::vector<std::string>& addresses) {
  judge_addresses(*known_inventory(), addresses);
  const std::scoped_lock lock(watch_mutex_);
  watch_.emplace(addresses, root_);
}

HostCounters LocalHost::look() {
  {
    const std::scoped_lock lock(watch_mutex_);
    if (watch_) { watch_->look(); }
  }
  std::vector<std::shared_ptr<MadeNodes>> groups;
  {
    const std::scoped_lock lock(groups_mutex_);
    for (const auto& [id, group] : groups_) { groups.push_back(group); }
  }
  HostCounters seen;
  for (const auto& group : groups) { group->add_waiting_times(seen); }
  return seen;
}

DeviceEvidence LocalHost::watched() {
  const std::scoped_lock lock(watch_mutex_);
  if (!watch_) { throw Error("answer the coordinator", ErrorCode::protocol, "no device is watched"); }
  watch_->look();
  auto seen = watch_->finish();
  watch_.reset();
  return seen;
}

// --- probes of security

std::vector<fs::path> LocalHost::plant(const Canary& canary) {
  judge_canaries({canary});
  return run().planted.plant(run().state, canary);
}

void LocalHost::remove_planted() {
  run().planted.remove(run().state);
}

std::uint64_t LocalHost::plant_in_memory(const Canary& canary) {
  judge_canaries({canary});
  return run().planted.plant_in_memory(canary);
}

SearchReport LocalHost::search_leftovers(const std::vector<Canary>& canaries, const Canary& control) {
  auto& state = run().state;
  judge_canaries(canaries);
  judge_canaries({control});
  return vmctl::search_leftovers(state, canaries, control);
}

ModeReport LocalHost::check_modes() {
  return vmctl::check_modes(run().state);
}

// --- what killed runs have left

Leftovers LocalHost::leftovers(const std::string& libvirt, const std::string& experiment) {
  judge_libvirt(libvirt);
  if (!experiment.empty()) { judge_name("experiment", experiment); }
  cleaning_ = std::make_unique<Cleaning>(libvirt.empty() ? reachable_libvirt() : libvirt);
  if (!experiment.empty()) {
    // Network namespaces and cgroups have the end of an experiment's id in their names, and no more of it.
    const auto prefix = "vt-" + tag_of(experiment) + "-";
    const auto is_named = [&](const Leftover& found) {
      return fs::path(found.name).filename().string().starts_with(prefix);
    };
    std::erase_if(cleaning().view.leftovers, [&](const Leftover& found) {
      return found.experiment != experiment && !(found.experiment.empty() && is_named(found));
    });
    std::erase_if(cleaning().view.dead_owners,
                  [&](const Owner& owner) { return owner.experiment != experiment; });
  }
  return {words_of(cleaning().view.leftovers), words_of(cleaning().view.foreign),
          cleaning().journal.quarantined(), cleaning().view.live, this_caller().other_harnesses};
}

Cleaned LocalHost::clean() {
  const auto result = vmctl::clean(cleaning().view, cleaning().hypervisor.get(), &cleaning().journal);
  cleaning().forgettable = result.forgettable;
  Cleaned cleaned{words_of(result.removed), {}, result.dead};
  for (const auto& [leftover, reason] : result.failed) {
    cleaned.failed.emplace_back(words_of({leftover}).front(), reason);
  }
  return cleaned;
}

void LocalHost::forget(const std::vector<std::string>& experiments) {
  for (const auto& experiment : experiments) { judge_name("experiment", experiment); }
  if (!cleaning_) { return; }
  for (const auto& owner : cleaning().forgettable) {
    if (contains(experiments, owner.experiment)) { cleaning().journal.release_all(owner); }
  }
}

}  // namespace virtrain::vmctl
