#include "vmctl/host/made_nodes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/time.h"
#include "common/text/cpu_list.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "vmctl/guest/mirror/guest_image.h"
#include "vmctl/guest/node_settings.h"
#include "vmctl/host/tenant_network.h"
#include "vmctl/hypervisor/domain/topology_check.h"
#include "vmctl/hypervisor/qemu_process.h"
#include "vmctl/machine/host_network.h"
#include "vmctl/process/calling_user.h"
#include "vmctl/resources/cleanup.h"
#include "vmctl/resources/devices/network_function.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/slice/net_devices.h"
#include "vmctl/slice/resctrl.h"
#include "vmctl/slice/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

/// Error messages have this much of a console's end.
constexpr std::size_t most_console_bytes = 3000;
/// In memory, and gone with the guest.
constexpr const char* guest_cache_home = "/run/virtrain-cache";

std::string random_uuid() {
  std::random_device device;
  std::uint32_t words[4];
  for (auto& word : words) { word = device(); }
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:08x}{:04x}", words[0], words[1] >> 16, words[1] & 0xfff,
                     (words[2] >> 16 & 0x3fff) | 0x8000, words[3], words[2] & 0xffff);
}

/// A port that nobody has been told. Whoever finds it out can still join the group.
int random_port() {
  std::random_device device;
  return std::uniform_int_distribution<int>(20'000, 60'000)(device);
}

/// Makes the files that a VM of another user writes to, in a folder that stays ours.
void give_written_files(const DomainSpec& spec, uid_t user) {
  std::vector<std::string> files{spec.console_log};
  if (spec.boot_disk) { files.insert(files.end(), {spec.boot_disk->overlay, spec.boot_disk->seed}); }
  if (spec.scratch) { files.push_back(spec.scratch->file); }
  for (const auto& file : files) {
    const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd || ::fchown(fd.get(), user, static_cast<gid_t>(-1)) != 0) {
      throw errno_error("give " + file + " to QEMU's user", errno);
    }
  }
}

/// A new file of this size without contents. Returns whether its file system lets the page cache be passed.
bool make_scratch_file(const std::string& file, std::uint64_t bytes) {
  constexpr int mode = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const UniqueFd fd(::open(file.c_str(), mode, 0600));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    throw errno_error("make the disk " + file, errno);
  }
  return static_cast<bool>(UniqueFd(::open(file.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW)));
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error("answer the coordinator", ErrorCode::protocol, why);
}

/// Cores, memory and NUMA node of everything that a node stands for.
void take_room(NodeFacts& node, const std::vector<NodeSpec>& tenants_nodes,
               const std::vector<std::size_t>& its) {
  std::set<int> cores;
  node.numa_node = tenants_nodes[its.front()].numa_node;
  for (const auto n : its) {
    const auto& one = tenants_nodes[n];
    cores.insert(one.cores.begin(), one.cores.end());
    node.memory_bytes += one.memory_bytes;
    if (one.numa_node != node.numa_node) { node.numa_node.reset(); }
  }
  node.cores.assign(cores.begin(), cores.end());
}

}  // namespace

MadeNodes::MadeNodes(RunState& run, NodeGroupSpec spec)
    : run_(run), spec_(std::move(spec)), names_{run.spec.experiment, run.tag()}, id_(run.next_node) {
  look_at_host_network();
  look_at_payloads();
  if (!is_vm()) {
    require_runnable(run.programs.agent, calling_user());
    for (const auto& [name, program] : run.programs.others) { require_runnable(program, calling_user()); }
  }
  for (std::size_t t = 0; t < spec_.tenants.size(); ++t) {
    networks_.push_back(plan_network(t));
    auto own = own_nodes(t);
    if (spec_.kind == NodeKind::shared_slice && own.size() > 1) { own.resize(1); }
    for (const auto n : own) { nodes_.push_back(plan_node(t, n)); }
  }
  if (nodes_.empty()) { ++run_.next_node; }
}

std::vector<std::size_t> MadeNodes::own_nodes(std::size_t tenant) const {
  std::vector<std::size_t> own;
  for (std::size_t n = 0; n < spec_.tenants[tenant].size(); ++n) {
    if (spec_.tenants[tenant][n].host == run_.spec.host) { own.push_back(n); }
  }
  return own;
}

void MadeNodes::look_at_payloads() const {
  for (const auto& tenant : spec_.tenants) {
    for (const auto& node : tenant) {
      if (node.payload.empty()) { continue; }
      if (!run_.payloads.contains(node.payload)) { refuse("the run has taken no payload " + node.payload); }
    }
  }
}

std::string MadeNodes::payload_of(const Node& node) const {
  const auto& digest = node.spec->payload;
  return digest.empty() ? std::string() : run_.payloads.at(digest).file.string();
}

void MadeNodes::look_at_host_network() {
  spec_.network = run_.spec.network;
  const auto unable = [&](const std::string& why) {
    throw Error("make nodes on several hosts", ErrorCode::host_unable, why);
  };
  if (spec_.network.kind == HostNetworkKind::none) {
    for (std::size_t t = 0; t < spec_.tenants.size(); ++t) {
      const auto own = own_nodes(t).size();
      if (own == 0 || own == spec_.tenants[t].size()) { continue; }
      unable(
          fmt::format("tenant {} has nodes on other hosts, and host {} has no network to them (say under "
                      "hosts which bridge or NIC its nodes have: network: {{kind: vxlan, name: NIC}})",
                      t + 1, run_.spec.host));
    }
    return;
  }
  if (spec_.kind == NodeKind::shared_slice) {  // which has the host's own
    host_network_ = read_host_network(spec_.network);
    const bool crosses = std::ranges::any_of(spec_.tenants, [&](const auto& tenant) {
      return std::ranges::any_of(tenant,
                                 [&](const NodeSpec& node) { return node.host != tenant.front().host; });
    });
    if (crosses) { require_usable_by_host(spec_.network, host_network_); }
    return;
  }
  if (run_.spec.mode != HostMode::system) {
    unable(
        fmt::format("a network between hosts needs mode system, and this host runs in mode {} "
                    "(docs/hosts.md says how to get root's privileges; arm bare_metal_shared needs none)",
                    to_string(run_.spec.mode)));
  }
  host_network_ = read_host_network(spec_.network);
  require_reachable(run_.spec.peers, spec_.network, host_network_);
  spec_.guest.network.mtu = mtu_of_nodes(spec_.guest.network, spec_.network, host_network_);
}

MadeNodes::Network MadeNodes::plan_network(std::size_t tenant) const {
  if (spec_.kind == NodeKind::shared_slice || own_nodes(tenant).empty()) { return {}; }
  if (spec_.network.kind == HostNetworkKind::bridge) { return {"", spec_.network.name}; }
  if (spec_.network.kind == HostNetworkKind::vf) { return {.of_functions = true}; }
  const bool is_tunnelled = spec_.network.kind == HostNetworkKind::vxlan;
  if (spec_.kind == NodeKind::slice) {
    Network network{names_.slice_bridge(tenant), names_.slice_bridge(tenant)};
    if (is_tunnelled) { network.vxlan = names_.slice_vxlan(tenant); }
    return network;
  }
  switch (run_.spec.mode) {
    case HostMode::system: {
      Network network{names_.network(tenant), names_.bridge(tenant), true};
      if (is_tunnelled) { network.vxlan = names_.vxlan(tenant); }
      return network;
    }
    case HostMode::namespaces:
      return {names_.bridge(tenant), names_.bridge(tenant)};
    case HostMode::session:
      break;
  }
  // A lone VM has nobody to talk to, and the group is open to whoever is on this host.
  const bool alone = own_nodes(tenant).size() == 1;
  return {"", "", false, alone ? 0 : random_port()};
}

MadeNodes::Node MadeNodes::plan_node(std::size_t tenant, std::size_t placed) {
  const auto& tenants_nodes = spec_.tenants[tenant];
  Node node;
  node.spec = &tenants_nodes[placed];
  auto& facts = node.facts;
  facts.id = run_.next_node++;
  facts.tenant = tenant;
  facts.placed = placed;
  facts.has_own_kernel = is_vm();
  facts.kind = is_vm() ? "vm" : "slice";
  facts.name = is_vm() ? names_.domain(facts.id) : names_.slice(facts.id);
  facts.starting = (is_vm() ? "boot " : "start slice ") + facts.name;
  facts.uuid = is_vm() ? random_uuid() : "";
  facts.log = run_.log_dir / (facts.name + (is_vm() ? ".console" : ".log"));
  // A slice sees the host's files, the shared arm's even /tmp; its log's folder is this run's alone.
  facts.cache_home = is_vm() ? guest_cache_home : (run_.log_dir / (facts.name + ".cache")).string();
  facts.temporary_folder = spec_.kind == NodeKind::shared_slice ? unforeseen_folder(run_.log_dir, facts.name)
                                                                : node_temporary_folder;
  if (!node.spec->payload.empty()) { facts.payload_folder = facts.temporary_folder + payload_folder; }
  if (!is_vm()) { facts.load_file = facts.cache_home + "/load"; }
  look_at_place_in_network(facts);
  for (const auto& [name, program] : run_.programs.others) {
    facts.programs[name] = is_vm() ? guest_program(program) : program.string();
  }
  take_room(facts, tenants_nodes,
            spec_.kind == NodeKind::shared_slice ? own_nodes(tenant) : std::vector{placed});
  // A guest's cores are all its own; a slice sees the whole host in /proc/stat.
  if (!is_vm()) { facts.counted_cores = format_cpu_list(facts.cores); }
  if (networks_[tenant].of_functions && !node.spec->network_function) {
    refuse(fmt::format("{} has no virtual function", node.spec->hostname));
  }
  if (!networks_[tenant].bridge.empty()) {
    node.nic = is_vm() ? names_.tap(facts.id) : names_.slice_nic(facts.id);
  }
  return node;
}

void MadeNodes::look_at_place_in_network(NodeFacts& facts) const {
  const auto& network = networks_[facts.tenant];
  const bool is_between_hosts = spec_.network.kind != HostNetworkKind::none;
  if (spec_.kind == NodeKind::shared_slice) {
    if (!is_between_hosts) { return; }
    facts.network_medium = "host_nic";
    facts.interface = spec_.network.name;
    facts.address = host_network_.address;
    return;
  }
  if (network.multicast_port != 0) {
    facts.network_medium = "shared_medium";
  } else if (is_between_hosts) {
    facts.network_medium = to_string(spec_.network.kind);
  }
  if (!network.connects()) { return; }
  facts.interface = "eth0";
  facts.address = split(spec_.tenants[facts.tenant][facts.placed].address, '/')[0];
}

std::vector<NodeFacts> MadeNodes::facts() const {
  std::vector<NodeFacts> all;
  for (const auto& node : nodes_) { all.push_back(node.facts); }
  return all;
}

const MadeNodes::Node& MadeNodes::at(NodeId node) const {
  const auto index = node - id_;  // they are numbered one after the other
  if (index < 0 || index >= std::ssize(nodes_)) { refuse(fmt::format("there is no node {}", node)); }
  return nodes_[static_cast<std::size_t>(index)];
}

MadeNodes::Node& MadeNodes::at(NodeId node) {
  return const_cast<Node&>(std::as_const(*this).at(node));
}

VmHost& MadeNodes::vm_host() const {
  if (!is_vm() || !run_.vm_host) { refuse("VMs have no image yet, and other nodes none"); }
  return *run_.vm_host;
}

std::optional<NicKind> MadeNodes::vm_nic(const Node& node) const {
  const auto& network = networks_[node.facts.tenant];
  if (!network.connects()) { return std::nullopt; }
  if (network.multicast_port != 0) { return NicKind::multicast; }
  if (network.of_functions) { return NicKind::function; }
  if (network.name.empty()) { return NicKind::bridge; }
  return network.of_libvirt ? NicKind::network : NicKind::tap;
}

std::int64_t MadeNodes::journal(EffectKind kind, const std::string& name) {
  return run_.journal.intent(run_.owner, kind, name);
}

// --- making

void MadeNodes::make_networks() {
  if (was_removed_ || !made_networks_.empty()) { refuse("its networks were made already"); }
  if (is_vm()) { vm_host(); }
  take_shared_addresses();
  for (std::size_t t = 0; t < networks_.size(); ++t) {
    const auto& network = networks_[t];
    if (network.name.empty()) { continue; }
    const auto id = journal(network.of_libvirt ? EffectKind::network : EffectKind::bridge, network.name);
    made_networks_.emplace_back(network, id);
    if (network.of_libvirt) {
      vm_host().hypervisor->create_network({network.name, network.bridge, {run_.spec.experiment, ""}});
      // Where libvirt is another host's, so is the bridge.
      const bool here = std::filesystem::exists("/sys/class/net/" + network.bridge);
      if (here && ::geteuid() == 0) { hide_host_on(network.bridge); }
    } else {
      create_bridge(network.bridge, {}, run_.spec.experiment);
    }
    run_.journal.done(id);
    if (!network.vxlan.empty()) { make_vxlan(network, t); }
  }
}

/// VMs may wait for their next trial while slices run. Networks of their own keep them apart; a bridge or NIC
/// that they share does not.
void MadeNodes::take_shared_addresses() {
  if (!shares_ethernet(spec_.network.kind) || spec_.kind == NodeKind::shared_slice) { return; }
  const std::scoped_lock lock(run_.plugged_mutex);
  for (const auto& node : nodes_) {
    const auto& address = node.spec->address;
    if (!run_.plugged.contains(address)) { continue; }
    throw Error("plug " + node.facts.name + " into " + spec_.network.name, ErrorCode::host_unable,
                fmt::format("another node of this run has {} there (VMs that wait for their next trial keep "
                            "theirs: use reuse: trial, or a VXLAN)",
                            address));
  }
  for (const auto& node : nodes_) {
    run_.plugged.insert(node.spec->address);
    plugged_.push_back(node.spec->address);
  }
}

void MadeNodes::make_vxlan(const Network& network, std::size_t tenant) {
  require_free_name(network.vxlan);  // before it is said to be ours
  const auto id = journal(EffectKind::vxlan, network.vxlan);
  made_vxlans_.emplace_back(network.vxlan, id);
  create_vxlan({network.vxlan, network.bridge, vxlan_number(run_.spec.experiment, tenant, spec_.kind),
                spec_.network.name, host_network_.address, run_.spec.peers},
               run_.spec.experiment);
  run_.journal.done(id);
}

NodeStream MadeNodes::start(NodeId id) {
  auto& node = at(id);
  const auto is_this = [&](const auto& made) { return made.first == &node; };
  if (was_removed_ || std::ranges::any_of(made_nodes_, is_this)) {
    refuse(fmt::format("{} was started already", node.facts.name));
  }
  auto stream = is_vm() ? start_vm(node) : start_slice(node);
  if (node.process) {
    const std::scoped_lock lock(waiting_mutex_);
    waiting_.emplace(id, *node.process);
  }
  return stream;
}

void MadeNodes::use_network_function(const Node& node) {
  if (!networks_[node.facts.tenant].of_functions) { return; }
  const auto& address = node.spec->network_function->grant.address;
  auto effect = network_function_effect(address, node.spec->mac, !is_vm());
  effect.owner = run_.owner;
  effect.id = run_.journal.intent(run_.owner, effect.kind, effect.name, effect.state);
  used_functions_.push_back(effect);
  handler_of(effect.kind).make(effect);
  run_.journal.done(effect.id);
}

std::optional<BootDisk> MadeNodes::boot_disk_of(const Node& node) const {
  const auto& image = vm_host().cloud_image;
  if (!image) { return std::nullopt; }
  const auto disk = (run_.log_dir / node.facts.name).string();
  return BootDisk{disk + ".qcow2", image->file, image->format, disk + "-seed.iso"};
}

DomainSpec MadeNodes::domain_of(const Node& node) const {
  const auto& host = vm_host();
  VmFacts facts;
  facts.number = node.facts.id;
  facts.uuid = node.facts.uuid;
  facts.kernel = host.image.kernel;
  facts.initrd = host.image.initrd;
  facts.root_image = host.image.root;
  facts.console_log = node.facts.log;
  facts.virtualization = host.virtualization;
  facts.boot_disk = boot_disk_of(node);
  facts.scratch = node.scratch;
  facts.payload = payload_of(node);
  facts.cpu_traits = host.cpu_traits;
  facts.in_session = run_.spec.mode != HostMode::system;
  facts.nic = vm_nic(node);
  facts.multicast_port = networks_[node.facts.tenant].multicast_port;
  return domain_spec(spec_, node.facts.tenant, node.facts.placed, names_, facts);
}

void MadeNodes::make_boot_disk(const Node& node) {
  const auto disk = boot_disk_of(node);
  if (!disk) { return; }
  for (const auto& file : {disk->overlay, disk->seed}) {
    made_files_.emplace_back(file, journal(EffectKind::file, file));
  }
  CloudSeed seed{guest_boot(spec_.tenants[node.facts.tenant], *node.spec, vm_nic(node).has_value()),
                 node.spec->mac};
  if (vm_nic(node) == NicKind::function) { seed.boot.mtu = spec_.guest.network.mtu; }
  make_overlay(*vm_host().cloud_image, disk->overlay);
  write_seed(seed, node.facts.uuid, disk->seed);
}

void MadeNodes::make_scratch_disk(Node& node) {
  if (node.spec->scratch_bytes == 0) { return; }
  const auto file = (run_.log_dir / (node.facts.name + ".disk")).string();
  made_files_.emplace_back(file, journal(EffectKind::file, file));
  node.scratch = ScratchDisk{file, make_scratch_file(file, node.spec->scratch_bytes)};
}

NodeStream MadeNodes::start_vm(Node& node) {
  use_network_function(node);
  make_boot_disk(node);
  make_scratch_disk(node);
  const auto spec = domain_of(node);
  auto& host = vm_host();
  NodeStream stream;
  stream.domain_xml = domain_xml(spec);
  const auto id = journal(EffectKind::domain, node.facts.name);
  made_nodes_.emplace_back(&node, id);
  stream.started_ns = monotonic_ns();
  const auto user = host.private_daemon ? host.private_daemon->other_user() : std::nullopt;
  if (vm_nic(node) == NicKind::tap) {
    create_tap(node.nic, networks_[node.facts.tenant].bridge, user.value_or(::geteuid()),
               run_.spec.experiment);
  }
  if (user) { give_written_files(spec, *user); }
  host.hypervisor->create_domain(spec);
  run_.journal.done(id);
  stream.agent = host.hypervisor->open_channel(node.facts.name);
  node.process = qemu_pid(node.facts.name);
  limit_by_resctrl(node, {node.process});
  return stream;
}

void MadeNodes::limit_by_resctrl(const Node& node, std::initializer_list<std::optional<pid_t>> processes) {
  const auto limits = limits_of(node);
  if (!limits.of_resctrl()) { return; }
  const auto group = names_.slice(node.facts.id);
  made_groups_.emplace_back(group, journal(EffectKind::resctrl, group));
  make_resctrl_group(group, limits);
  for (const auto& process : processes) {
    if (!process) {
      throw Error("limit " + node.facts.name, ErrorCode::trial_failed, "its process has gone");
    }
    join_resctrl_group(group, *process);
  }
  run_.journal.done(made_groups_.back().second);
}

NodeLimits MadeNodes::limits_of(const Node& node) const {
  auto limits = node.spec->limits;
  if (spec_.kind != NodeKind::shared_slice) { return limits; }
  // It stands for all of its tenant's nodes here, so that it has what they have together.
  const auto nodes = own_nodes(node.facts.tenant).size();
  if (limits.cpu_cores) { *limits.cpu_cores *= static_cast<double>(nodes); }
  for (auto* limit :
       {&limits.disk_read, &limits.disk_write, &limits.disk_read_iops, &limits.disk_write_iops}) {
    if (*limit) { **limit *= nodes; }
  }
  return limits;
}

SliceSpec MadeNodes::slice_of(const Node& node) const {
  SliceSpec spec;
  spec.name = node.facts.name;
  spec.experiment = run_.spec.experiment;
  spec.hostname = node.spec->hostname;
  spec.isolated = spec_.kind == NodeKind::slice;
  for (const auto& peer : spec_.tenants[node.facts.tenant]) {
    spec.hosts.push_back({peer.hostname, split(peer.address, '/')[0]});
  }
  spec.cores = node.facts.cores;
  spec.memory_bytes = node.facts.memory_bytes;
  spec.limits = limits_of(node);
  if (spec.isolated) {
    spec.network = {networks_[node.facts.tenant].bridge, node.nic, node.spec->address,
                    spec_.guest.network.mtu, ""};
    if (networks_[node.facts.tenant].of_functions) {
      spec.network.device = read_interface(node.spec->network_function->grant.address).name;
    }
    if (spec_.network.kind == HostNetworkKind::bridge) {
      spec.network.host_mac = host_end_mac(node.spec->mac);
    }
  }
  spec.argv = {run_.programs.agent};
  for (const auto& [name, program] : run_.programs.others) {
    spec.program_folders.push_back(program.parent_path());
  }
  spec.temporary_folder = node.facts.temporary_folder;
  spec.payload = payload_of(node);
  const char* path = std::getenv("PATH");
  spec.environment = {"PATH=" + run_.programs.rsh.parent_path().string() + ":" +
                      (path != nullptr ? path : "/usr/bin:/bin")};
  spec.log = node.facts.log;
  if (calling_user().user != ::geteuid()) {
    spec.user = calling_user();
    spec.environment.push_back("HOME=" + home_of(*spec.user));
  }
  return spec;
}

/// Those of a slice that its ranks write to.
void MadeNodes::make_folders(const Node& node) {
  std::vector<std::string> folders{node.facts.cache_home};
  if (spec_.kind == NodeKind::shared_slice) { folders.push_back(node.facts.temporary_folder); }
  for (const auto& folder : folders) {
    made_files_.emplace_back(folder, journal(EffectKind::file, folder));
    make_folder_of(folder, calling_user());
  }
}

NodeStream MadeNodes::start_slice(Node& node) {
  use_network_function(node);
  make_folders(node);
  const auto id = journal(EffectKind::slice, node.facts.name);
  made_nodes_.emplace_back(&node, id);
  NodeStream stream;
  stream.started_ns = monotonic_ns();
  node.slice = vmctl::start_slice(slice_of(node));
  run_.journal.done(id);
  stream.agent = node.slice->take_channel();
  node.process = node.slice->agent_pid();
  limit_by_resctrl(node, {node.slice->pid(), node.process});
  return stream;
}

// --- reading

NodeCounters MadeNodes::counters(NodeId id) {
  const auto& node = at(id);
  NodeCounters out;
  if (is_vm()) {
    out.domain = vm_host().hypervisor->domain_stats(node.facts.name);
    for (const auto& nic : out.domain->nics) {
      out.network_rx_bytes += nic.rx_bytes;
      out.network_tx_bytes += nic.tx_bytes;
    }
  } else if (spec_.kind == NodeKind::shared_slice) {
    // All that the host sends there, whoever it is of.
    if (const auto bytes = nic_bytes(node.facts.interface)) {
      out.network_rx_bytes = bytes->rx;
      out.network_tx_bytes = bytes->tx;
    }
  } else if (const auto bytes = nic_bytes(node.nic)) {
    // The host's end of the pair sends what the slice receives.
    out.network_rx_bytes = bytes->tx;
    out.network_tx_bytes = bytes->rx;
  }
  return out;
}

void MadeNodes::add_waiting_times(HostCounters& counters) {
  const std::scoped_lock lock(waiting_mutex_);
  for (auto& [node, waiting] : waiting_) { counters.waiting.emplace(node, waiting.read()); }
}

LastWords MadeNodes::last_words(NodeId id) const {
  const auto& facts = at(id).facts;
  LastWords words{printable(trim(read_tail(facts.log, most_console_bytes).value_or(""))), ""};
  const auto* libvirt = is_vm() && run_.vm_host ? run_.vm_host->private_daemon.get() : nullptr;
  const auto of_qemu = is_vm() ? read_qemu_last_words(facts.name, libvirt ? libvirt->cache() : "") : "";
  if (!of_qemu.empty()) { words.hypervisor = "\nQEMU's log ends with:\n" + printable(of_qemu); }
  return words;
}

namespace {

/// Opens a handle of the process that runs the domain; nothing if it has gone: another process may have its
/// number by now.
UniqueFd handle_of_qemu(std::optional<pid_t> process, const std::string& domain) {
  if (!process) { return {}; }
  UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, *process, 0U)));
  return handle && runs_domain(*process, domain) ? std::move(handle) : UniqueFd();
}

/// Returns when it is gone.
void kill_qemu(const UniqueFd& handle, const std::string& domain) {
  constexpr std::chrono::seconds deadline{60};  // it gives the guest's pinned memory back first
  const auto operation = "kill " + domain;
  if (::syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0U) != 0 && errno != ESRCH) {
    throw errno_error(operation, errno);
  }
  if (!becomes_readable(handle.get(), deadline)) {
    throw Error(operation, ErrorCode::timeout, "its QEMU has not gone");
  }
}

}  // namespace

void MadeNodes::kill(NodeId id) const {
  const auto& name = at(id).facts.name;
  const auto handle = handle_of_qemu(is_vm() ? qemu_pid(name) : std::nullopt, name);
  if (!handle) { throw Error("kill " + name, ErrorCode::trial_failed, "it has no QEMU on this host"); }
  kill_qemu(handle, name);
}

void MadeNodes::await_end(NodeId id, std::chrono::milliseconds deadline) const {
  const auto& node = at(id);
  const auto operation = "wait until " + node.facts.name + " has shut down";
  if (!is_vm() || !node.process) {
    throw Error(operation, ErrorCode::trial_failed, "it has no QEMU on this host");
  }
  const auto handle = handle_of_qemu(node.process, node.facts.name);
  if (handle && !becomes_readable(handle.get(), deadline)) {
    throw Error(
        operation, ErrorCode::timeout,
        fmt::format("not within {} s", std::chrono::duration_cast<std::chrono::seconds>(deadline).count()));
  }
}

GuestTopology MadeNodes::check_topology(NodeId id, const std::vector<PciFunction>& guest,
                                        const std::string& peers) {
  return check_guest_topology(domain_of(at(id)), guest, peers);
}

// --- removing

void MadeNodes::remove_domain(const std::string& name, Removal& removal) {
  try {
    return vm_host().hypervisor->destroy_domain(name);
  } catch (const Error& error) {
    if (run_.spec.mode != HostMode::system) {  // whose QEMUs end with this run
      throw Error("remove " + name, ErrorCode::io, error.what());
    }
    removal.restarts.emplace_back(error.what());
  }
  // The daemon may have gone in the meantime while QEMU runs on: bring one back and ask again.
  auto& daemon = vm_host().daemon;
  auto again = std::make_unique<LibvirtDaemon>(system_libvirt, run_.spec.may_change_host);
  if (!daemon || again->started_by_us()) { daemon = std::move(again); }
  vm_host().hypervisor->destroy_domain(name);
}

void MadeNodes::remove_node(Node& node, Removal& removal) {
  if (is_vm()) {
    remove_domain(node.facts.name, removal);
    // A daemon that was started again knows no domain that was to end with the connection to the last one.
    if (const auto left = handle_of_qemu(node.process, node.facts.name)) { kill_qemu(left, node.facts.name); }
    if (vm_nic(node) == NicKind::tap) { delete_link(node.nic); }
  } else if (node.slice) {
    node.slice->destroy();
  } else {
    remove_rest_of_slice(slice_of(node));  // of one that did not start
  }
  node.slice.reset();
}

void MadeNodes::remove_network(const Network& network) {
  if (network.of_libvirt) {
    vm_host().hypervisor->destroy_network(network.name);
  } else {
    destroy_bridge(network.name);
  }
}

void MadeNodes::strike_off(const std::string& name, std::int64_t journal_id, Removal& removal) {
  try {
    run_.journal.undone(journal_id);
  } catch (const std::exception& error) { removal.left.push_back(name + ", which is gone: " + error.what()); }
}

Removal MadeNodes::remove() {
  was_removed_ = true;
  Removal removal;
  {
    const std::scoped_lock lock(waiting_mutex_);
    waiting_.clear();
  }
  bool may_use_files = false;  // a VM that could not be removed still writes to its disk
  for (; !made_nodes_.empty(); made_nodes_.pop_back()) {
    const auto [node, journal_id] = made_nodes_.back();
    try {
      remove_node(*node, removal);
      strike_off(node->facts.name, journal_id, removal);
    } catch (const std::exception& error) {
      removal.left.push_back(node->facts.name + ": " + error.what());
      may_use_files = true;
    }
  }
  for (; !may_use_files && !used_functions_.empty(); used_functions_.pop_back()) {
    try {
      undo_and_forget(run_.journal, used_functions_.back());
    } catch (const std::exception& error) {
      removal.left.push_back(used_functions_.back().name + ": " + error.what());
    }
  }
  for (; !made_groups_.empty(); made_groups_.pop_back()) {
    const auto& [group, journal_id] = made_groups_.back();
    try {
      remove_resctrl_group(std::filesystem::path(resctrl_mount) / group);
      strike_off(group, journal_id, removal);
    } catch (const std::exception& error) { removal.left.push_back(group + ": " + error.what()); }
  }
  for (; !may_use_files && !made_files_.empty(); made_files_.pop_back()) {
    const auto& [file, journal_id] = made_files_.back();
    std::error_code ignored;
    std::filesystem::remove_all(file, ignored);
    strike_off(file, journal_id, removal);
  }
  {
    const std::scoped_lock lock(run_.plugged_mutex);
    for (const auto& address : plugged_) { run_.plugged.erase(address); }
    plugged_.clear();
  }
  for (; !made_vxlans_.empty(); made_vxlans_.pop_back()) {
    const auto& [vxlan, journal_id] = made_vxlans_.back();
    try {
      delete_link(vxlan);
      strike_off(vxlan, journal_id, removal);
    } catch (const std::exception& error) { removal.left.push_back(vxlan + ": " + error.what()); }
  }
  for (; !made_networks_.empty(); made_networks_.pop_back()) {
    const auto& [network, journal_id] = made_networks_.back();
    try {
      remove_network(network);
      strike_off(network.name, journal_id, removal);
    } catch (const std::exception& error) { removal.left.push_back(network.name + ": " + error.what()); }
  }
  return removal;
}

std::string HostNames::domain(NodeId number) const {
  return fmt::format("virtrain-{}-{}", experiment, number);
}

std::string HostNames::network(std::size_t tenant) const {
  return fmt::format("virtrain-{}-t{}", experiment, tenant);
}

std::string HostNames::bridge(std::size_t tenant) const {
  return fmt::format("vtb{}{}", tag, tenant);
}

std::string HostNames::tap(NodeId number) const {
  return fmt::format("vtt{}{}", tag, number);
}

std::string HostNames::slice(NodeId number) const {
  return fmt::format("vt-{}-{}", tag, number);
}

std::string HostNames::slice_nic(NodeId number) const {
  return fmt::format("vtv{}{}", tag, number);
}

std::string HostNames::slice_bridge(std::size_t tenant) const {
  return fmt::format("vtb{}s{}", tag, tenant);
}

std::string HostNames::vxlan(std::size_t tenant) const {
  return fmt::format("vtx{}{}", tag, tenant);
}

std::string HostNames::slice_vxlan(std::size_t tenant) const {
  return fmt::format("vtx{}s{}", tag, tenant);
}

namespace {

/// The devices as their guest is to see them. A tree that hides where they sit has a port for each.
void arrange(std::vector<PlacedDevice>& devices, PciTopology topology) {
  if (topology == PciTopology::host) { return; }
  for (auto& device : devices) {
    if (topology == PciTopology::flat) { device.numa_node = -1; }
    device.root_complex = fmt::format("of NUMA node {}", device.numa_node);
    device.bridges = {device.grant.address};
  }
}

constexpr const char* bounce_words = " swiotlb=force";
/// An emulated guest that others do not let run sees no tick for so long that its kernel takes the timer for
/// broken and panics. Under KVM it does not look (arch/x86/kernel/kvm.c).
constexpr const char* emulated_words = " no_timer_check";

}  // namespace

DomainSpec domain_spec(const NodeGroupSpec& group, std::size_t tenant, std::size_t index,
                       const HostNames& names, const VmFacts& facts) {
  const auto& guest = group.guest;
  const auto& node = group.tenants[tenant][index];
  DomainSpec spec;
  spec.name = names.domain(facts.number);
  spec.uuid = facts.uuid;
  spec.mark = {names.experiment, node.hostname};
  spec.vcpus = static_cast<int>(guest.vcpus);
  spec.memory_bytes = node.memory_bytes;
  if (guest.pinning != Pinning::none) {
    spec.vcpu_cores = node.cores;
    const bool apart = guest.emulator_threads == EmulatorThreads::apart && !node.emulator_cores.empty();
    spec.emulator_cores = apart ? node.emulator_cores : node.cores;
  }
  if (guest.pinning == Pinning::numa) { spec.numa_node = node.numa_node; }
  spec.hugepages = guest.hugepages;
  spec.cpu_model = guest.cpu_model;
  spec.threads_per_core = guest.smt == Smt::siblings ? 2 : 1;  // x86 has no more
  spec.memory_encryption = guest.memory_encryption;
  spec.virtualization = facts.virtualization;
  spec.kernel = facts.kernel;
  spec.initrd = facts.initrd;
  spec.root_image = facts.root_image;
  spec.boot_disk = facts.boot_disk;
  spec.scratch = facts.scratch;
  spec.payload = facts.payload;
  spec.planted_channel = node.planted_channel;
  spec.domain_template = guest.domain_template;
  if (!spec.boot_disk) {
    auto boot = guest_boot(group.tenants[tenant], node, facts.nic.has_value());
    if (facts.nic == NicKind::function) { boot.mtu = guest.network.mtu; }
    spec.kernel_command_line = guest_command_line(boot);
    if (!uses_kvm(facts.virtualization)) { spec.kernel_command_line += emulated_words; }
    if (guest.memory_encryption == MemoryEncryption::bounce) { spec.kernel_command_line += bounce_words; }
  }
  spec.in_session = facts.in_session;
  if (facts.nic && *facts.nic != NicKind::function) {
    const auto source = *facts.nic == NicKind::network  ? names.network(tenant)
                        : *facts.nic == NicKind::bridge ? group.network.name
                                                        : "";
    spec.nics.push_back(
        {*facts.nic, source, node.mac, names.tap(facts.number), facts.multicast_port, guest.network});
  }
  spec.console_log = facts.console_log;
  if (guest.pinning != Pinning::none) { spec.numa_cells = numa_cells(node); }
  spec.memory_by_cell = guest.pinning == Pinning::numa && spec.numa_cells.size() > 1;
  if (uses_kvm(facts.virtualization)) { spec.cpu_traits = facts.cpu_traits; }
  spec.clique = node.clique;
  spec.limits = node.limits;
  spec.devices = devices_of(node);
  const auto grants = grants_of(node, names.experiment);
  for (std::size_t i = 0; i < grants.size(); ++i) { spec.devices[i].grant = grants[i]; }
  arrange(spec.devices, guest.topology);
  return spec;
}

std::string planned_xml(const NodeGroupSpec& group, std::size_t tenant, std::size_t node, NodeId number,
                        bool emulated, const CpuTraits& cpu_traits) {
  const HostNames names{"EXPERIMENT", "TAG"};
  const std::string images = "/var/cache/virtrain/images/", image = images + "IMAGE/";
  const std::string files = "/var/lib/virtrain/logs/EXPERIMENT/" + names.domain(number);
  VmFacts facts;
  facts.number = number;
  facts.kernel = image + "kernel";
  facts.initrd = image + "initrd";
  facts.root_image = image + "root";
  facts.console_log = files + ".console";
  if (!group.guest.is_mirror()) {
    facts.boot_disk = BootDisk{files + ".qcow2", group.guest.image, "FORMAT", files + "-seed.iso"};
  }
  if (group.network.kind == HostNetworkKind::bridge) { facts.nic = NicKind::bridge; }
  if (group.network.kind == HostNetworkKind::vf) { facts.nic = NicKind::function; }
  if (group.tenants[tenant][node].scratch_bytes > 0) { facts.scratch = ScratchDisk{files + ".disk"}; }
  if (const auto& payload = group.tenants[tenant][node].payload; !payload.empty()) {
    facts.payload = images + payload.substr(0, length_of_image_hash) + "/disk";
  }
  facts.virtualization = emulated ? Virtualization::tcg : Virtualization::kvm;
  facts.cpu_traits = cpu_traits;
  return domain_xml(domain_spec(group, tenant, node, names, facts));
}

}  // namespace virtrain::vmctl
