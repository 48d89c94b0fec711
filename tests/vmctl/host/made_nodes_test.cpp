// Nodes and networks of a group, and tear-down where things go wrong, with a hypervisor that is none. Bridges
// and NICs are this host's.

#include "vmctl/host/made_nodes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/api/payload.h"
#include "vmctl/host/tenant_network.h"
#include "vmctl/slice/net_devices.h"

namespace virtrain::vmctl {
namespace {

using virtrain::test::Contains;
namespace fs = std::filesystem;

/// Remembers names; its guests never answer.
class FakeHypervisor final : public Hypervisor {
 public:
  std::set<std::string> there;  ///< domains and networks
  std::set<std::string> stuck;  ///< what cannot be destroyed

  HypervisorVersions versions() override { return {}; }
  bool makes_bridges = false;  ///< of networks, as libvirt does
  void create_network(const NetworkSpec& spec) override {
    there.insert(spec.name);
    if (!makes_bridges) { return; }
    bridges_[spec.name] = spec.bridge;
    create_bridge(spec.bridge);
  }
  void destroy_network(const std::string& name) override {
    destroy_domain(name);
    if (const auto bridge = bridges_.find(name); bridge != bridges_.end()) { destroy_bridge(bridge->second); }
  }
  void create_domain(const DomainSpec& spec) override { there.insert(spec.name); }
  UniqueFd open_channel(const std::string&) override {
    auto [ours, guests] = make_socketpair();
    guests_.push_back(std::move(guests));
    return std::move(ours);
  }
  std::string domain_description(const std::string&) override { return {}; }
  void destroy_domain(const std::string& name) override {
    if (stuck.contains(name)) { throw Error("destroy " + name, ErrorCode::timeout, "it is stuck"); }
    there.erase(name);
  }
  DomainStats domain_stats(const std::string&) override { return {}; }
  std::vector<DomainInfo> domains() override { return {}; }
  std::vector<NetworkInfo> networks() override { return {}; }
  std::vector<NodeDevice> pci_devices() override { return {}; }

 private:
  std::vector<UniqueFd> guests_;
  std::map<std::string, std::string> bridges_;
};

/// Two tenants with a VM each.
NodeGroupSpec two_tenants() {
  NodeGroupSpec group;
  for (const auto* name : {"t1n1", "t2n1"}) {
    NodeSpec node;
    node.hostname = name;
    node.address = "10.77.0.2/16";
    node.mac = "52:54:00:77:00:02";
    node.cores = {0};
    node.memory_bytes = 512U << 20;
    group.tenants.push_back({node});
  }
  return group;
}

/// VMs of an experiment that are up when `harm` comes, and then torn down.
struct TornDown {
  TemporaryFolder folder;
  LeaseJournal journal{folder.path / "leases.db"};
  RunState run{{"20261120t083012-7f3a2b", "", HostMode::system, true, {}},
               journal,
               this_process("20261120t083012-7f3a2b", ""),
               folder.path,
               {"/bin/true", "/bin/true", {}}};
  FakeHypervisor* hypervisor = nullptr;
  std::vector<std::string> left;

  explicit TornDown(const std::function<void(TornDown&)>& harm) {
    auto fake = std::make_unique<FakeHypervisor>();
    hypervisor = fake.get();
    run.vm_host.emplace().hypervisor = std::move(fake);
    MadeNodes nodes(run, two_tenants());
    nodes.make_networks();
    for (const auto& node : nodes.facts()) { CHECK(nodes.start(node.id).agent); }
    CHECK(hypervisor->there.size() == 4);
    harm(*this);
    left = nodes.remove().left;
  }
};

/// Nodes whose waiting times are told.
std::set<NodeId> seen_waiting(MadeNodes& nodes) {
  HostCounters counters;
  nodes.add_waiting_times(counters);
  std::set<NodeId> seen;
  for (const auto& [node, time] : counters.waiting) { seen.insert(node); }
  return seen;
}

/// A process that has this among its arguments, as QEMU has its guest's name, and does nothing.
pid_t idle_process(const std::string& argument) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", "read line < /dev/zero; :", argument.c_str(), nullptr);
    ::_exit(127);
  }
  return child;
}

TEST_CASE("a journal that refuses every entry keeps no VM and no network running") {
  const TornDown torn_down([](TornDown& running) {
    run_checked(
        {"sqlite3", (running.folder.path / "leases.db").string(),
         "CREATE TRIGGER disk BEFORE DELETE ON effect BEGIN SELECT RAISE(ABORT, 'disk is full'); END"});
  });
  CHECK(torn_down.hypervisor->there.empty());
  REQUIRE(torn_down.left.size() == 4);
  for (const auto& words : torn_down.left) { CHECK_THAT(words, Contains("disk is full")); }
  CHECK(torn_down.journal.effects().size() == 4);
}

TEST_CASE("the QEMU of one VM is killed, and no other process whose number its pid file has") {
  std::vector<pid_t> killed;
  const TornDown torn_down([&](TornDown& running) {
    MadeNodes nodes(running.run, two_tenants());
    const auto facts = nodes.facts();
    const auto runtime = running.folder.path / "libvirt/qemu/run";
    fs::create_directories(runtime);
    const std::string before =
        std::getenv("XDG_RUNTIME_DIR") == nullptr ? "" : std::getenv("XDG_RUNTIME_DIR");
    ::setenv("XDG_RUNTIME_DIR", running.folder.path.c_str(), 1);
    CHECK_THROWS_AS(nodes.kill(facts[0].id), Error);
    std::vector<pid_t> children;
    for (const auto& guest : {"guest=" + facts[0].name + ",debug-threads=on", std::string("guest=another")}) {
      children.push_back(idle_process(guest));
    }
    std::ofstream(runtime / (facts[0].name + ".pid")) << children[0];
    std::ofstream(runtime / (facts[1].name + ".pid")) << children[1];
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // they are the shell by then
    nodes.kill(facts[0].id);
    CHECK_THROWS_AS(nodes.kill(facts[1].id), Error);
    for (const pid_t child : children) {
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        killed.push_back(child);
      } else {
        ::kill(child, SIGTERM);
        ::waitpid(child, &status, 0);
      }
    }
    CHECK(killed == std::vector<pid_t>{children[0]});
    before.empty() ? ::unsetenv("XDG_RUNTIME_DIR") : ::setenv("XDG_RUNTIME_DIR", before.c_str(), 1);
  });
}

TEST_CASE("a VM that powers itself off is waited for, and not without end") {
  TornDown other([](TornDown&) {});
  MadeNodes nodes(other.run, two_tenants());
  const auto facts = nodes.facts();
  const auto runtime = other.folder.path / "libvirt/qemu/run";
  fs::create_directories(runtime);
  const char* before = std::getenv("XDG_RUNTIME_DIR");
  const std::string was = before == nullptr ? "" : before;
  ::setenv("XDG_RUNTIME_DIR", other.folder.path.c_str(), 1);
  const pid_t qemu = idle_process("guest=" + facts[0].name + ",debug-threads=on");
  std::ofstream(runtime / (facts[0].name + ".pid")) << qemu;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it is the shell by then
  for (const auto& node : facts) { CHECK(nodes.start(node.id).agent); }
  was.empty() ? ::unsetenv("XDG_RUNTIME_DIR") : ::setenv("XDG_RUNTIME_DIR", was.c_str(), 1);
  CHECK(seen_waiting(nodes) == std::set{facts[0].id});  // the other has no process
  CHECK_THROWS_WITH(nodes.await_end(facts[0].id, std::chrono::milliseconds(10)),
                    Contains(facts[0].name + " has shut down: not within 0 s"));
  CHECK_THROWS_WITH(nodes.await_end(facts[1].id), Contains("it has no QEMU on this host"));
  ::kill(qemu, SIGTERM);
  CHECK_NOTHROW(nodes.await_end(facts[0].id));
  ::waitpid(qemu, nullptr, 0);
  CHECK_NOTHROW(nodes.await_end(facts[0].id));  // its number is nobody's now
  CHECK(nodes.remove().left.empty());
  CHECK(seen_waiting(nodes).empty());
}

TEST_CASE("a node's last words are the end of its console, printable and not more of it") {
  TornDown other([](TornDown&) {});
  MadeNodes nodes(other.run, two_tenants());
  const auto facts = nodes.facts();
  CHECK(nodes.last_words(facts[0].id).console.empty());
  fs::create_directories(facts[0].log.parent_path());
  std::ofstream(facts[0].log) << std::string(10'000, 'x') << "\x1b[2Jpanic\n";
  const auto words = nodes.last_words(facts[0].id).console;
  CHECK(words.size() < 3100);
  CHECK(words.ends_with("[2Jpanic"));
  CHECK(words.find('\x1b') == std::string::npos);
  CHECK(nodes.last_words(facts[1].id).console.empty());
}

TEST_CASE("the agent of a slice counts the slice's cores, that of a guest all that it sees") {
  TornDown other([](TornDown&) {});
  auto group = two_tenants();
  CHECK(MadeNodes(other.run, group).facts()[0].counted_cores.empty());
  group.kind = NodeKind::slice;
  CHECK(MadeNodes(other.run, group).facts()[0].counted_cores == "0");
}

TEST_CASE("a slice that shares the host's /tmp has a folder for temporary files that nobody can foresee") {
  TornDown other([](TornDown&) {});
  auto group = two_tenants();
  CHECK(MadeNodes(other.run, group).facts()[0].temporary_folder == "/tmp/virtrain");
  group.kind = NodeKind::shared_slice;
  std::set<std::string> folders;
  for (int i = 0; i < 3; ++i) {
    for (const auto& node : MadeNodes(other.run, group).facts()) {
      CHECK(fs::path(node.temporary_folder).parent_path() != "/tmp");
      CHECK_FALSE(fs::exists(node.temporary_folder));
      folders.insert(fs::path(node.temporary_folder).filename().string().substr(std::strlen("virtrain-vt-")));
    }
  }
  CHECK(folders.size() == 6);
}

TEST_CASE("what cannot be removed is said and stays in the journal, the others go") {
  const std::string stuck = "virtrain-20261120t083012-7f3a2b-2";
  const TornDown torn_down([&](TornDown& running) { running.hypervisor->stuck = {stuck}; });
  CHECK(torn_down.hypervisor->there == std::set{stuck});
  REQUIRE(torn_down.left.size() == 1);
  CHECK_THAT(torn_down.left[0], Contains(stuck) && Contains("it is stuck"));
  REQUIRE(torn_down.journal.effects().size() == 1);
  CHECK(torn_down.journal.effects()[0].name == stuck);
}

TEST_CASE("a disk for loads is an empty file of its own size, journalled, and gone with its VM") {
  TornDown other([](TornDown&) {});
  auto group = two_tenants();
  group.tenants[1][0].scratch_bytes = 8U << 20;
  MadeNodes nodes(other.run, group);
  for (const auto& node : nodes.facts()) {
    CHECK(node.load_file.empty());
    const auto xml = nodes.start(node.id).domain_xml;
    CHECK((xml.find(scratch_serial) != std::string::npos) == (node.tenant == 1));
  }
  const auto file = other.folder.path / (nodes.facts()[1].name + ".disk");
  CHECK(fs::file_size(file) == 8U << 20);
  CHECK_FALSE(fs::exists(other.folder.path / (nodes.facts()[0].name + ".disk")));
  CHECK((fs::status(file).permissions() & fs::perms::others_all) == fs::perms::none);
  const auto effects = other.journal.effects();
  CHECK(std::count_if(effects.begin(), effects.end(),
                      [&](const auto& effect) { return effect.name == file.string(); }) == 1);
  CHECK(nodes.remove().left.empty());
  CHECK_FALSE(fs::exists(file));
  CHECK(other.journal.effects().empty());
}

TEST_CASE("the VM of a job has its payload as a disk, of the copy that the run has taken") {
  TornDown other([](TornDown&) {});
  const std::string digest(64, 'a'), foreign(64, 'b');
  other.run.payloads.insert({digest, {"/images/aaaa/disk", digest, nullptr}});
  auto group = two_tenants();
  group.tenants[1][0].payload = digest;
  MadeNodes nodes(other.run, group);
  for (const auto& node : nodes.facts()) {
    const bool has_one = node.tenant == 1;
    CHECK(node.payload_folder == (has_one ? "/tmp/virtrain/payload" : ""));
    const auto xml = nodes.start(node.id).domain_xml;
    CHECK((xml.find(payload_serial) != std::string::npos) == has_one);
    CHECK((xml.find("<source file=\"/images/aaaa/disk\">") != std::string::npos) == has_one);
    CHECK((xml.find(" vt.payload ") != std::string::npos) == has_one);
  }
  CHECK(nodes.remove().left.empty());
  group.tenants[0][0].payload = foreign;
  CHECK_THROWS_WITH(MadeNodes(other.run, group), Contains("the run has taken no payload " + foreign));
}

TEST_CASE(
    "QEMU's helper threads run apart where there are cores for them, or with the vCPUs, and limits are the "
    "node's") {
  auto group = two_tenants();
  group.tenants[0][0].emulator_cores = {5, 6};
  group.tenants[1][0].limits.cpu_cores = 0.25;
  const auto xml = [&](std::size_t tenant) { return planned_xml(group, tenant, 0, 1, true, {}); };
  CHECK_THAT(xml(0), Contains("<emulatorpin cpuset=\"5-6\" />") && !Contains("quota"));
  CHECK_THAT(xml(1), Contains("<emulatorpin cpuset=\"0\" />"));  // none to spare
  CHECK_THAT(xml(1), Contains("<global_quota>25000</global_quota>"));
  group.guest.emulator_threads = EmulatorThreads::on_vcpus;
  CHECK_THAT(xml(0), Contains("<emulatorpin cpuset=\"0\" />"));
}

// --- several hosts

constexpr const char* test_bridge = "xtbr-made";
constexpr const char* test_nic = "xtnic-made";

/// A bridge and a NIC that are somebody's own.
struct HostsDevices {
  HostsDevices() {
    test::need_root();
    remove();
    run_ip({},
           {fmt::format("link add {} type bridge", test_bridge), fmt::format("link set {} up", test_bridge),
            fmt::format("link add {} mtu 1600 type veth peer name {}2", test_nic, test_nic),
            fmt::format("addr add 198.18.46.1/24 dev {}", test_nic), fmt::format("link set {} up", test_nic),
            fmt::format("link set {}2 up", test_nic)});
  }
  ~HostsDevices() { remove(); }
  static void remove() {
    delete_link(test_bridge);
    delete_link(test_nic);
  }
};

/// Two tenants: the first has its second node on this host, the second one has both on another.
NodeGroupSpec spread_group() {
  auto group = two_tenants();
  for (std::size_t t = 0; t < 2; ++t) {
    auto second = group.tenants[t][0];
    second.hostname = fmt::format("t{}n2", t + 1);
    second.address = "10.77.0.3/16";
    second.mac = "52:54:00:77:00:03";
    second.cores = {1};
    group.tenants[t][0].host = "gpu-a";
    second.host = t == 0 ? "gpu-b" : "gpu-a";
    group.tenants[t].push_back(second);
  }
  return group;
}

/// A run on host gpu-b.
struct OnOneOfTwo : TornDown {
  explicit OnOneOfTwo(const HostNetwork& network) : TornDown([](TornDown&) {}) {
    run.spec.host = "gpu-b";
    run.spec.network = network;
    if (network.kind == HostNetworkKind::vxlan) { run.spec.peers = {"198.18.46.2", "198.18.46.3"}; }
  }
};

TEST_CASE("a host makes its own nodes, which have their place among all of their tenant") {
  const HostsDevices devices;
  OnOneOfTwo other({HostNetworkKind::bridge, test_bridge});
  const auto first = other.run.next_node;
  MadeNodes nodes(other.run, spread_group());
  REQUIRE(nodes.facts().size() == 1);
  const auto facts = nodes.facts()[0];
  CHECK(facts.id == first);
  CHECK(nodes.id() == first);
  CHECK(facts.tenant == 0);
  CHECK(facts.placed == 1);
  CHECK(facts.cores == std::vector{1});
  nodes.make_networks();
  CHECK(other.journal.effects().empty());  // somebody's bridge is there already
  CHECK(other.hypervisor->there.empty());
  const auto xml = nodes.start(facts.id).domain_xml;
  CHECK_THAT(xml, Contains("<interface type=\"bridge\">") && Contains("<source bridge=\"xtbr-made\" />") &&
                      Contains("<mtu size=\"1500\" />"));
  CHECK_THAT(xml, Contains("vt.hosts=t1n1:10.77.0.2,t1n2:10.77.0.3"));  // of all hosts
  CHECK(nodes.remove().left.empty());
  CHECK(link_kind(test_bridge) == LinkKind::bridge);
}

TEST_CASE("a group without nodes on this host makes nothing, and takes no other group's number") {
  const HostsDevices devices;
  OnOneOfTwo other({HostNetworkKind::vxlan, test_nic});
  auto group = spread_group();
  group.tenants.erase(group.tenants.begin());
  MadeNodes none(other.run, group), next(other.run, spread_group());
  CHECK(none.facts().empty());
  CHECK(next.id() != none.id());
  CHECK_THROWS_WITH(none.start(none.id()), Contains("there is no node"));
  none.make_networks();
  CHECK(none.remove().left.empty());
}

TEST_CASE("a shared slice stands for its tenant's nodes on this host, and has the host's own NIC") {
  const HostsDevices devices;
  OnOneOfTwo other({HostNetworkKind::vxlan, test_nic});
  auto group = spread_group();
  group.kind = NodeKind::shared_slice;
  group.tenants[0].push_back(group.tenants[0][1]);
  group.tenants[0][2].cores = {2};
  MadeNodes nodes(other.run, group);
  REQUIRE(nodes.facts().size() == 1);
  CHECK(nodes.facts()[0].placed == 1);
  CHECK(nodes.facts()[0].cores == std::vector{1, 2});
  CHECK(nodes.facts()[0].memory_bytes == 1024U << 20);
  CHECK(nodes.facts()[0].interface == test_nic);
  CHECK(nodes.facts()[0].address == "198.18.46.1");
  CHECK(nodes.facts()[0].network_medium == "host_nic");
  nodes.make_networks();  // none
  CHECK(other.journal.effects().empty());
  OnOneOfTwo bridged({HostNetworkKind::bridge, test_bridge});
  CHECK_THROWS_WITH(MadeNodes(bridged.run, group),
                    Contains("run ranks of bare_metal_shared over xtbr-made: it has no address"));
  OnOneOfTwo without({HostNetworkKind::none, ""});
  CHECK_THROWS_WITH(MadeNodes(without.run, group), Contains("has no network to them"));
}

TEST_CASE("a node says by which interface and address the others reach it, and over what") {
  const HostsDevices devices;
  for (const auto kind : {NodeKind::vm, NodeKind::slice}) {
    OnOneOfTwo other({HostNetworkKind::vxlan, test_nic});
    auto group = spread_group();
    group.kind = kind;
    const auto facts = MadeNodes(other.run, group).facts().at(0);
    CHECK(facts.interface == "eth0");
    CHECK(facts.address == "10.77.0.3");
    CHECK(facts.network_medium == "vxlan");
  }
}

TEST_CASE("a tenant on several hosts needs a network between them, and mode system") {
  const HostsDevices devices;
  OnOneOfTwo without({HostNetworkKind::none, ""});
  CHECK_THROWS_WITH(MadeNodes(without.run, spread_group()),
                    Contains("tenant 1 has nodes on other hosts, and host gpu-b has no network to them"));
  OnOneOfTwo with({HostNetworkKind::vxlan, test_nic});
  with.run.spec.mode = HostMode::namespaces;
  CHECK_THROWS_WITH(MadeNodes(with.run, spread_group()), Contains("needs mode system"));
  with.run.spec.mode = HostMode::system;
  auto group = spread_group();
  group.guest.network.mtu = 1551;
  CHECK_THROWS_WITH(MadeNodes(with.run, group), Contains("carries at most 1550"));
  with.run.spec.peers.emplace_back("198.18.46.1");
  CHECK_THROWS_WITH(MadeNodes(with.run, spread_group()), Contains("has that address itself"));
}

TEST_CASE("a tenant's bridge has a tunnel to the peers, journalled, and gone with the network") {
  const HostsDevices devices;
  OnOneOfTwo other({HostNetworkKind::vxlan, test_nic});
  other.hypervisor->makes_bridges = true;
  MadeNodes nodes(other.run, spread_group());
  nodes.make_networks();
  const std::string name = "vtx7f3a2b0", bridge = "vtb7f3a2b0";
  const auto effects = other.journal.effects();
  CHECK(std::ranges::any_of(
      effects, [&](const auto& effect) { return effect.kind == EffectKind::vxlan && effect.name == name; }));
  CHECK(link_kind(name) == LinkKind::vxlan);
  CHECK(link_experiment(name) == other.run.spec.experiment);
  CHECK(bridge_ports(bridge) == std::vector{name});
  const auto number = std::to_string(vxlan_number(other.run.spec.experiment, 0, NodeKind::vm));
  CHECK_THAT(run_checked({"ip", "-d", "link", "show", name}).out,
             Contains("vxlan id " + number + " local 198.18.46.1 dev xtnic-made") &&
                 Contains("dstport 4789") && Contains("mtu 1550"));
  const auto entries = run_checked({"bridge", "fdb", "show", "dev", name}).out;
  for (const auto* peer : {"198.18.46.2", "198.18.46.3"}) {
    CHECK_THAT(entries, Contains(std::string("00:00:00:00:00:00 dst ") + peer));
  }
  CHECK_THAT(nodes.start(nodes.facts()[0].id).domain_xml,
             Contains("<source network=\"virtrain-20261120t083012-7f3a2b-t0\" />") &&
                 Contains("<mtu size=\"1550\" />"));
  CHECK(nodes.remove().left.empty());
  const auto links = list_links();
  CHECK(std::ranges::none_of(links, [&](const auto& link) { return link == name || link == bridge; }));
  CHECK(other.journal.effects().empty());
}

TEST_CASE("a device that has the tunnel's name already stays, and is not taken for ours") {
  const HostsDevices devices;
  OnOneOfTwo other({HostNetworkKind::vxlan, test_nic});
  other.hypervisor->makes_bridges = true;
  const std::string name = "vtx7f3a2b0";
  run_ip({}, {fmt::format("link add {} type vxlan id 77 dev {} dstport 4790", name, test_nic)});
  MadeNodes nodes(other.run, spread_group());
  CHECK_THROWS_WITH(nodes.make_networks(), Contains("there is one already"));
  CHECK(nodes.remove().left.empty());
  CHECK(link_kind(name) == LinkKind::vxlan);
  delete_link(name);
  CHECK(other.journal.effects().empty());
}

TEST_CASE("on a bridge of the host's no two nodes of a run have one address at a time") {
  const HostsDevices devices;
  OnOneOfTwo other({HostNetworkKind::bridge, test_bridge});
  auto slices = spread_group();
  slices.kind = NodeKind::slice;
  MadeNodes waiting(other.run, spread_group()), next(other.run, slices);
  waiting.make_networks();
  CHECK_THROWS_WITH(next.make_networks(), Contains("another node of this run has 10.77.0.3/16 there") &&
                                              Contains("use reuse: trial, or a VXLAN"));
  CHECK(next.remove().left.empty());
  CHECK_THROWS_WITH(MadeNodes(other.run, slices).make_networks(), Contains("10.77.0.3/16"));  // still there
  CHECK(waiting.remove().left.empty());
  MadeNodes later(other.run, slices);
  CHECK_NOTHROW(later.make_networks());
  OnOneOfTwo tunnelled({HostNetworkKind::vxlan, test_nic});
  tunnelled.hypervisor->makes_bridges = true;
  MadeNodes vms(tunnelled.run, spread_group()), beside(tunnelled.run, slices);
  vms.make_networks();
  CHECK_NOTHROW(beside.make_networks());
  CHECK(vms.remove().left.empty());
  CHECK(beside.remove().left.empty());
}

TEST_CASE("a plan shows the bridge of the host that it is asked for") {
  auto group = spread_group();
  CHECK_THAT(planned_xml(group, 0, 0, 1, true, {}), Contains("<interface type=\"network\">"));
  group.network = {HostNetworkKind::bridge, "br-data"};
  CHECK_THAT(planned_xml(group, 0, 0, 1, true, {}),
             Contains("<interface type=\"bridge\">") && Contains("<source bridge=\"br-data\" />"));
  group.network = {HostNetworkKind::vxlan, "eth1"};
  CHECK_THAT(planned_xml(group, 0, 0, 1, true, {}), Contains("<interface type=\"network\">"));
}

/// The function that a node of spread_group() has as its network.
PlacedDevice a_function() {
  PlacedDevice function;
  function.grant = {GrantKind::virtual_function, "0000:03:10.2", "0000:03:00.0"};
  function.device_class = DeviceClass::other;
  function.vendor = "0x8086";
  function.device = "0x10ca";
  return function;
}

TEST_CASE("a VM whose network is a virtual function has it with the node's address, and no virtio NIC") {
  auto group = spread_group();
  group.network = {HostNetworkKind::vf, "ens1f0"};
  group.guest.network.mtu = 9000;
  auto& node = group.tenants[0][0];
  node.mac = "52:54:00:aa:bb:cc";
  node.network_function = a_function();
  const auto xml = planned_xml(group, 0, 0, 1, false, {});
  CHECK_THAT(xml, Contains("<interface type=\"hostdev\" managed=\"no\">") &&
                      Contains("<mac address=\"52:54:00:aa:bb:cc\" />") &&
                      Contains("domain=\"0x0000\" bus=\"0x03\" slot=\"0x10\" function=\"0x2\"") &&
                      Contains("vt.ip=" + node.address + " vt.mac=52:54:00:aa:bb:cc vt.mtu=9000"));
  CHECK(xml.find("virtio\" />\n      <mtu") == std::string::npos);
  CHECK(xml.find("interface type=\"network\"") == std::string::npos);
  CHECK(xml.find("interface type=\"bridge\"") == std::string::npos);
  CHECK(grants_of(node, "").size() == 1);
}

}  // namespace
}  // namespace virtrain::vmctl
