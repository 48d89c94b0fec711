// hostile_coordinator: whoever speaks to a virtrain-host names what it may not have. Each field is refused in
// words that name it; nothing runs, nothing is journalled, and no file is made.

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/file_hash.h"
#include "common/files/reading.h"
#include "harness/hosts/host_client.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/api/device.h"
#include "vmctl/journal/leases.h"

namespace virtrain::harness {
namespace {

using namespace vmctl;
using test::Contains;
using Strings = std::vector<std::string>;
namespace fs = std::filesystem;

constexpr const char* an_experiment = "20261129t000000-00c0de";
constexpr uid_t another_users_id = 4242;
constexpr const char* of_another = "";

/// The program, of a recorded host: cores and devices are that one's, journal and folders are the test's. For
/// another user, for whom root reads no recorded host, they are this host's.
class Hostess {
 public:
  const TemporaryFolder folder;

  explicit Hostess(const std::string& recorded) {
    ::chmod(folder.path.c_str(), 0711);
    const auto root = (fs::path(VIRTRAIN_BINARY_DIR) / "hosts" / recorded).string();
    const auto program = std::string(VIRTRAIN_BINARY_DIR) + "/virtrain-host";
    if (recorded == of_another) { REQUIRE(::seteuid(another_users_id) == 0); }  // who makes the socket
    auto [ours, theirs] = make_socketpair();
    REQUIRE(::seteuid(::getuid()) == 0);
    HostProcess process{duplicate(ours.get()), std::move(ours)};
    process.pid = pid_ = ::fork();
    if (pid_ == 0) {
      ::setenv("VIRTRAIN_STATE_DIR", state().c_str(), 1);
      ::setenv("VIRTRAIN_CACHE_DIR", (folder.path / "cache").c_str(), 1);
      ::unsetenv("SUDO_UID");
      for (const int standard : {STDIN_FILENO, STDOUT_FILENO}) { ::dup2(theirs.get(), standard); }
      const auto* known = recorded == of_another ? "/" : root.c_str();
      ::execl(program.c_str(), program.c_str(), "--root", known, "--log-level", "error", nullptr);
      ::_exit(127);
    }
    theirs.reset();
    client_ = host_client(std::move(process));
  }

  Host& client() { return *client_; }
  fs::path state() const { return folder.path / "state"; }

  /// All that a call could leave: files, entries of the journal, processes.
  std::set<std::string> traces() const {
    std::set<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path)) {
      const auto name = entry.path().filename().string();
      if (!name.starts_with("leases.db")) { all.insert(entry.path()); }
    }
    if (fs::exists(state() / "leases.db")) {
      const LeaseJournal journal(state() / "leases.db");
      for (const auto& effect : journal.effects()) { all.insert("effect " + effect.name); }
      for (const int core : journal.leased_cores()) { all.insert(fmt::format("core {}", core)); }
      for (const auto& [address, owner] : journal.device_owners()) { all.insert("device " + address); }
    }
    for (const auto& thread : entries_of(fmt::format("/proc/{}/task", pid_))) {
      all.insert("children " + read_value(thread / "children").value_or(""));
    }
    all.erase("children ");
    return all;
  }

  /// `words`: what the refusal names.
  void refuses(const std::string& words, const std::function<void(Host&)>& call,
               ErrorCode code = ErrorCode::protocol) {
    INFO(words);
    const auto before = traces();
    try {
      call(client());
      FAIL_CHECK("it was not refused");
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Contains(words));
      CHECK(to_string(error.code()) == to_string(code));
    }
    CHECK(traces() == before);
  }

 private:
  pid_t pid_ = -1;
  std::unique_ptr<Host> client_;
};

RunSpec a_run() {
  return {.experiment = an_experiment, .results_db = "/home/ada/results.db", .programs = {"virtrain-probe"}};
}

const HostDevice& device_at(const Inventory& inventory, const std::string& address) {
  for (const auto* list : {&inventory.devices, &inventory.other_devices}) {
    for (const auto& device : *list) {
      if (device.function.address == address) { return device; }
    }
  }
  FAIL("no device " << address);
  return inventory.devices.front();
}

NodeSpec a_node(const Inventory& inventory, std::size_t tenant, std::size_t node, std::size_t core) {
  NodeSpec spec;
  spec.hostname = fmt::format("t{}n{}", tenant + 1, node + 1);
  spec.address = fmt::format("10.77.0.{}/16", node + 1);
  spec.mac = fmt::format("52:54:00:00:00:{:02x}", core);
  spec.cores = {inventory.cores.at(core).id};
  spec.core_numa_nodes = {inventory.cores.at(core).numa_node};
  spec.memory_bytes = 1ULL << 30;
  return spec;
}

/// Two nodes of a tenant, one of another; on its last cores, which no run of this machine has.
NodeGroupSpec a_group(const Inventory& inventory) {
  const auto core = inventory.cores.size() - 3;
  NodeGroupSpec group;
  group.guest.vcpus = 1;
  group.guest.memory_bytes = 1ULL << 30;
  group.tenants = {{a_node(inventory, 0, 0, core), a_node(inventory, 0, 1, core + 1)},
                   {a_node(inventory, 1, 0, core + 2)}};
  return group;
}

/// A value of which one field is another one.
template <typename Value>
Value with(Value value, const std::function<void(Value&)>& harm) {
  harm(value);
  return value;
}

constexpr const char* our_gpu = "0000:17:00.0";      // which the run has acquired
constexpr const char* another_gpu = "0000:31:00.0";  // which it has not

/// A host of four A100 whose run has three cores and one of them.
class WithRun : public Hostess {
 public:
  const Inventory inventory;
  const NodeGroupSpec group;

  explicit WithRun(const std::string& recorded = "r750xa", const std::string& device = our_gpu)
      : Hostess(recorded), inventory(client().inventory(true)), group(a_group(inventory)) {
    client().begin(a_run());
    Strings resources{"device:" + device};
    for (const auto& tenant : group.tenants) {
      for (const auto& node : tenant) { resources.push_back(fmt::format("core:{}", node.cores[0])); }
    }
    client().acquire(resources);
  }

  void refuses_group(const std::string& words, const std::function<void(NodeGroupSpec&)>& harm) {
    const auto harmed = with<NodeGroupSpec>(group, harm);
    refuses(words, [&](Host& host) { host.plan_nodes(harmed); });
  }
  void refuses_node(const std::string& words, const std::function<void(NodeSpec&)>& harm) {
    refuses_group("'tenants[1][0]." + words, [&](NodeGroupSpec& spec) { harm(spec.tenants[1][0]); });
  }
  void refuses_grant(const std::string& words, const DeviceGrant& grant) {
    refuses("'grants[0]." + words, [&](Host& host) { host.lend({grant}, {}); });
    refuses("'tenants[1][0].devices[0].grant." + words, [&](Host& host) {
      auto harmed = group;
      harmed.tenants[1][0].devices = {placed(grant, inventory.devices.at(0))};
      host.plan_nodes(harmed);
    });
    refuses("'grants[0]." + words, [&](Host& host) { host.set({grant}, {}); });
    refuses("'grants[0]." + words, [&](Host& host) { host.keep_services_away({grant}); });
  }
};

}  // namespace

TEST_CASE("hostile_coordinator: a run names its experiment, database and programs") {
  Hostess host("r750xa");
  const auto refuses = [&](const std::string& words, const std::function<void(RunSpec&)>& harm) {
    const auto run = with<RunSpec>(a_run(), harm);
    host.refuses(words, [&](Host& client) { client.begin(run); });
  };
  refuses("'experiment' is 'logs/../..'", [](RunSpec& run) { run.experiment = "logs/../.."; });
  refuses("'results_db' is", [](RunSpec& run) { run.results_db = "/a\n/b"; });
  refuses("'results_db' is", [](RunSpec& run) { run.results_db = std::string(5000, 'x'); });
  for (const auto* program : {"", "sh", "../sh", "virtrain-../../bin/sh", "virtrain-PROBE", "-c"}) {
    refuses("'program' is", [&](RunSpec& run) { run.programs = {program}; });
  }
  refuses("'programs[0]' is '/bin/../bin/sh'", [](RunSpec& run) { run.programs = {"/bin/../bin/sh"}; });
  refuses("'programs' is", [](RunSpec& run) { run.programs = Strings(17, "virtrain-probe"); });
}

TEST_CASE(
    "hostile_coordinator: a run's host, its network and its peers are named, and nothing of virtrain's") {
  Hostess host("r750xa");
  const auto refuses = [&](const std::string& words, const std::function<void(RunSpec&)>& harm) {
    const auto run = with<RunSpec>(a_run(), harm);
    host.refuses(words, [&](Host& client) { client.begin(run); });
  };
  for (const auto& name : {std::string("../a"), std::string("a\nb"), std::string(500, 'a')}) {
    refuses("'host' is", [&](RunSpec& run) { run.host = name; });
  }
  refuses("'network.name' is 'br0': it must be empty", [](RunSpec& run) { run.network.name = "br0"; });
  for (const auto kind : {HostNetworkKind::bridge, HostNetworkKind::vxlan, HostNetworkKind::vf}) {
    for (const auto* name : {"", "sixteen-letters-", "../../etc", "br 0", "br0\nlink del eth0", "br0;x",
                             "-all", "..", "a'b", "br\u00e9", "vtb00c0de0", "vtb00c0des0", "vtx00c0de0"}) {
      refuses("'network.name' is", [&](RunSpec& run) { run.network = {kind, name}; });
      host.refuses("'network.name' is", [&](Host& client) { client.look_at_network({kind, name}); });
    }
  }
  const auto refuses_peers = [&](const std::string& words, const Strings& peers) {
    refuses(words, [&](RunSpec& run) {
      run.network = {HostNetworkKind::vxlan, "eth0"};
      run.peers = peers;
    });
  };
  for (const auto* peer : {"", "gpu-b", "192.0.2.1/24", "192.0.2.01", "192.0.2.1 dev eth0", "192.0.2.1\n",
                           "127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1",
                           "ff02::1", "2001:DB8::1", "::ffff:192.0.2.1"}) {
    refuses_peers("'peers[0]' is", {peer});
  }
  refuses_peers("'peers[1]' is", {"192.0.2.1", "192.0.2.1"});
  refuses_peers("'peers' is '300 items'", Strings(300, "192.0.2.1"));
  for (const auto kind : {HostNetworkKind::none, HostNetworkKind::bridge}) {
    refuses("'peers' is '192.0.2.1': it must be empty", [&](RunSpec& run) {
      run.network = {kind, kind == HostNetworkKind::none ? "" : "br0"};
      run.peers = {"192.0.2.1"};
    });
  }
  host.refuses(
      "a recorded host has none",
      [](Host& client) {
        client.look_at_network({HostNetworkKind::bridge, "br0"});
      },
      ErrorCode::host_unable);
}

TEST_CASE(
    "hostile_coordinator: nodes of other hosts have the form of nodes, and this host's resources are its "
    "own's") {
  Hostess host("r750xa");
  const auto inventory = host.client().inventory(true);
  auto run = a_run();
  run.host = "gpu-b";
  run.network = {HostNetworkKind::bridge, "xt-no-bridge"};
  host.client().begin(run);
  auto group = a_group(inventory);
  const auto own_core = group.tenants[0][1].cores[0];
  host.client().acquire({fmt::format("core:{}", own_core)});
  for (auto& tenant : group.tenants) {
    for (auto& node : tenant) { node.host = "gpu-a"; }
  }
  group.tenants[0][1].host = "gpu-b";
  group.tenants[1][0].address = "10.77.0.3/16";
  // All nodes on another host have cores and memory of theirs, and devices that this one has not.
  group.tenants[0][0].cores = {99'999};
  group.tenants[0][0].memory_bytes = 1ULL << 45;
  group.tenants[0][0].devices.resize(1);
  const auto refuses = [&](const std::string& words, const std::function<void(NodeGroupSpec&)>& harm,
                           ErrorCode code = ErrorCode::protocol) {
    const auto harmed = with<NodeGroupSpec>(group, harm);
    host.refuses(
        words, [&](Host& client) { client.plan_nodes(harmed); }, code);
  };
  // That it gets as far as the bridge shows that all of it was let pass.
  refuses(
      "this host has no network device xt-no-bridge", [](auto&) {}, ErrorCode::host_unable);
  refuses("'tenants[0][1].cores[0]'", [&](auto& spec) { spec.tenants[0][1].cores = {own_core + 1}; });
  refuses("'tenants[0][1].memory_bytes'", [](auto& spec) { spec.tenants[0][1].memory_bytes = 1ULL << 45; });
  refuses("'tenants[0][0].cores[0]'", [](auto& spec) { spec.tenants[0][0].host = "gpu-b"; });
  refuses("'tenants[0][0].cores'", [](auto& spec) { spec.tenants[0][0].cores = {}; });
  refuses("'tenants[0][0].memory_bytes'", [](auto& spec) { spec.tenants[0][0].memory_bytes = 1; });
  refuses("'tenants[0][0].hostname'", [](auto& spec) { spec.tenants[0][0].hostname = "x 10.77.0.1"; });
  refuses("'tenants[0][0].address'", [](auto& spec) { spec.tenants[0][0].address = "127.0.0.1/8"; });
  refuses("'tenants[0][0].host'", [](auto& spec) { spec.tenants[0][0].host = "../x"; });
  refuses("'tenants[1][0].mac'", [](auto& spec) { spec.tenants[1][0].mac = spec.tenants[0][0].mac; });
  // One bridge for all tenants: else they had the same addresses there.
  refuses("'tenants[1][0].address'",
          [](auto& spec) { spec.tenants[1][0].address = spec.tenants[0][0].address; });
  refuses("'network.name'", [](auto& spec) { spec.network = {HostNetworkKind::bridge, "'/><x"}; });
  const auto planned = with<NodeGroupSpec>(group, [](auto& spec) {
    spec.network = {HostNetworkKind::bridge, "'/><x"};
  });
  host.refuses("'network.name'", [&](Host& client) { client.planned_xml(planned, 0, 1, 1, false); });
}

TEST_CASE("hostile_coordinator: a node's network is a free virtual function of the NIC that the run has") {
  Hostess host("sriov-nic-host");
  const auto inventory = host.client().inventory(true);
  auto run = a_run();
  run.host = "gpu-b";
  run.network = {HostNetworkKind::vf, "ens1f0"};
  host.client().begin(run);
  auto group = a_group(inventory);
  group.tenants[0].pop_back();
  group.tenants[1][0].address = "10.77.0.2/16";
  const auto function = [&](const char* address, GrantKind kind = GrantKind::virtual_function) {
    return placed({kind, address, "0000:03:00.0"}, device_at(inventory, address));
  };
  for (auto& tenant : group.tenants) { tenant[0].host = "gpu-b"; }
  group.tenants[0][0].network_function = function("0000:03:10.0");
  group.tenants[1][0].network_function = function("0000:03:10.2");
  Strings resources{"device:0000:03:10.0", "device:0000:03:10.2", "device:0000:03:00.1"};
  for (const auto& tenant : group.tenants) {
    resources.push_back(fmt::format("core:{}", tenant[0].cores[0]));
  }
  host.client().acquire(resources);
  const auto refuses = [&](const std::string& words, const std::function<void(NodeSpec&)>& harm,
                           ErrorCode code = ErrorCode::protocol) {
    for (const auto kind : {NodeKind::vm, NodeKind::slice}) {
      auto harmed = group;
      harmed.kind = kind;
      harm(harmed.tenants[1][0]);
      host.refuses(
          words, [&](Host& client) { client.plan_nodes(harmed); }, code);
    }
  };
  // That it gets as far as the NIC, which this machine does not have, shows that all of it was let pass.
  refuses(
      "this host has no network device ens1f0", [](auto&) {}, ErrorCode::host_unable);
  refuses("'tenants[1][0].network_function'", [](auto& node) { node.network_function.reset(); });
  refuses("'tenants[1][0].network_function.grant.address'",
          [&](auto& node) { node.network_function = function("0000:03:10.4"); });  // not acquired
  refuses("'tenants[1][0].network_function.grant.address'",
          [&](auto& node) { node.network_function = function("0000:03:10.0"); });  // another node's
  refuses("'tenants[1][0].network_function.grant.physical_function'",
          [&](auto& node) { node.network_function->grant.physical_function = "0000:03:00.1"; });
  refuses("'tenants[1][0].network_function.grant.kind'",
          [&](auto& node) { node.network_function->grant.kind = GrantKind::passthrough; });
  refuses("'tenants[1][0].network_function' is '0000:03:00.1'", [&](auto& node) {
    node.network_function =
        placed({GrantKind::passthrough, "0000:03:00.1"}, device_at(inventory, "0000:03:00.1"));
  });
  refuses("'tenants[1][0].network_function.vendor'",
          [](auto& node) { node.network_function->vendor = "0x10de"; });
  refuses("'tenants[1][0].network_function.mac'",
          [](auto& node) { node.network_function->mac = "52:54:00:00:00:09"; });
  refuses("'tenants[1][0].mac'", [](auto& node) { node.mac = "a0:36:9f:00:00:01"; });
  refuses("'tenants[1][0].address'", [](auto& node) { node.address = "10.77.0.1/16"; });
  host.client().end(true);
  run.network = {HostNetworkKind::vf, "ens1f1"};
  host.client().begin(run);
  host.client().acquire(resources);
  refuses("'tenants[0][0].network_function' is '0000:03:10.0': it must be a virtual function of ens1f1",
          [](auto&) {});
  host.client().end(true);
  run.network = {HostNetworkKind::bridge, "br-data"};
  host.client().begin(run);
  host.client().acquire(resources);
  refuses("'tenants[0][0].network_function' is '0000:03:10.0': it must be absent", [](auto&) {});
}

TEST_CASE("hostile_coordinator: cores and devices are this host's, and acquired once") {
  Hostess host("r750xa");
  const auto inventory = host.client().inventory(false);
  host.client().begin(a_run());
  host.refuses("another one is under way", [](Host& client) { client.begin(a_run()); });
  const auto acquires = [&](const Strings& resources) {
    host.refuses(fmt::format("'resources[{}]'", resources.size() - 1),
                 [&](Host& client) { client.acquire(resources); });
  };
  for (const auto* one :
       {"core:99999", "core:-1", "core:00", "core:", "core:1 ", "core:99999999999", "device:0000:ff:00.0",
        "device:../../../../etc", "device:", "gpu:0", "experiment:20261129t000000-000000", ""}) {
    acquires({one});
  }
  acquires({"core:0", "core:0"});
  host.refuses("'tenants[0][0].cores[0]'", [&](Host& client) { client.plan_nodes(a_group(inventory)); });
  host.client().acquire({"core:100", std::string("device:") + our_gpu});
  host.refuses("the run has its own", [](Host& client) { client.acquire({"core:1"}); });
}

TEST_CASE("hostile_coordinator: nodes are named, sized and placed as a plan has them") {
  WithRun run;
  CHECK(run.client().plan_nodes(run.group).nodes.size() == 3);  // that one would be made
  run.refuses_group("'tenants'", [](auto& group) { group.tenants.clear(); });
  run.refuses_group("'tenants[1]'", [](auto& group) { group.tenants[1].clear(); });
  run.refuses_group("'tenants'", [](auto& group) { group.tenants[1].resize(5000); });
  run.refuses_node("hostname'", [](auto& node) { node.hostname = "t1n1"; });
  run.refuses_node("hostname'", [](auto& node) { node.hostname = "t2n1 init=/bin/sh"; });
  for (const auto* address : {"", "10.77.0.1", "10.77.0.1/8", "192.168.0.1/16", "10.77.0.0/16",
                              "10.77.256.1/16", "10.77.0.01/16", "10.77.0.1/16,x"}) {
    run.refuses_node("address'", [&](auto& node) { node.address = address; });
  }
  run.refuses_group("'tenants[0][1].address'",
                    [](auto& group) { group.tenants[0][1].address = group.tenants[0][0].address; });
  for (const auto* mac : {"", "00:11:22:33:44:55", "52:54:00:00:00:0G", "52:54:00:00:00:01'/>"}) {
    run.refuses_node("mac'", [&](auto& node) { node.mac = mac; });
  }
  run.refuses_node("mac'", [&](auto& node) { node.mac = run.group.tenants[0][0].mac; });
  run.refuses_node("cores[0]'", [&](auto& node) { node.cores = {run.inventory.cores.at(0).id}; });
  run.refuses_node("cores[0]'", [](auto& node) { node.cores = {99'999}; });
  run.refuses_node("cores'", [](auto& node) { node.cores = {}; });
  run.refuses_node("core_numa_nodes[0]'", [](auto& node) { node.core_numa_nodes = {7}; });
  run.refuses_node("core_numa_nodes'", [](auto& node) { node.core_numa_nodes = {0, 0}; });
  run.refuses_node("emulator_cores'", [](auto& node) { node.emulator_cores = {99'999}; });
  run.refuses_node("numa_node'", [](auto& node) { node.numa_node = 99; });
  run.refuses_node("memory_bytes'", [](auto& node) { node.memory_bytes = 0; });
  run.refuses_node("memory_bytes'", [&](auto& node) { node.memory_bytes = run.inventory.memory_bytes; });
  run.refuses_node("scratch_bytes'", [](auto& node) { node.scratch_bytes = 1ULL << 50; });
  run.refuses_node("planted_channel'", [](auto& node) { node.planted_channel = agent_channel; });
  run.refuses_node("limits.cpu_cores'", [](auto& node) { node.limits.cpu_cores = -1; });
  run.refuses_node("limits.disk_read'", [](auto& node) { node.limits.disk_read = 1; });
  run.refuses_node("limits.llc'", [](auto& node) { node.limits.llc = 2; });
}

TEST_CASE("hostile_coordinator: a node's payload is one that the run has taken, as it was then") {
  WithRun run;
  const auto file = run.folder.path / "env.sqfs";
  std::ofstream(file) << "hsqs" << std::string(24, 'x') << '\4' << std::string(200, 'x');
  const auto digest = run.client().take_payload(file);
  CHECK(digest == sha256_of_file(file));
  std::ofstream(file) << "something else";
  const auto with_payload = [&](const std::string& payload) {
    auto group = run.group;
    group.tenants[1][0].payload = payload;
    return group;
  };
  const auto made = run.client().plan_nodes(with_payload(digest)).nodes;
  REQUIRE(made.size() == 3);
  CHECK(made[0].payload_folder.empty());
  CHECK(made[2].payload_folder == "/tmp/virtrain/payload");
  CHECK(sha256_of_file(run.folder.path / "cache/images" / digest.substr(0, 32) / "disk") == digest);

  for (const auto& wrong : {digest.substr(1), digest + "0", "../../../../etc/shadow" + digest.substr(22),
                            "A" + digest.substr(1), digest.substr(0, 32) + "/" + digest.substr(33)}) {
    run.refuses_node("payload'", [&](auto& node) { node.payload = wrong; });
  }
  const std::string other(64, '0');
  run.refuses("the run has taken no payload " + other,
              [&](Host& host) { host.plan_nodes(with_payload(other)); });
  run.refuses("'payload' is", [](Host& host) { host.take_payload("images/env.sqfs"); });
  CHECK_THROWS_WITH(run.client().take_payload(file), Contains("it is not a squashfs image"));
  CHECK_THROWS_WITH(run.client().take_payload(run.folder.path), Contains("it is not a regular file"));
  CHECK_THROWS_WITH(run.client().take_payload(file.string() + "x"), Contains("No such file"));
}

TEST_CASE("hostile_coordinator: guests are as a scenario may say them") {
  WithRun run;
  const std::vector<std::pair<const char*, std::function<void(GuestSpec&)>>> harms{
      {"'guest.image'", [](auto& guest) { guest.image = "images/x"; }},
      {"'guest.image'", [](auto& guest) { guest.image = "/a\n<disk/>"; }},
      {"'guest.vcpus'", [](auto& guest) { guest.vcpus = 0; }},
      {"'guest.memory_bytes'", [](auto& guest) { guest.memory_bytes = 1; }},
      {"'guest.cpu_model'", [](auto& guest) { guest.cpu_model = "host,+x"; }},
      {"'guest.template'",
       [](auto& guest) {
         guest.domain_template = "<domain><devices><emulator>/bin/sh</emulator></devices></domain>";
       }},
      {"'guest.nccl_topology'", [](auto& guest) { guest.nccl_topology = "topo.xml"; }},
      {"'guest.network.queues'", [](auto& guest) { guest.network.queues = 100'000; }},
      {"'guest.network.mtu'", [](auto& guest) { guest.network.mtu = 1; }},
      {"'limits.network_in'", [](auto& guest) { guest.limits.network_in = 0; }}};
  for (const auto& [words, harm] : harms) {
    run.refuses_group(words, [&harm = harm](NodeGroupSpec& group) { harm(group.guest); });
    const auto guest = with<GuestSpec>(run.group.guest, harm);
    run.refuses(words, [&](Host& host) { host.check_guest(guest); });
    const auto group = with<NodeGroupSpec>(run.group, [&](auto& spec) { spec.guest = guest; });
    run.refuses(words, [&](Host& host) { host.planned_xml(group, 0, 0, 1, false); });
  }
  run.refuses("'limits.disk_write'",
              [](Host& host) { host.lacks_limits(NodeKind::slice, {.disk_write = std::uint64_t{1}}); });
  const auto refuses_image = [&](const std::string& words, const ImageSpec& image) {
    run.refuses(words, [&](Host& host) { host.make_image(image); });
  };
  refuses_image("'image'", {.image = "x.qcow2"});
  for (const auto* package : {"-o", "python3; reboot", "../x", "A", ""}) {
    refuses_image("'packages'", {.packages = {package}});
  }
  for (const auto* path : {"usr/x", "/usr/../../etc/x", "/./x", "/a\nb"}) {
    refuses_image("'texts'", {.texts = {{path, ""}}});
  }
  refuses_image("'texts'", {.texts = {{"/a", std::string(900'000, 'x')}, {"/b", std::string(900'000, 'x')}}});
}

TEST_CASE("hostile_coordinator: devices are this host's, the run's, and in a form that they have") {
  WithRun run;
  const DeviceGrant ours{.address = our_gpu};
  const auto with_grant = [&](const std::function<void(DeviceGrant&)>& harm) {
    return with<DeviceGrant>(ours, harm);
  };
  run.refuses_grant("address'", {.address = another_gpu});
  run.refuses_grant("address'", {.address = "0000:ff:00.0"});
  run.refuses_grant("address'", {.address = "../../../../etc"});
  run.refuses_grant("physical_function'", with_grant([](auto& one) { one.physical_function = another_gpu; }));
  run.refuses_grant("vgpu_type'", with_grant([](auto& one) { one.vgpu_type = "../x"; }));
  run.refuses_grant("uuid'", with_grant([](auto& one) { one.uuid = "../x"; }));
  run.refuses_grant("kind'", with_grant([](auto& one) { one.kind = GrantKind::virtual_function; }));
  run.refuses_grant("vgpu_type'", with_grant([](auto& one) { one.kind = GrantKind::mdev; }));

  const auto gpu = placed(ours, device_at(run.inventory, our_gpu));
  const std::vector<std::pair<const char*, std::function<void(PlacedDevice&)>>> harms{
      {"vendor'", [](auto& one) { one.vendor = "0x8086"; }},
      {"name'", [](auto& one) { one.name = "</domain>"; }},
      {"numa_node'", [](auto& one) { one.numa_node = 5; }},
      {"bridges'", [](auto& one) { one.bridges.assign(1000, "0000:16:02.0"); }},
      {"bars'", [](auto& one) { one.bars.clear(); }},
      {"mac'", [](auto& one) { one.mac = "x"; }}};
  for (const auto& [words, harm] : harms) {
    const auto harmed = with<PlacedDevice>(gpu, harm);
    run.refuses_node(std::string("devices[0].") + words, [&](auto& node) { node.devices = {harmed}; });
    DeviceDemand demand;
    demand.vms.resize(1);
    demand.vms[0].devices = {harmed};
    if (std::string_view(words) == "mac'") { continue; }
    run.refuses(words, [&](Host& host) { host.examine_devices(std::vector{demand}); });
  }
  run.refuses_group("'tenants[1][0].devices[0].grant.address'", [&](auto& group) {
    for (auto& tenant : group.tenants) { tenant[0].devices = {gpu}; }
  });
  const auto refuses_settings = [&](const std::string& words, const DeviceSettings& settings) {
    run.refuses(words, [&](Host& host) { host.set({ours}, settings); });
    run.refuses(words, [&](Host& host) { host.lend({ours}, {settings, {}}); });
  };
  refuses_settings("'settings.power_limit_watts'", {.power_limit_watts = 1e9});
  refuses_settings("'settings.graphics_clock_mhz'", {.graphics_clock_mhz = -1});
  for (const auto* address : {"0000:ff:00.0", "../../../../etc"}) {
    run.refuses("'addresses[0]'", [&](Host& host) { host.watch_devices({address}); });
  }
}

TEST_CASE("hostile_coordinator: vGPUs are of a type that their card offers") {
  constexpr const char* parent = "0000:3b:00.0";
  WithRun run("mdev-host", parent);
  const auto& card = device_at(run.inventory, parent);
  REQUIRE(!card.vgpu_types.empty());
  const DeviceGrant vgpu{.kind = GrantKind::mdev,
                         .address = parent,
                         .vgpu_type = card.vgpu_types[0].id,
                         .uuid = "00000000-0000-8000-8000-000000000001"};
  const auto refuses = [&](const std::string& words, const std::function<void(DeviceGrant&)>& harm) {
    const auto grant = with<DeviceGrant>(vgpu, harm);
    run.refuses(words, [&](Host& host) { host.lend({grant}, {}); });
  };
  refuses("'grants[0].vgpu_type'", [](auto& one) { one.vgpu_type = "../../../../../tmp"; });
  refuses("'grants[0].vgpu_type'", [](auto& one) { one.vgpu_type = "nvidia-1"; });
  refuses("'grants[0].uuid'", [](auto& one) { one.uuid = ""; });
  refuses("'grants[0].uuid'", [](auto& one) { one.uuid = "00000000-0000-4000-8000-00000000000/"; });
  refuses("'grants[0].kind'", [](auto& one) {
    one.kind = GrantKind::passthrough;
    one.vgpu_type = one.uuid = "";
  });
}

TEST_CASE("hostile_coordinator: names, addresses and texts have a form, and libvirt three addresses") {
  WithRun run;
  const auto script = run.folder.path / "script";
  std::ofstream(script) << "#!/bin/sh\ntouch " << (run.folder.path / "ran").string() << "\n";
  fs::permissions(script, fs::perms::owner_all);
  for (const auto& uri : {"qemu+ext:///system?command=" + script.string(), std::string("qemu+ssh://x/system"),
                          std::string("qemu:///system?socket=/tmp/x")}) {
    run.refuses("'libvirt'", [&](Host& host) { host.leftovers(uri, ""); });
  }
  run.refuses("'experiment'", [](Host& host) { host.leftovers("", "../x"); });
  run.refuses("'experiment'", [](Host& host) { host.forget({an_experiment, "x/y"}); });
  for (const auto& program : {script.string(), std::string("../script"), std::string("sh")}) {
    run.refuses("'program'", [&](Host& host) { host.look_at_cuda(program); });
  }
  run.refuses("'program'", [](Host& host) { host.has_image({}, {"virtrain-probe", "../script"}); });
  for (const auto& name : {std::string(), std::string("../x"), std::string(500, 'x'), std::string("a\nb")}) {
    run.refuses("'address'", [&](Host& host) { host.lift_quarantine(name); });
    run.refuses("'domain'", [&](Host& host) { host.domain_xml_of(name); });
  }
  const Canary canary = make_canary("a canary");
  for (const auto& bad : {Canary{"root's password", "root:$y$j9T$"}, Canary{"a\nb", canary.text}}) {
    run.refuses("'canary.", [&](Host& host) { host.plant(bad); });
    run.refuses("'canary.", [&](Host& host) { host.plant_in_memory(bad); });
    run.refuses("'canary.", [&](Host& host) { host.search_leftovers({bad}, canary); });
    run.refuses("'canary.", [&](Host& host) { host.search_leftovers({canary}, bad); });
  }
  run.refuses("'canaries'",
              [&](Host& host) { host.search_leftovers(std::vector<Canary>(100, canary), canary); });
  for (const auto& folder : {fs::path("record"), run.folder.path / "../record"}) {
    run.refuses("'folder'", [&](Host& host) { host.record(folder); });
  }
}

TEST_CASE("hostile_coordinator: requests out of order find nothing") {
  WithRun run;
  const auto vms = run.client().plan_nodes(run.group);
  const auto first = vms.nodes[0].id;
  run.refuses("no image", [&](Host& host) { host.start(first); });
  run.refuses("no image", [&](Host& host) { host.make_networks(vms.id); });
  run.refuses("no image", [&](Host& host) { host.counters(first); });
  run.refuses("no image", [&](Host& host) { host.check_topology(first, {}, ""); });
  run.refuses("'guest'", [&](Host& host) { host.check_topology(first, std::vector<PciFunction>(5000), ""); });
  for (const auto node : {first + 3, NodeId{0}, NodeId{-1}}) {
    run.refuses("there is no node", [&](Host& host) { host.start(node); });
    run.refuses("there is no node", [&](Host& host) { host.last_words(node); });
  }
  run.client().remove(vms.id);
  run.refuses("already", [&](Host& host) { host.start(first); });
  run.refuses("already", [&](Host& host) { host.make_networks(vms.id); });
}

TEST_CASE("hostile_coordinator: what root may read or write, and the caller may not, stays closed") {
  test::need_root();
  Hostess host(of_another);
  const auto secret = host.folder.path / "secret.qcow2";
  std::ofstream(secret) << std::string(4096, 'x');
  ::chmod(secret.c_str(), 0600);
  GuestSpec guest{.image = secret.string(), .vcpus = 1, .memory_bytes = 1ULL << 30};
  // Nor are they plugged into a network of root's.
  const HostNetwork bridge{HostNetworkKind::bridge, "xt-roots"};
  const auto run = with<RunSpec>(a_run(), [&](auto& spec) { spec.network = bridge; });
  for (const auto& call : std::initializer_list<std::function<void(Host&)>>{
           [&](Host& client) { client.begin(run); }, [&](Host& client) { client.look_at_network(bridge); }}) {
    host.refuses("bridge.conf does not allow it", call, ErrorCode::host_unable);
  }
  const HostNetwork functions{HostNetworkKind::vf, "xt-roots"};
  host.refuses(
      "/etc/virtrain/vf.conf does not allow it (root: echo 'allow xt-roots' >> /etc/virtrain/vf.conf",
      [&](Host& client) { client.look_at_network(functions); }, ErrorCode::host_unable);
  const auto words = "look at the guest image " + secret.string() + ": you may not read it";
  host.refuses(
      words, [&](Host& client) { client.check_guest(guest); }, ErrorCode::host_unable);
  REQUIRE(::chown(secret.c_str(), another_users_id, 0) == 0);
  CHECK_NOTHROW(host.client().check_guest(guest));  // theirs by now
  REQUIRE(::chown(secret.c_str(), 0, 0) == 0);
  const auto closed = host.folder.path / "record";
  host.refuses(
      closed.string(), [&](Host& client) { client.record(closed); }, ErrorCode::io);
  host.refuses("'program' is '/bin/sh'",
               [](Host& client) { client.begin({.experiment = an_experiment, .programs = {"/bin/sh"}}); });
  host.refuses("'program' is '/bin/sh'", [](Host& client) { client.has_image({}, {"/bin/sh"}); });
  host.client().begin(a_run());
  host.refuses(
      words, [&](Host& client) { client.make_image({.image = secret.string()}); }, ErrorCode::host_unable);
  host.refuses(
      "copy the payload " + secret.string() + ": Permission denied",
      [&](Host& client) { client.take_payload(secret); }, ErrorCode::host_unable);
}

}  // namespace virtrain::harness
