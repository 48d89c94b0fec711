#include "tests/support/fake_host.h"

#include <fmt/format.h>

#include "common/files/file_hash.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "vmctl/host/judge.h"

namespace virtrain::test {
namespace {

using vmctl::NodeFacts;
using vmctl::NodeGroupId;
using vmctl::NodeId;

constexpr std::uint64_t gib = 1ULL << 30;

/// Tells hosts apart; of no name 0.
std::uint32_t digest_of(const std::string& name) {
  std::uint32_t digest = 0;
  for (const char c : name) { digest = digest * 31 + static_cast<unsigned char>(c); }
  return digest;
}

}  // namespace

FakeHost::FakeHost(std::filesystem::path folder, std::filesystem::path agent,
                   std::map<std::string, std::filesystem::path> programs)
    : folder_(std::move(folder)), agent_(std::move(agent)), programs_(std::move(programs)) {}
FakeHost::~FakeHost() = default;

// --- for tests

void FakeHost::plant_fault(const std::string& method, Fault fault, int nth) {
  faults_.insert_or_assign({method, nth}, std::move(fault));
}

void FakeHost::plant_in_stream(NodeId node, const std::string& type, StreamFault fault, int nth) {
  stream_faults_.insert({node, {type, fault, nth}});
}

void FakeHost::let_wait(NodeId node, std::chrono::nanoseconds time) {
  const std::scoped_lock lock(mutex_);
  waiting_[node] = time;
}

int FakeHost::calls(const std::string& method) const {
  const std::scoped_lock lock(mutex_);
  const auto found = calls_.find(method);
  return found == calls_.end() ? 0 : found->second;
}

std::set<std::string> FakeHost::left() const {
  const std::scoped_lock lock(mutex_);
  return made_;
}

std::optional<bool> FakeHost::ended() const {
  return ended_;
}

vmctl::Inventory FakeHost::small_inventory() {
  vmctl::Inventory inventory;
  inventory.hostname = "fake";
  inventory.memory_bytes = inventory.available_memory_bytes = 64 * gib;
  inventory.numa_nodes.push_back({0, 64 * gib, 0, 0});
  for (int core = 0; core < 4; ++core) { inventory.cores.push_back({core, 0}); }
  inventory.cpu_flags = {"vmx"};
  inventory.has_kvm_device = true;
  vmctl::HostDevice device;
  device.function.address = "0000:65:00.0";
  device.function.iommu_group = 1;
  device.function.iommu_group_members = {device.function.address};
  device.device_class = vmctl::DeviceClass::other;
  device.mechanism = vmctl::Mechanism::passthrough;
  inventory.other_devices.push_back(std::move(device));
  return inventory;
}

namespace {

/// Whoever is to be refused what a run has not acquired asks a LocalHost.
std::vector<std::string> all_resources() {
  return {"core:0", "core:1", "core:2", "core:3", "device:0000:65:00.0"};
}

}  // namespace

void FakeHost::enter(const std::string& method) {
  std::unique_lock lock(mutex_);
  const int nth = ++calls_[method];
  auto found = faults_.find({method, nth});
  if (found == faults_.end()) { found = faults_.find({method, 0}); }
  if (found == faults_.end()) { return; }
  const auto fault = found->second;
  if (fault.meanwhile) {
    lock.unlock();
    fault.meanwhile();
    lock.lock();
  }
  const auto end = std::chrono::steady_clock::now() + fault.delay;
  while (std::chrono::steady_clock::now() < end) { changed_.wait_until(lock, end); }
  if (fault.until_cancelled) {
    changed_.wait(lock, [this] { return cancelled_; });
    throw Error(method, ErrorCode::interrupted, "cancelled");
  }
  if (fault.error) { throw *fault.error; }
}

void FakeHost::note(const std::string& made) {
  const std::scoped_lock lock(mutex_);
  made_.insert(made);
}

void FakeHost::strike_off(const std::string& made) {
  const std::scoped_lock lock(mutex_);
  made_.erase(made);
}

// --- what is there

vmctl::Inventory FakeHost::inventory(bool) {
  enter("inventory");
  return small_inventory();
}

std::map<std::string, std::string> FakeHost::fingerprint() {
  enter("fingerprint");
  return own_facts_;
}

vmctl::DeviceListing FakeHost::devices() {
  enter("devices");
  return {};
}

std::vector<int> FakeHost::numa_nodes_of(const std::vector<int>& cores) {
  enter("numa_nodes_of");
  return std::vector<int>(cores.size(), 0);
}

std::string FakeHost::planned_xml(const vmctl::NodeGroupSpec&, std::size_t, std::size_t, NodeId, bool) {
  enter("planned_xml");
  return "<domain/>";
}

std::string FakeHost::nccl_topology_of(const std::string&) {
  enter("nccl_topology_of");
  return "";
}

std::string FakeHost::domain_xml_of(const std::string& domain) {
  enter("domain_xml_of");
  throw Error("read the XML of " + domain, ErrorCode::not_found, "there is no such domain");
}

std::filesystem::path FakeHost::log_root() {
  return folder_;
}

void FakeHost::record(const std::filesystem::path&) {
  enter("record");
}

// --- checks

std::vector<Finding> FakeHost::examine(vmctl::HostMode) {
  enter("examine");
  return {};
}

std::vector<CheckDescription> FakeHost::checks() {
  enter("checks");
  return {};
}

std::vector<Finding> FakeHost::examine_devices(const std::optional<std::vector<vmctl::DeviceDemand>>&) {
  enter("examine_devices");
  return {};
}

vmctl::Privileges FakeHost::privileges() {
  enter("privileges");
  return {"", "", true};
}

std::string FakeHost::lacks_user_namespaces() {
  enter("lacks_user_namespaces");
  return "";
}

std::string FakeHost::lacks_system_libvirt() {
  enter("lacks_system_libvirt");
  return "";
}

std::string FakeHost::closed_to_qemu() {
  enter("closed_to_qemu");
  return "";
}

std::vector<std::string> FakeHost::lacks_limits(vmctl::NodeKind, const vmctl::NodeLimits&) {
  enter("lacks_limits");
  return {};
}

void FakeHost::check_guest(const vmctl::GuestSpec&) {
  enter("check_guest");
}

vmctl::CudaHost FakeHost::look_at_cuda(const std::string&) {
  enter("look_at_cuda");
  return {};
}

bool FakeHost::has_image(const vmctl::ImageSpec&, const std::vector<std::string>&) {
  enter("has_image");
  return calls("make_image") > 0;
}

// --- a run

std::filesystem::path FakeHost::begin(const vmctl::RunSpec& run) {
  enter("begin");
  ended_.reset();
  cancelled_ = false;
  run_ = run;
  note("run");
  return folder_;
}

void FakeHost::acquire(const std::vector<std::string>& resources) {
  vmctl::judge_resources(small_inventory(), resources);
  enter("acquire");
  note("resources");
}

void FakeHost::end(bool stored) {
  enter("end");
  ended_ = stored;
  strike_off("resources");
  if (stored) { strike_off("run"); }
}

std::string FakeHost::take_payload(const std::string& path) {
  vmctl::judge_path("payload", path);
  enter("take_payload");
  return *payloads_.insert(own_payload_.empty() ? sha256_of_file(path) : own_payload_).first;
}

vmctl::ImageFacts FakeHost::make_image(const vmctl::ImageSpec& spec) {
  vmctl::judge_image(spec);
  enter("make_image");
  return {"0123", spec.image, "6.1.0", true, virtualization_, ""};
}

void FakeHost::cancel() {
  const std::scoped_lock lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

void FakeHost::keep_services_away(const std::vector<vmctl::DeviceGrant>&) {
  enter("keep_services_away");
  note("services");
}

std::size_t FakeHost::lend(const std::vector<vmctl::DeviceGrant>& grants, const vmctl::CardSettings&) {
  vmctl::judge_lending(small_inventory(), all_resources(), grants);
  enter("lend");
  for (const auto& grant : grants) { note("device " + grant.address); }
  return grants.size();
}

void FakeHost::set(const std::vector<vmctl::DeviceGrant>&, const vmctl::DeviceSettings&) {
  enter("set");
}

std::vector<std::string> FakeHost::give_back() {
  std::vector<std::string> failures;
  try {
    enter("give_back");
  } catch (const Error& error) { failures.emplace_back(error.what()); }
  if (failures.empty()) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(made_, [](const auto& name) { return name.starts_with("device "); });
  }
  return failures;
}

std::vector<std::string> FakeHost::end_lending() {
  auto failures = give_back();
  try {
    enter("end_lending");
  } catch (const Error& error) { failures.emplace_back(error.what()); }
  strike_off("services");
  return failures;
}

/// Its jobs run in this machine's files, and PAYLOAD says in which folder they would.
void FakeHost::enter_by_stand_in(NodeFacts& facts) {
  const auto program = folder_ / "virtrain-payload";
  write_file_atomically(program, "#!/bin/sh\nPAYLOAD=$1\nexport PAYLOAD\nshift\nexec \"$@\"\n", 0755);
  facts.payload_folder = facts.temporary_folder + "/payload";
  facts.programs["virtrain-payload"] = program.string();
}

vmctl::NodeGroup FakeHost::plan_nodes(const vmctl::NodeGroupSpec& spec) {
  vmctl::judge_nodes(small_inventory(), all_resources(), spec, run_);
  enter("plan_nodes");
  for (const auto& tenant : spec.tenants) {
    for (const auto& node : tenant) {
      if (node.payload.empty() || payloads_.contains(node.payload)) { continue; }
      throw Error("plan nodes", ErrorCode::protocol, "the run has taken no payload " + node.payload);
    }
  }
  vmctl::NodeGroup group{next_node_, {}};
  const bool in_vms = spec.kind == vmctl::NodeKind::vm;
  for (std::size_t t = 0; t < spec.tenants.size(); ++t) {
    const bool is_shared = spec.kind == vmctl::NodeKind::shared_slice;
    bool is_first = true;
    for (std::size_t n = 0; n < spec.tenants[t].size(); ++n) {
      const auto& planned = spec.tenants[t][n];
      if (planned.host != run_.host || (is_shared && !is_first)) { continue; }
      is_first = false;
      NodeFacts facts;
      facts.id = next_node_++;
      facts.tenant = t;
      facts.placed = n;
      facts.has_own_kernel = in_vms;
      facts.kind = in_vms ? "vm" : "slice";
      facts.name = fmt::format("{}-{}", facts.kind, facts.id);
      facts.starting = "start " + facts.name;
      if (in_vms) {
        facts.uuid = fmt::format("{:08x}-0000-4000-8000-{:012}", digest_of(run_.host), facts.id);
      }
      facts.cores = planned.cores;
      facts.memory_bytes = planned.memory_bytes;
      facts.numa_node = planned.numa_node;
      facts.log = folder_ / (facts.name + ".log");
      facts.cache_home = (folder_ / (facts.name + ".cache")).string();
      facts.temporary_folder = folder_.string();
      facts.interface = is_shared ? run_.network.name : "eth0";
      facts.address = is_shared ? "127.0.0.1" : split(planned.address, '/')[0];
      for (const auto& [name, program] : programs_) { facts.programs[name] = program.string(); }
      if (!planned.payload.empty()) { enter_by_stand_in(facts); }
      hostnames_[facts.id] = planned.hostname;
      facts_[facts.id] = facts;
      group.nodes.push_back(std::move(facts));
    }
  }
  groups_[group.id] = group.nodes;
  return group;
}

void FakeHost::make_networks(NodeGroupId group) {
  note(fmt::format("network {}", group));
  enter("make_networks");
}

vmctl::NodeStream FakeHost::start(NodeId node) {
  note(fmt::format("node {}", node));
  enter("start");
  std::vector<StreamFaultAt> faults;
  const auto [first, end] = stream_faults_.equal_range(node);
  for (auto fault = first; fault != end; ++fault) { faults.push_back(fault->second); }
  const auto started_ns = monotonic_ns();
  auto& made = nodes_[node] =
      std::make_unique<FakeNode>(agent_, facts_.at(node), hostnames_.at(node), std::move(faults));
  return {made->take_stream(), started_ns, facts_.at(node).has_own_kernel ? "<domain/>" : ""};
}

vmctl::NodeCounters FakeHost::counters(NodeId) {
  enter("counters");
  return {};
}

vmctl::LastWords FakeHost::last_words(NodeId node) {
  enter("last_words");
  constexpr std::size_t most_bytes = 3000;
  return {printable(trim(read_tail(facts_.at(node).log, most_bytes).value_or(""))), ""};
}

void FakeHost::kill(NodeId node) {
  enter("kill");
  nodes_.at(node)->kill();
}

void FakeHost::await_end(NodeId) {
  enter("await_end");
}

vmctl::GuestTopology FakeHost::check_topology(NodeId, const std::vector<vmctl::PciFunction>&,
                                              const std::string&) {
  enter("check_topology");
  return {};
}

vmctl::Removal FakeHost::remove(NodeGroupId group) {
  try {
    enter("remove");
  } catch (const Error& error) { return {{error.what()}, {}}; }
  for (const auto& facts : groups_.at(group)) {
    nodes_.erase(facts.id);
    strike_off(fmt::format("node {}", facts.id));
  }
  strike_off(fmt::format("network {}", group));
  return {};
}

void FakeHost::watch_devices(const std::vector<std::string>&) {
  enter("watch_devices");
}

vmctl::DeviceEvidence FakeHost::watched() {
  enter("watched");
  return {};
}

vmctl::HostCounters FakeHost::look() {
  enter("look");
  const std::scoped_lock lock(mutex_);
  return {waiting_};
}

// --- probes of security, and what killed runs have left

std::vector<std::filesystem::path> FakeHost::plant(const Canary&) {
  enter("plant");
  note("planted");
  return {};
}

void FakeHost::remove_planted() {
  enter("remove_planted");
  strike_off("planted");
}

std::uint64_t FakeHost::plant_in_memory(const Canary&) {
  enter("plant_in_memory");
  return 0;
}

SearchReport FakeHost::search_leftovers(const std::vector<Canary>&, const Canary&) {
  enter("search_leftovers");
  return {};
}

vmctl::ModeReport FakeHost::check_modes() {
  enter("check_modes");
  return {};
}

vmctl::Leftovers FakeHost::leftovers(const std::string&, const std::string&) {
  enter("leftovers");
  return {};
}

vmctl::Cleaned FakeHost::clean() {
  enter("clean");
  return {};
}

void FakeHost::forget(const std::vector<std::string>&) {
  enter("forget");
}

vmctl::HostAddresses FakeHost::addresses() {
  enter("addresses");
  return {};
}

vmctl::HostNetworkFacts FakeHost::look_at_network(const vmctl::HostNetwork& network) {
  enter("look_at_network");
  return {network.kind == vmctl::HostNetworkKind::vxlan ? "192.0.2.1" : "", 1500, "fake", "1.0", "1000 Mb/s"};
}

bool FakeHost::lift_quarantine(const std::string&) {
  enter("lift_quarantine");
  return false;
}

}  // namespace virtrain::test
