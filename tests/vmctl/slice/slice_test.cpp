// Real slices: namespaces, cgroups and veths of this host. Root only.

#include "vmctl/slice/slice.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/error.h"
#include "common/system/process_info.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/stub_client.h"
#include "vmctl/machine/inventory.h"
#include "vmctl/slice/cgroups.h"

namespace virtrain::vmctl {
namespace {

using namespace std::chrono_literals;
using test::StubClient;
namespace fs = std::filesystem;

constexpr const char* bridge_name = "vtslicetest";

SliceSpec slice(int number, bool isolated = true) {
  const auto n = std::to_string(number);
  SliceSpec spec;
  spec.name = "vt-test" + n;
  spec.experiment = "slicetest";
  spec.hostname = "s" + n;
  spec.cores = {load_inventory().cores[0].id};
  spec.memory_bytes = 256U << 20;
  spec.isolated = isolated;
  if (isolated) { spec.network = {bridge_name, "vttest" + n, "10.78.9.1" + n + "/24"}; }
  spec.hosts = {{"s1", "10.78.9.11"}, {"s2", "10.78.9.12"}};
  spec.argv = {VIRTRAIN_BINARY_DIR "/virtrain-stub-agent"};
  spec.temporary_folder = "/tmp/own";
  return spec;
}

struct Bridge {
  Bridge() {
    destroy_bridge(bridge_name);
    create_bridge(bridge_name, "10.78.9.1/24", "slicetest");
  }
  ~Bridge() { destroy_bridge(bridge_name); }
};

bool nothing_left() {
  for (const auto& device : list_links()) {
    if (device.starts_with("vttest")) { return false; }
  }
  for (const auto& name : list_namespaces()) {
    if (name.starts_with("vt-test")) { return false; }
  }
  for (const auto& folder : find_slice_cgroups()) {
    if (folder.filename().string().starts_with("vt-test")) { return false; }
  }
  return true;
}

bool within(std::chrono::milliseconds limit, const std::function<bool()>& condition) {
  for (const auto end = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < end;) {
    if (condition()) { return true; }
    std::this_thread::sleep_for(10ms);
  }
  return condition();
}

TEST_CASE("a slice whose network is a device of the host's has it as eth0, and the host no longer") {
  test::need_root();
  delete_link("xtslice-a");
  run_ip({},
         {"link add xtslice-a type veth peer name xtslice-b", "link set xtslice-a address 52:54:00:aa:bb:cc",
          "link set xtslice-a up", "addr add 10.78.9.1/24 dev xtslice-b", "link set xtslice-b up"});
  auto spec = slice(1);
  spec.network = {.address = "10.78.9.11/24", .mtu = 1400, .device = "xtslice-a"};
  {
    const auto running = start_slice(spec);
    StubClient agent(running->take_channel());
    CHECK(agent.line() == "hello s1");
    CHECK(agent.ask("run cat /sys/class/net/eth0/address") == "52:54:00:aa:bb:cc\n");
    CHECK(agent.ask("run cat /sys/class/net/eth0/mtu") == "1400\n");
    CHECK(agent.ask("run ip -o -4 addr show eth0 | grep -c 10.78.9.11/24") == "1\n");
    CHECK_FALSE(fs::exists("/sys/class/net/xtslice-a"));
    running->destroy();
  }
  CHECK(nothing_left());
  delete_link("xtslice-b");
  spec.limits.network_out = 1U << 20;
  CHECK_THROWS_WITH(start_slice(spec), test::Contains("no end on the host to bound"));
  CHECK(nothing_left());
}

TEST_CASE("two isolated slices see their own host, and each other only over the bridge") {
  test::need_root();
  const Bridge bridge;
  const auto first = start_slice(slice(1));
  const auto second = start_slice(slice(2));
  StubClient one(first->take_channel()), two(second->take_channel());
  CHECK(one.line() == "hello s1");
  CHECK(two.line() == "hello s2");

  CHECK(one.ask("run hostname") == "s1\n");
  CHECK(one.ask("run nproc") == "1\n");
  CHECK(one.ask("cat /etc/hosts") == "127.0.0.1 localhost\n10.78.9.11 s1\n10.78.9.12 s2\n");
  CHECK(one.ask("cat /proc/sys/net/ipv4/tcp_retries2") == "5\n");
  CHECK(one.ask("run ls /sys/class/net | tr '\\n' ' '") == "eth0 lo ");
  CHECK(one.ask("run cat /proc/1/comm") == "virtrain-stub-a\n");
  CHECK(one.ask("run stat -c %a:%n $TMPDIR") == "700:/tmp/own\n");
  one.send("put /tmp/mark x\n");
  CHECK(one.line() == "ok");
  one.send("put /dev/shm/mark x\n");
  CHECK(one.line() == "ok");
  CHECK(two.ask("cat /tmp/mark") == "(cannot be read)");
  CHECK(two.ask("cat /dev/shm/mark") == "(cannot be read)");
  CHECK_FALSE(fs::exists("/dev/shm/mark"));

  const auto before = nic_bytes("vttest1");
  REQUIRE(before);
  CHECK(two.ask("run bash -c 'exec 3<>/dev/tcp/s1/1'").find("Connection refused") != std::string::npos);
  CHECK(nic_bytes("vttest1")->rx > before->rx);

  CHECK(first->applied().at("cores") == std::to_string(slice(1).cores[0]));
  CHECK(first->applied().at("namespaces") == "net uts ipc pid mount");
  if (first->applied().at("memory").starts_with("cgroup")) {
    CHECK(one.ask("run cat /proc/self/cgroup").find("vt-test1") != std::string::npos);
  }

  first->destroy();
  CHECK(one.ends(2s));
  first->destroy();  // again is fine
  second->destroy();
  CHECK(nothing_left());
}

TEST_CASE("a slice with limits has half a core, and sends no faster than it may") {
  test::need_root();
  NodeLimits limits;
  limits.cpu_cores = 0.5;
  limits.disk_write = 10U << 20;
  limits.network_out = 1U << 20;
  if (!lacks_cgroups(limits).empty() || !lacks_limits_of_sending().empty()) {
    test::skip("no such limits here: " + lacks_cgroups(limits) + lacks_limits_of_sending());
  }
  const Bridge bridge;
  auto spec = slice(1);
  spec.limits = limits;
  const auto bounded = start_slice(spec);
  StubClient client(bounded->take_channel());
  CHECK(client.line() == "hello s1");
  CHECK(bounded->applied().at("limits") == "cpu 0.5 cores, disk_write 10MiB/s, network_out 1MiB/s");
  // A loop of two seconds gets one second of CPU time. Others on the core leave it less, never more.
  const auto times = client.ask(
      "run bash -c 'end=$((SECONDS + 2)); while [ $SECONDS -lt $end ]; do :; done; times' | head -1");
  INFO(times);
  const auto seconds = std::stod(times.substr(times.find('m') + 1));
  CHECK(seconds < 1.7);
  CHECK(client.ask("run cat /proc/self/cgroup").find("vt-test1") != std::string::npos);
  bounded->destroy();
  CHECK(nothing_left());
}

TEST_CASE("limits that no cgroup or network can hold are refused, and nothing is left") {
  test::need_root();
  auto spec = slice(1, false);
  spec.limits.network_in = 1U << 20;
  try {
    start_slice(spec);
    FAIL("it started");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
    CHECK(std::string(error.what()).find("no network of its own to bound (network_in 1MiB/s)") !=
          std::string::npos);
  }
  CHECK(nothing_left());
}

TEST_CASE("a slice that uses more memory than it has is stopped, not the host") {
  test::need_root();
  const Bridge bridge;
  const auto bounded = start_slice(slice(1));
  StubClient client(bounded->take_channel());
  CHECK(client.line() == "hello s1");
  const auto said =
      client.ask("run bash -c 'x=$(head -c 600000000 /dev/zero | tr \"\\0\" x); echo got ${#x}'");
  CHECK(said.find("got 600000000") == std::string::npos);
  CHECK(client.ask("run echo alive") == "alive\n");
}

TEST_CASE("a shared slice has cores and memory, and the host's own network") {
  ::setenv("OMPI_MCA_x", "1", 1);
  const auto shared = start_slice(slice(3, false));
  ::unsetenv("OMPI_MCA_x");
  StubClient client(shared->take_channel());
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  CHECK(client.line() == "hello " + std::string(host));
  CHECK(client.ask("run nproc") == "1\n");
  CHECK(client.ask("run echo $VIRTRAIN_SLICE $OMPI_MCA_x") == "vt-test3\n");
  // what the agent left running ends with the slice
  const auto pid =
      static_cast<pid_t>(std::stol(client.ask("run setsid sleep 1000 >/dev/null 2>&1 & echo $!")));
  REQUIRE(process_info(pid));
  shared->destroy();
  CHECK_FALSE(process_info(pid));
  CHECK(nothing_left());
}

TEST_CASE("an isolated slice without root says what is missing") {
  if (::geteuid() == 0 && ::seteuid(65534) != 0) { test::skip("cannot drop root"); }
  try {
    start_slice(slice(4));
    FAIL("it started");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
    CHECK(error.message().find("root") != std::string::npos);
  }
  CHECK((::getuid() != 0 || ::seteuid(0) == 0));
}

TEST_CASE("an agent that is not there is an error with its path, and leaves nothing") {
  test::need_root();
  const Bridge bridge;
  auto spec = slice(1);
  spec.argv = {"/nonexistent/agent"};
  try {
    start_slice(spec);
    FAIL("it started");
  } catch (const Error& error) { CHECK(error.message().find("/nonexistent/agent") != std::string::npos); }
  CHECK(nothing_left());
}

TEST_CASE("everything in a slice ends when the process that made it is killed") {
  test::need_root();
  const Bridge bridge;
  int said[2];
  REQUIRE(::pipe(said) == 0);
  const pid_t harness = ::fork();
  if (harness == 0) {
    const auto made = start_slice(slice(1));
    StubClient client(made->take_channel());
    client.line();
    client.ask("run setsid sleep 1000 >/dev/null 2>&1 &");
    const pid_t helper = made->pid();
    if (::write(said[1], &helper, sizeof helper) < 0) { ::_exit(1); }
    while (true) { ::pause(); }
  }
  pid_t helper = 0;
  REQUIRE(::read(said[0], &helper, sizeof helper) == sizeof helper);
  const auto tree = process_tree(helper);
  REQUIRE(tree.size() >= 3);  // helper, agent, sleep
  ::kill(harness, SIGKILL);
  ::waitpid(harness, nullptr, 0);
  const auto all_gone = [&] {
    return std::none_of(tree.begin(), tree.end(), [](pid_t pid) { return process_info(pid).has_value(); });
  };
  CHECK(within(3s, all_gone));
  delete_link("vttest1");
  delete_namespace("vt-test1");
  for (const auto& folder : find_slice_cgroups()) {
    if (folder.filename() == "vt-test1") { remove_cgroup(folder); }
  }
  CHECK(nothing_left());
}

}  // namespace
}  // namespace virtrain::vmctl
