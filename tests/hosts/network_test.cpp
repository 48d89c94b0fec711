// Three hosts on this machine, each a network and mount namespace with a NIC of its own and a virtrain-host
// in it: nodes of one tenant reach each other from host to host. Root only.

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "harness/hosts/host_client.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/host/tenant_network.h"
#include "vmctl/journal/leases.h"

namespace virtrain::harness {
namespace {

using namespace vmctl;
using test::Contains;
namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

constexpr const char* an_experiment = "20261129t000000-0ab0de";
constexpr const char* tag = "0ab0de";
constexpr std::size_t host_count = 3;

std::string shell(const std::string& command) {
  return run_checked({"sh", "-ec", command}).out;
}

/// The switch between the hosts: a bridge of this machine.
struct Switch {
  Switch() {
    test::need_root();
    remove();
    // This machine itself answers nothing there, whatever addresses it has.
    shell(
        "ip link add xt-switch type bridge; ip link set xt-switch addrgenmode none arp off; ip link set "
        "xt-switch up");
  }
  ~Switch() { remove(); }
  static void remove() { run_command({"ip", "link", "del", "xt-switch"}); }
};

/// A host with eth1 in the switch. What is made in its namespaces ends with it.
class NamespaceHost {
 public:
  const TemporaryFolder folder;

  explicit NamespaceHost(std::size_t number) : number_(number) {
    auto ready = make_pipe();
    holder_ = ::fork();
    if (holder_ == 0) { hold(ready.write.get()); }
    ready.write.reset();
    char one = 0;
    REQUIRE(::read(ready.read.get(), &one, 1) == 1);
    const auto end = fmt::format("xt-end{}", number_);
    run_command({"ip", "link", "del", end});
    shell(fmt::format("ip link add {} type veth peer name eth1 netns {}; ip link set {} master xt-switch up",
                      end, holder_, end));
    inside(
        fmt::format("ip link set lo up; ip addr add {}/24 dev eth1; ip addr add {}/64 dev eth1 nodad; "
                    "ip link set eth1 up",
                    address(), address6()));
    start();
  }
  ~NamespaceHost() {
    stop();
    ::kill(holder_, SIGKILL);
    ::waitpid(holder_, nullptr, 0);
  }

  std::string name() const { return fmt::format("gpu-{}", number_); }
  std::string address() const { return fmt::format("198.18.45.{}", number_); }
  std::string address6() const { return fmt::format("2001:db8:45::{}", number_); }
  Host& client() { return *client_; }
  fs::path state() const { return folder.path / "state"; }

  /// Output of the command in the host's namespaces.
  std::string inside(const std::string& command) const {
    return run_checked({"nsenter", "-t", std::to_string(holder_), "-m", "-n", "sh", "-ec", command}).out;
  }
  /// Its network devices, without what nodes have on other devices.
  std::set<std::string> links() const {
    std::set<std::string> names;
    for (const auto& name : split(inside("ls /sys/class/net"), '\n')) {
      if (!name.empty()) { names.insert(name); }
    }
    return names;
  }
  /// What ip says of a device, without counters.
  std::string described(const std::string& device) const {
    return inside(fmt::format(
        "ip -d addr show {} | grep -v -e timer -e 'state ' -e fe80: -e valid_lft; cat /sys/class/net/{}/mtu",
        device, device));
  }
  /// A UDP socket at port 7777, or a TCP one, of a slice. It sends nothing in fragments.
  UniqueFd socket_in(const std::string& slice, int type) const {
    const UniqueFd network(
        ::open(fmt::format("/proc/{}/root/run/netns/{}", holder_, slice).c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(network);
    UniqueFd made;
    std::thread([&] {
      if (::setns(network.get(), CLONE_NEWNET) != 0) { return; }
      made = UniqueFd(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    }).join();
    REQUIRE(made);
    const int whole = IP_PMTUDISC_DO, yes = 1;
    ::setsockopt(made.get(), IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof whole);
    ::setsockopt(made.get(), SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes);
    ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in any{.sin_family = AF_INET, .sin_port = htons(7777), .sin_addr = {}, .sin_zero = {}};
    REQUIRE(::bind(made.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
    return made;
  }

  void start() {
    auto [ours, theirs] = make_socketpair();
    HostProcess process{duplicate(ours.get()), std::move(ours)};
    process.pid = pid_ = ::fork();
    if (pid_ == 0) {
      ::setenv("VIRTRAIN_STATE_DIR", state().c_str(), 1);
      ::setenv("VIRTRAIN_CACHE_DIR", (folder.path / "cache").c_str(), 1);
      ::setenv("LIBVIRT_AUTOSTART", "0", 1);
      ::unsetenv("SUDO_UID");
      for (const int standard : {STDIN_FILENO, STDOUT_FILENO}) { ::dup2(theirs.get(), standard); }
      const auto holder = std::to_string(holder_);
      ::execlp("nsenter", "nsenter", "-t", holder.c_str(), "-m", "-n", VIRTRAIN_BINARY_DIR "/virtrain-host",
               "--log-level", "error", nullptr);
      ::_exit(127);
    }
    theirs.reset();
    client_ = host_client(std::move(process));
    client_->inventory(false);
  }
  /// kill -9 of its virtrain-host.
  void kill_process() {
    ::kill(pid_, SIGKILL);
    stop();
  }
  void stop() { client_.reset(); }

 private:
  /// Namespaces with a /sys and a /run of their own, until it is killed.
  [[noreturn]] void hold(int ready) const {
    const auto groups = folder.path / "cgroups";
    std::error_code failed;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Else the other hosts' processes would not see their coordinator go.
    const auto said = static_cast<unsigned>(ready);
    ::close_range(3, said - 1, 0);
    ::close_range(said + 1, ~0U, 0);
    fs::create_directory(groups, failed);
    const bool done = ::unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
                      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      ::mount("/sys/fs/cgroup", groups.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0 &&
                      ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0 &&
                      ::mount(groups.c_str(), "/sys/fs/cgroup", nullptr, MS_BIND | MS_REC, nullptr) == 0 &&
                      ::mount("tmpfs", "/run", "tmpfs", 0, nullptr) == 0 &&
                      fs::create_directory("/run/netns", failed);
    if (!done || ::write(ready, "x", 1) != 1) { ::_exit(1); }
    while (true) { ::pause(); }
  }

  const std::size_t number_;
  pid_t holder_ = -1, pid_ = -1;
  std::unique_ptr<Host> client_;
};

/// Three hosts, and a tenant with a node on each; a second tenant has none on the third.
class Hosts {
 public:
  Switch between;
  std::vector<std::unique_ptr<NamespaceHost>> all;
  std::vector<std::vector<NodeFacts>> nodes;  ///< by host
  std::vector<NodeGroupId> groups;

  explicit Hosts(const std::function<void(NamespaceHost&)>& prepare = {}) {
    for (std::size_t h = 1; h <= host_count; ++h) { all.push_back(std::make_unique<NamespaceHost>(h)); }
    for (const auto& host : all) {
      if (prepare) { prepare(*host); }
      before_.push_back(host->links());
    }
  }

  NodeGroupSpec group(bool share_a_bridge) const {
    NodeGroupSpec group;
    group.kind = NodeKind::slice;
    group.guest.vcpus = 1;
    group.guest.memory_bytes = 128U << 20;
    for (std::size_t t = 0; t < 2; ++t) {
      group.tenants.emplace_back();
      for (std::size_t n = 0; n < host_count - t; ++n) {
        NodeSpec node;
        node.hostname = fmt::format("t{}n{}", t + 1, n + 1);
        node.address = fmt::format("10.77.{}.{}/16", share_a_bridge ? t : 0, n + 1);
        node.cores = {0};
        node.memory_bytes = group.guest.memory_bytes;
        node.host = all[n]->name();
        group.tenants[t].push_back(node);
      }
    }
    return group;
  }

  void begin(const HostNetwork& network, bool over_ipv6 = false) {
    for (std::size_t h = 0; h < host_count; ++h) {
      RunSpec run{.experiment = an_experiment, .results_db = ""};
      run.host = all[h]->name();
      run.network = network;
      for (const auto& peer : all) {
        if (network.kind != HostNetworkKind::vxlan || peer == all[h]) { continue; }
        run.peers.push_back(over_ipv6 ? peer->address6() : peer->address());
      }
      auto& host = all[h]->client();
      host.begin(run);
      host.acquire({"core:0"});
      // The hosts share this machine's cgroups and processes, which are named by a node's number: each has
      // numbers of its own.
      for (std::size_t i = 0; i < h * 2; ++i) {
        host.remove(host.plan_nodes(group(network.kind == HostNetworkKind::bridge)).id);
      }
    }
  }

  void start(const NodeGroupSpec& group) {
    for (const auto& host : all) {
      const auto planned = host->client().plan_nodes(group);
      groups.push_back(planned.id);
      nodes.push_back(planned.nodes);
      host->client().make_networks(planned.id);
    }
    for (std::size_t h = 0; h < host_count; ++h) {
      for (const auto& node : nodes[h]) { agents_.push_back(all[h]->client().start(node.id).agent); }
    }
  }

  UniqueFd socket_of(std::size_t tenant, std::size_t host, int type = SOCK_DGRAM) const {
    const auto found =
        std::ranges::find_if(nodes[host], [&](const auto& one) { return one.tenant == tenant; });
    REQUIRE(found != nodes[host].end());
    CHECK(found->placed == host);
    return all[host]->socket_in(found->name, type);
  }

  void require_all_gone() const {
    for (std::size_t h = 0; h < host_count; ++h) {
      CHECK(all[h]->links() == before_[h]);
      CHECK(all[h]->inside("ls /run/netns").empty());
      CHECK(LeaseJournal(all[h]->state() / "leases.db").effects().empty());
    }
  }

  void remove() {
    agents_.clear();
    for (std::size_t h = 0; h < host_count; ++h) {
      CHECK(all[h]->client().remove(groups[h]).left == Strings());
      all[h]->client().end(true);
    }
    require_all_gone();
  }

 private:
  std::vector<std::set<std::string>> before_;  ///< devices of each host
  std::vector<UniqueFd> agents_;
};

sockaddr_in at(const std::string& address) {
  sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(7777), .sin_addr = {}, .sin_zero = {}};
  ::inet_pton(AF_INET, split(address, '/')[0].c_str(), &to.sin_addr);
  return to;
}

/// 0, or the errno of sending so many bytes, headers included.
int send_to(const UniqueFd& from, const std::string& address, std::size_t bytes) {
  constexpr std::size_t headers = 28;
  const std::string text(bytes - headers, 'x');
  const auto to = at(address);
  const auto sent =
      ::sendto(from.get(), text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  return sent == static_cast<ssize_t>(text.size()) ? 0 : errno;
}

/// Bytes of the packet that comes, headers included; 0: none comes.
std::size_t heard(const UniqueFd& socket, std::chrono::milliseconds deadline = std::chrono::seconds(10)) {
  constexpr std::size_t headers = 28;
  if (!becomes_readable(socket.get(), deadline)) { return 0; }
  std::string text(70'000, '\0');
  const auto got = ::recv(socket.get(), text.data(), text.size(), 0);
  return got < 0 ? 0 : static_cast<std::size_t>(got) + headers;
}

/// A tenant's nodes hear each other, packets of the whole MTU included, and no larger one leaves.
void check_tenant(const Hosts& hosts, const NodeGroupSpec& group, std::size_t tenant, std::size_t mtu) {
  std::vector<UniqueFd> sockets;
  for (std::size_t n = 0; n < group.tenants[tenant].size(); ++n) {
    sockets.push_back(hosts.socket_of(tenant, n));
  }
  for (std::size_t from = 0; from < sockets.size(); ++from) {
    for (std::size_t to = 0; to < sockets.size(); ++to) {
      if (from == to) { continue; }
      CAPTURE(tenant, from, to);
      const auto& address = group.tenants[tenant][to].address;
      for (const auto bytes : {std::size_t{100}, mtu}) {
        CHECK(send_to(sockets[from], address, bytes) == 0);
        CHECK(heard(sockets[to]) == bytes);
      }
      CHECK(send_to(sockets[from], address, mtu + 1) == EMSGSIZE);
    }
  }
}

/// A stream of 16 MiB from one node to another, in segments as large as its kernel likes.
void check_stream(const Hosts& hosts, const NodeGroupSpec& group, std::size_t from, std::size_t to) {
  const auto listener = hosts.socket_of(0, to, SOCK_STREAM), sender = hosts.socket_of(0, from, SOCK_STREAM);
  REQUIRE(::listen(listener.get(), 1) == 0);
  const auto address = at(group.tenants[0][to].address);
  REQUIRE(::connect(sender.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const UniqueFd receiver(::accept(listener.get(), nullptr, nullptr));
  constexpr std::size_t wanted = 16U << 20;
  std::thread sending([&] {
    const std::string text(1U << 20, 'x');
    for (std::size_t sent = 0; sent < wanted;) {
      const auto some = ::send(sender.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (some <= 0) { return; }
      sent += static_cast<std::size_t>(some);
    }
  });
  std::string text(1U << 20, '\0');
  std::size_t got = 0;
  while (got < wanted && becomes_readable(receiver.get(), std::chrono::seconds(20))) {
    const auto some = ::recv(receiver.get(), text.data(), text.size(), 0);
    if (some <= 0) { break; }
    got += static_cast<std::size_t>(some);
  }
  ::shutdown(receiver.get(), SHUT_RDWR);
  sending.join();
  CHECK(got == wanted);
}

/// What one tenant sends to all, none of another tenant hears.
void check_apart(const Hosts& hosts) {
  const auto first = hosts.socket_of(0, 0), its_own = hosts.socket_of(0, 2), other = hosts.socket_of(1, 1);
  CHECK(send_to(first, "10.77.255.255", 200) == 0);
  CHECK(heard(its_own) == 200);
  CHECK(heard(other, std::chrono::milliseconds(300)) == 0);
}

}  // namespace

TEST_CASE("slices of a tenant on three hosts reach each other over VXLAN, and no other tenant's") {
  Hosts hosts([](NamespaceHost& host) {  // somebody's own tunnel
    host.inside("ip link add vxlan7 type vxlan id 7 dev eth1 dstport 4789");
  });
  const auto foreign = hosts.all[0]->described("vxlan7");
  const HostNetwork network{HostNetworkKind::vxlan, "eth1"};
  const auto facts = hosts.all[1]->client().look_at_network(network);
  CHECK(facts.address == "198.18.45.2");
  CHECK(facts.mtu == 1450);
  hosts.begin(network);
  auto group = hosts.group(false);
  group.guest.network.mtu = 1451;
  for (const auto& host : hosts.all) {
    CHECK_THROWS_WITH(host->client().plan_nodes(group), Contains("its VXLAN carries at most 1450"));
  }
  group.guest.network.mtu = {};
  hosts.start(group);
  for (std::size_t t = 0; t < 2; ++t) {
    check_tenant(hosts, group, t, 1450);
    for (std::size_t h = 0; h < host_count; ++h) {
      const auto has = hosts.all[h]->links().contains(fmt::format("vtx{}s{}", tag, t));
      CHECK(has == (h < group.tenants[t].size()));
    }
  }
  check_apart(hosts);
  check_stream(hosts, group, 0, 2);
  hosts.remove();
  CHECK(hosts.all[0]->described("vxlan7") == foreign);
}

TEST_CASE("VXLANs go over IPv6 where the NICs have no IPv4 address") {
  Hosts hosts([](NamespaceHost& host) { host.inside("ip addr del " + host.address() + "/24 dev eth1"); });
  hosts.begin({HostNetworkKind::vxlan, "eth1"}, true);
  const auto group = hosts.group(false);
  hosts.start(group);
  check_tenant(hosts, group, 0, 1430);
  check_stream(hosts, group, 2, 1);
  hosts.remove();
}

TEST_CASE("slices on three hosts reach each other over a bridge that is there, and it stays as it is") {
  Hosts hosts([](NamespaceHost& host) {
    host.inside(
        "ip link set eth1 mtu 1400; ip link add br-data type bridge; ip link set eth1 master br-data; "
        "ip addr flush dev eth1; ip addr add " +
        host.address() + "/24 dev br-data; ip link set br-data up");
  });
  const auto before = hosts.all[1]->described("br-data");
  CHECK_THAT(before, Contains("198.18.45.2/24") && Contains("\n1400\n"));
  hosts.begin({HostNetworkKind::bridge, "br-data"});
  auto group = hosts.group(true);
  group.guest.network.mtu = 1300;
  CHECK_THROWS_WITH(hosts.all[0]->client().plan_nodes(group), Contains("the bridge has 1400"));
  group.guest.network.mtu = {};
  hosts.start(group);
  CHECK(hosts.all[1]->described("br-data") == before);
  for (std::size_t t = 0; t < 2; ++t) { check_tenant(hosts, group, t, 1400); }
  check_stream(hosts, group, 1, 0);
  for (const auto& host : hosts.all) {
    for (const auto& name : host->links()) { CHECK_FALSE(name.starts_with("vtb")); }
  }
  hosts.remove();
  CHECK(hosts.all[1]->described("br-data") == before);
}

TEST_CASE("clean finds the tunnel of a killed host process, with the journal and without, and only its own") {
  const bool is_lost = GENERATE(false, true);
  Hosts hosts([](NamespaceHost& host) {
    host.inside(
        "ip link add vxlan7 type vxlan id 7 dev eth1 dstport 4789; "
        "ip link add vtxmine type vxlan id 8 dev eth1 dstport 4789");
  });
  const auto before = hosts.all[1]->links();
  hosts.begin({HostNetworkKind::vxlan, "eth1"});
  const auto group = hosts.group(false);
  hosts.start(group);
  check_tenant(hosts, group, 0, 1450);
  auto& killed = *hosts.all[1];
  killed.kill_process();
  if (is_lost) { fs::remove_all(killed.state()); }
  killed.start();
  const auto tunnel = fmt::format("vtx{}s0", tag);
  // Its slices end by themselves; what is made for them does not.
  const auto left = killed.client().leftovers("qemu:///session", an_experiment).left;
  const auto is_tunnel = [&](const auto& one) { return one.kind == "vxlan" && one.name == tunnel; };
  CHECK(std::ranges::any_of(left, is_tunnel));
  for (const auto& one : left) {
    CAPTURE(one.kind, one.name);
    CHECK((one.experiment == an_experiment || one.name.find(tag) != std::string::npos));
  }
  for (const auto& [one, why] : killed.client().clean().failed) { FAIL_CHECK(one.name << ": " << why); }
  CHECK(killed.links() == before);
  const auto after = killed.client().leftovers("qemu:///session", "");
  CHECK(std::ranges::none_of(after.left, is_tunnel));
  CHECK(std::ranges::any_of(after.foreign, [](const auto& one) { return one.name == "vtxmine"; }));
  // The other hosts are as they were.
  const auto first = hosts.socket_of(0, 0), third = hosts.socket_of(0, 2);
  CHECK(send_to(first, group.tenants[0][2].address, 1450) == 0);
  CHECK(heard(third) == 1450);
}

TEST_CASE("a VXLAN of somebody else that has the number stays, and nothing is left of the attempt") {
  const auto number = vxlan_number(an_experiment, 0, NodeKind::slice);
  Hosts hosts([&](NamespaceHost& host) {
    host.inside(fmt::format("ip link add theirs type vxlan id {} local {} dev eth1 dstport 4789", number,
                            host.address()));
  });
  hosts.begin({HostNetworkKind::vxlan, "eth1"});
  for (const auto& host : hosts.all) {
    const auto theirs = host->described("theirs");
    const auto planned = host->client().plan_nodes(hosts.group(false));
    CHECK_THROWS_WITH(host->client().make_networks(planned.id), Contains("vxlan id") && Contains("exists"));
    CHECK(host->client().remove(planned.id).left == Strings());
    host->client().end(true);
    CHECK(host->described("theirs") == theirs);
  }
  hosts.require_all_gone();
}

}  // namespace virtrain::harness
