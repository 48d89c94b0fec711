#include "harness/trial/node_set.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <random>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "common/time.h"
#include "common/units.h"
#include "vmctl/hypervisor/qemu_log.h"
#include "vmctl/hypervisor/qemu_threads.h"
#include "vmctl/process/signs_of_life.h"
#include "vmctl/slice/net_devices.h"

namespace virtrain::harness {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds slice_agent_deadline{10'000};
constexpr std::size_t console_tail_bytes = 3000;
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

/// What a VM of another user writes to, made by us in a folder that stays ours.
void give_written_files(const vmctl::DomainSpec& spec, uid_t user) {
  std::vector<std::string> files{spec.console_log};
  if (spec.boot_disk) { files.insert(files.end(), {spec.boot_disk->overlay, spec.boot_disk->seed}); }
  for (const auto& file : files) {
    const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd || ::fchown(fd.get(), user, user) != 0) {
      throw errno_error("give " + file + " to QEMU's user", errno);
    }
  }
}

/// Cores, memory and NUMA node of everything that this node stands for.
void take_room(LiveNode& node, const std::vector<NodePlacement>& placed) {
  std::set<int> cores;
  node.numa_node = placed[0].numa_node;
  for (const auto& one : placed) {
    cores.insert(one.cores.begin(), one.cores.end());
    node.memory_bytes += one.memory_bytes;
    if (one.numa_node != node.numa_node) { node.numa_node.reset(); }
  }
  node.cores.assign(cores.begin(), cores.end());
}

}  // namespace

NodeSet::NodeSet(RunContext& context, const Placement& placement, std::string arm)
    : context_(context),
      placement_(placement),
      arm_(std::move(arm)),
      names_{context.experiment, context.tag} {
  plan_nodes();
}

vmctl::Virtualization NodeSet::virtualization() const {
  return is_vm() && context_.vm_host ? context_.vm_host->virtualization : vmctl::Virtualization::none;
}

NodeSet::NetworkRecord NodeSet::plan_network(std::size_t tenant) const {
  if (is_shared()) { return {}; }
  if (!is_vm()) { return {names_.slice_bridge(tenant), names_.slice_bridge(tenant)}; }
  switch (context_.mode) {
    case vmctl::HostMode::system:
      return {names_.network(tenant), names_.bridge(tenant), true};
    case vmctl::HostMode::namespaces:
      return {names_.bridge(tenant), names_.bridge(tenant)};
    case vmctl::HostMode::session:
      break;
  }
  // A lone VM has nobody to talk to, and the group is open to whoever is on this host.
  const bool alone = placement_.tenants[tenant].nodes.size() == 1;
  return {"", "", false, alone ? 0 : random_port()};
}

std::optional<vmctl::NicKind> NodeSet::vm_nic(const LiveNode& node) const {
  const auto& network = networks_[node.tenant];
  if (!network.connects()) { return std::nullopt; }
  if (network.multicast_port != 0) { return vmctl::NicKind::multicast; }
  return network.of_libvirt ? vmctl::NicKind::network : vmctl::NicKind::tap;
}

std::string NodeSet::plan_nic(const LiveNode& node) const {
  if (networks_[node.tenant].name.empty()) { return {}; }
  return is_vm() ? names_.tap(node.number) : names_.slice_nic(node.number);
}

std::string NodeSet::network_medium(const LiveNode& node) const {
  return networks_[node.tenant].multicast_port != 0 ? "shared_medium" : "";
}

void NodeSet::plan_nodes() {
  for (std::size_t t = 0; t < placement_.tenants.size(); ++t) {
    networks_.push_back(plan_network(t));
    for (const auto& placed : placement_.tenants[t].nodes) {
      LiveNode node;
      node.number = context_.next_node_number++;
      node.tenant = t;
      node.placement = &placed;
      node.name = is_vm() ? names_.domain(node.number) : names_.slice(node.number);
      node.nic = plan_nic(node);
      node.console_log = context_.log_dir / (node.name + (is_vm() ? ".console" : ".log"));
      if (is_vm()) { node.uuid = random_uuid(); }
      take_room(node, is_shared() ? placement_.tenants[t].nodes : std::vector{placed});
      nodes_.push_back(std::move(node));
      if (is_shared()) {
        break;  // one slice stands for all of the tenant's nodes
      }
    }
  }
}

std::string NodeSet::cache_home(const LiveNode& node) const {
  // A slice sees the host's files, the shared arm's even /tmp; its log's folder is this experiment's alone.
  return is_vm() ? guest_cache_home : (context_.log_dir / (node.name + ".cache")).string();
}

// --- making

asio::awaitable<void> NodeSet::define() {
  for (const auto& network : networks_) {
    if (network.name.empty()) { continue; }
    const auto kind = network.of_libvirt ? vmctl::EffectKind::network : vmctl::EffectKind::bridge;
    const std::int64_t id = context_.journal.intent(context_.owner, kind, network.name);
    made_networks_.emplace_back(network, id);
    const auto create = [this, &network] {
      if (network.of_libvirt) {
        context_.vm_host->hypervisor->create_network(
            {network.name, network.bridge, "", {context_.experiment, ""}});
      } else {
        vmctl::create_bridge(network.bridge, {}, context_.experiment);
      }
    };
    co_await offload(context_.pool, create);
    context_.journal.done(id);
  }
}

asio::awaitable<void> NodeSet::boot() {
  for (auto& node : nodes_) {
    if (is_vm()) {
      co_await start_vm(node);
    } else {
      co_await start_slice(node);
    }
  }
}

vmctl::DomainSpec NodeSet::spec_of(const LiveNode& node) const {
  const auto& host = *context_.vm_host;
  VmFacts facts;
  facts.number = node.number;
  facts.uuid = node.uuid;
  facts.kernel = host.image.kernel;
  facts.initrd = host.image.initrd;
  facts.root_image = host.image.root;
  facts.console_log = node.console_log;
  facts.virtualization = host.virtualization;
  facts.boot_disk = boot_disk_of(node);
  facts.hide_arch_capabilities = host.hide_arch_capabilities;
  facts.in_session = context_.mode != vmctl::HostMode::system;
  facts.nic = vm_nic(node);
  facts.multicast_port = networks_[node.tenant].multicast_port;
  return domain_spec(context_.scenario.guest, placement_.tenants[node.tenant], node.tenant, *node.placement,
                     names_, facts);
}

std::optional<vmctl::BootDisk> NodeSet::boot_disk_of(const LiveNode& node) const {
  const auto& image = context_.vm_host->cloud_image;
  if (!image) { return std::nullopt; }
  const auto disk = (context_.log_dir / node.name).string();
  return vmctl::BootDisk{disk + ".qcow2", image->file, image->format, disk + "-seed.iso"};
}

asio::awaitable<void> NodeSet::make_boot_disk(const LiveNode& node) {
  const auto disk = boot_disk_of(node);
  if (!disk) { co_return; }
  for (const auto& file : {disk->overlay, disk->seed}) {
    made_files_.emplace_back(file, context_.journal.intent(context_.owner, vmctl::EffectKind::file, file));
  }
  const auto& tenant = placement_.tenants[node.tenant];
  const vmctl::CloudSeed seed{guest_boot(tenant, *node.placement, vm_nic(node).has_value()),
                              node.placement->mac};
  const auto make = [&disk, &seed, &node, &image = *context_.vm_host->cloud_image] {
    vmctl::make_overlay(image, disk->overlay);
    vmctl::write_seed(seed, node.uuid, disk->seed);
  };
  co_await offload(context_.pool, make);
}

asio::awaitable<void> NodeSet::start_vm(LiveNode& node) {
  co_await make_boot_disk(node);
  const auto spec = spec_of(node);
  node.domain_xml = vmctl::domain_xml(spec);
  auto* hypervisor = context_.vm_host->hypervisor.get();
  const std::int64_t id = context_.journal.intent(context_.owner, vmctl::EffectKind::domain, node.name);
  made_nodes_.emplace_back(static_cast<std::size_t>(&node - nodes_.data()), id);
  node.started_ns = monotonic_ns();
  const auto user =
      context_.vm_host->private_daemon ? context_.vm_host->private_daemon->other_user() : std::nullopt;
  const auto create = [this, hypervisor, &node, spec, user] {
    if (vm_nic(node) == vmctl::NicKind::tap) {
      vmctl::create_tap(node.nic, networks_[node.tenant].bridge, user.value_or(::geteuid()),
                        context_.experiment);
    }
    if (user) { give_written_files(spec, *user); }
    hypervisor->create_domain(spec);
  };
  co_await offload(context_.pool, create);
  context_.journal.done(id);
  const auto open = [hypervisor, name = node.name] { return hypervisor->open_channel(name); };
  UniqueFd channel = co_await offload(context_.pool, open);
  node.agent = std::make_shared<AgentClient>(context_.io, node.placement->hostname, std::move(channel));
  const auto qemu = vmctl::qemu_pid(node.name);
  if (qemu) {
    node.agent->waiting_time = [pid = *qemu] { return vmctl::waiting_time_of(pid); };
  }
}

vmctl::SliceSpec NodeSet::slice_spec(const LiveNode& node) const {
  vmctl::SliceSpec spec;
  spec.name = node.name;
  spec.experiment = context_.experiment;
  spec.hostname = node.placement->hostname;
  spec.isolated = !is_shared();
  const auto& peers = placement_.tenants[node.tenant].nodes;
  for (const auto& peer : peers) { spec.hosts.push_back({peer.hostname, split(peer.address, '/')[0]}); }
  spec.cores = node.cores;
  spec.memory_bytes = node.memory_bytes;
  if (spec.isolated) { spec.network = {networks_[node.tenant].bridge, node.nic, node.placement->address}; }
  spec.argv = {context_.programs.agent};
  for (const auto& [backend, program] : context_.programs.trainers) {
    spec.program_folders.push_back(program.parent_path());
  }
  const char* path = std::getenv("PATH");
  spec.environment = {"PATH=" + context_.programs.rsh.parent_path().string() + ":" +
                      (path != nullptr ? path : "/usr/bin:/bin")};
  spec.log = node.console_log;
  return spec;
}

asio::awaitable<void> NodeSet::start_slice(LiveNode& node) {
  const auto spec = slice_spec(node);
  const std::int64_t id = context_.journal.intent(context_.owner, vmctl::EffectKind::slice, node.name);
  made_nodes_.emplace_back(static_cast<std::size_t>(&node - nodes_.data()), id);
  node.started_ns = monotonic_ns();
  // Assigned by the call itself, so that a stop in between cannot lose the slice.
  const auto start = [&node, &spec] { node.slice = vmctl::start_slice(spec); };
  co_await offload(context_.pool, start);
  context_.journal.done(id);
  node.agent =
      std::make_shared<AgentClient>(context_.io, node.placement->hostname, node.slice->take_channel());
  const auto agent = node.slice->agent_pid();
  if (agent) {
    node.agent->waiting_time = [pid = *agent] { return vmctl::waiting_time_of(pid); };
  }
}

asio::awaitable<void> NodeSet::reach_agents() {
  for (auto& node : nodes_) {
    const milliseconds deadline =
        is_vm() ? milliseconds(boot_deadline_ns(context_.scenario, *node.placement) / 1'000'000)
                : slice_agent_deadline;
    co_await reach_agent(node, deadline);
  }
}

asio::awaitable<void> NodeSet::reach_agent(LiveNode& node, milliseconds deadline) {
  std::string failure;
  try {
    node.facts = co_await node.agent->handshake(deadline);
    node.agent_ready_seconds = static_cast<double>(monotonic_ns() - node.started_ns) * 1e-9;
    co_return;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) { throw; }
    failure = error.what();
  }
  const std::string tail = console_tail(node);
  throw Error(is_vm() ? "boot " + node.name : "start slice " + node.name, ErrorCode::trial_failed,
              failure + (tail.empty() ? "; its console is empty" : "; its console ends with:\n" + tail) +
                  qemu_words(node));
}

// --- reading

namespace {

asio::awaitable<std::uint64_t> guest_counter(AgentClient& agent, std::string name) {
  const auto text = co_await agent.read_file("/sys/class/net/eth0/statistics/" + name);
  const auto number = parse_integer(trim(text));
  if (!number || *number < 0) {
    throw Error("read the guest's network counters", ErrorCode::protocol, "not a number");
  }
  co_return static_cast<std::uint64_t>(*number);
}

}  // namespace

asio::awaitable<NodeCounters> NodeSet::counters(const LiveNode& node) {
  NodeCounters out;
  if (is_vm()) {
    auto* hypervisor = context_.vm_host->hypervisor.get();
    const auto look = [hypervisor, name = node.name] { return hypervisor->domain_stats(name); };
    out.domain = co_await offload(context_.pool, look);
    for (const auto& nic : out.domain->nics) {
      out.network_rx_bytes += nic.rx_bytes;
      out.network_tx_bytes += nic.tx_bytes;
    }
    if (vm_nic(node) == vmctl::NicKind::multicast) {  // which only the guest itself sees
      out.network_rx_bytes = co_await guest_counter(*node.agent, "rx_bytes");
      out.network_tx_bytes = co_await guest_counter(*node.agent, "tx_bytes");
    }
  } else if (const auto bytes = vmctl::nic_bytes(node.nic)) {
    // The host's end of the pair sends what the slice receives.
    out.network_rx_bytes = bytes->tx;
    out.network_tx_bytes = bytes->rx;
  }
  co_return out;
}

std::string NodeSet::console_tail(const LiveNode& node) {
  return printable(trim(read_tail(node.console_log, console_tail_bytes).value_or("")));
}

std::string NodeSet::qemu_words(const LiveNode& node) const {
  const auto words = is_vm() ? vmctl::read_qemu_last_words(node.name) : "";
  return words.empty() ? "" : "\nQEMU's log ends with:\n" + printable(words);
}

// --- removing

asio::awaitable<void> NodeSet::remove_domain(const std::string& name) {
  auto* hypervisor = context_.vm_host->hypervisor.get();
  const auto destroy = [hypervisor, name] { hypervisor->destroy_domain(name); };
  std::string first_failure;
  try {
    co_await offload(context_.pool, destroy);
    co_return;
  } catch (const Error& error) { first_failure = error.what(); }
  if (context_.mode != vmctl::HostMode::system) {  // whose QEMUs end with this run
    throw Error("remove " + name, ErrorCode::io, first_failure);
  }
  // The daemon may have gone in the meantime while QEMU runs on: bring one back and ask again.
  context_.event(std::nullopt, "tear_down", "libvirt failed, trying again with a fresh daemon",
                 {{"reason", first_failure}});
  auto& daemon = context_.vm_host->daemon;
  const auto restart = [&daemon, may_start = context_.may_change_host] {
    auto again = std::make_unique<vmctl::LibvirtDaemon>(vmctl::system_libvirt, may_start);
    if (!daemon || again->started_by_us()) { daemon = std::move(again); }
  };
  co_await offload(context_.pool, restart);
  co_await offload(context_.pool, destroy);
}

asio::awaitable<void> NodeSet::remove_node(LiveNode& node) {
  if (node.agent) { node.agent->close(); }
  node.agent.reset();
  const auto destroy_slice = [&node] { node.slice->destroy(); };
  const auto remove_tap = [&node] { vmctl::delete_link(node.nic); };
  if (is_vm()) {
    co_await remove_domain(node.name);
    if (vm_nic(node) == vmctl::NicKind::tap) { co_await offload(context_.pool, remove_tap); }
  } else if (node.slice) {
    co_await offload(context_.pool, destroy_slice);
  }
  node.slice.reset();
}

asio::awaitable<void> NodeSet::remove_network(const NetworkRecord& network) {
  const auto remove = [this, &network] {
    if (network.of_libvirt) {
      context_.vm_host->hypervisor->destroy_network(network.name);
    } else {
      vmctl::destroy_bridge(network.name);
    }
  };
  co_await offload(context_.pool, remove);
}

void NodeSet::strike_off(const std::string& name, std::int64_t journal_id, std::vector<std::string>& left) {
  try {
    context_.journal.undone(journal_id);
  } catch (const std::exception& error) { left.push_back(name + ", which is gone: " + error.what()); }
}

asio::awaitable<std::vector<std::string>> NodeSet::tear_down() {
  std::vector<std::string> left;
  bool may_use_files = false;  // a VM that could not be removed still writes to its disk
  for (; !made_nodes_.empty(); made_nodes_.pop_back()) {
    const auto [index, journal_id] = made_nodes_.back();
    try {
      co_await remove_node(nodes_[index]);
      strike_off(nodes_[index].name, journal_id, left);
    } catch (const std::exception& error) {
      left.push_back(nodes_[index].name + ": " + error.what());
      may_use_files = true;
    }
  }
  for (; !may_use_files && !made_files_.empty(); made_files_.pop_back()) {
    const auto& [file, journal_id] = made_files_.back();
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
    strike_off(file, journal_id, left);
  }
  for (; !made_networks_.empty(); made_networks_.pop_back()) {
    const auto& [network, journal_id] = made_networks_.back();
    try {
      co_await remove_network(network);
      strike_off(network.name, journal_id, left);
    } catch (const std::exception& error) { left.push_back(network.name + ": " + error.what()); }
  }
  co_return left;
}

}  // namespace virtrain::harness
