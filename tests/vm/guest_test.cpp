// Real virtual machines: needs root, QEMU, libvirt and supermin.

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/process_info.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/stub_client.h"
#include "tests/vm/stage.h"
#include "vmctl/guest/mirror/guest_image.h"
#include "vmctl/hypervisor/libvirt/daemon.h"
#include "vmctl/hypervisor/libvirt/hypervisor.h"
#include "vmctl/hypervisor/qemu_process.h"
#include "vmctl/process/host_claims.h"
#include "vmctl/process/paths.h"
#include "vmctl/resources/cleanup.h"
#include "vmctl/slice/net_devices.h"
#include "vmctl/slice/slice.h"

namespace virtrain::vmctl {
namespace {

using namespace std::chrono_literals;
using test::StubClient;
namespace fs = std::filesystem;

GuestImage stub_image() {
  return build_mirror_image(
      {{{VIRTRAIN_BINARY_DIR "/virtrain-stub-agent", "/usr/bin/virtrain-agent"}}, {}, cache_dir()});
}

bool exists(Hypervisor& hypervisor, const std::string& domain) {
  const auto all = hypervisor.domains();
  return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.name == domain; });
}

struct AsRoot {
  AsRoot() { test::need_root(); }
};

/// libvirt, and nothing of these tests on the host before and after.
struct Bench : AsRoot {
  const LibvirtDaemon daemon;
  const std::unique_ptr<Hypervisor> hypervisor = connect_libvirt("qemu:///system");
  const Stage stage{*hypervisor};
};

TEST_CASE_METHOD(Bench, "two guests share one read-only root, talk over their channels and see each other") {
  const auto image = stub_image();
  const auto root_time = fs::last_write_time(image.root);
  const auto logs = log_folder();

  hypervisor->create_network({"virtrain-vmtest", "vtvmtest", {"vmtest", ""}});
  for (const int n : {1, 2}) { hypervisor->create_domain(guest(image, n, logs)); }
  StubClient first(hypervisor->open_channel("virtrain-vmtest-1"));
  StubClient second(hypervisor->open_channel("virtrain-vmtest-2"));
  INFO("console 1: " << read_file(logs / "console1").value_or(""));
  CHECK(first.line() == "hello g1");
  CHECK(second.line() == "hello g2");

  {
    // 1 MB each way, byte for byte
    std::string megabyte;
    for (std::size_t i = 0; i < 1'000'000; ++i) { megabyte += static_cast<char>(i * 2654435761U >> 13); }
    first.send("echo 1000000\n" + megabyte);
    CHECK(first.bytes(1'000'000) == megabyte);
    // a write in one guest is not seen by the other
    first.send("put /usr/mark only-here\n");
    CHECK(first.line() == "ok");
    CHECK(first.ask("cat /usr/mark") == "only-here");
    CHECK(second.ask("cat /usr/mark") == "(cannot be read)");
    // what init set
    CHECK(first.ask("cat /proc/sys/net/ipv4/tcp_retries2") == "5\n");
    CHECK(first.ask("cat /etc/hosts") == "127.0.0.1 localhost\n10.77.9.11 g1\n10.77.9.12 g2\n");
    CHECK(first.ask("cat /proc/sys/kernel/random/boot_id") !=
          second.ask("cat /proc/sys/kernel/random/boot_id"));
    CHECK(first.ask("run uname -r") == image.kernel_version + "\n");
    // a second client is refused in libvirt's words
    try {
      hypervisor->open_channel("virtrain-vmtest-1");
      FAIL("a second client was let in");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::busy);
      CHECK(error.message().find("Active channel stream exists") != std::string::npos);
    }
    // TCP between the guests: bash speaks it
    CHECK(second.ask("run bash -c 'exec 3<>/dev/tcp/g1/1'").find("Connection refused") != std::string::npos);

    const auto stats = hypervisor->domain_stats("virtrain-vmtest-1");
    REQUIRE(stats.vcpus.size() == 1);
    CHECK(stats.vcpus[0].time_ns > 0);
    CHECK(stats.vcpus[0].wait_ns.has_value());
    CHECK(stats.cpu_time_ns >= stats.vcpus[0].time_ns);
    CHECK(stats.rss_bytes > (100U << 20));
    REQUIRE(stats.nics.size() == 1);
    CHECK(stats.nics[0].tap == "vttap1");
    CHECK(stats.nics[0].tx_bytes > 0);

    const auto qemu = qemu_pid("virtrain-vmtest-1");
    REQUIRE(qemu);
    if (daemon.started_by_us()) { CHECK(process_info(*qemu)->parent == ::getpid()); }
    // destroyed: end of file, soon
    hypervisor->destroy_domain("virtrain-vmtest-1");
    CHECK(::kill(*qemu, 0) != 0);  // reaped, too
    CHECK(first.ends(2s));
    CHECK_FALSE(exists(*hypervisor, "virtrain-vmtest-1"));
    // the agent's end is the guest's end
    second.send("exit\n");
    CHECK(second.ends(5s));
  }
  CHECK(fs::last_write_time(image.root) == root_time);
  struct stat status {};
  ::stat(image.root.c_str(), &status);
  CHECK(status.st_uid == 0);
}

/// A host's own bridge with a NIC in it; and another NIC, at whose other end is another host, with an end of
/// a VXLAN that has the address of a node.
struct HostsNetworks {
  static constexpr std::uint32_t number = 7'342'091;
  HostsNetworks() {
    remove();
    run_ip({},
           {"link add xtvm-bridge type bridge", "link add xtvm-port mtu 1400 type veth peer name xtvm-port2",
            "link set xtvm-port master xtvm-bridge up", "link set xtvm-port2 up", "link set xtvm-bridge up",
            "netns add xtvm-far", "link add xtvm-nic type veth peer name eth1 netns xtvm-far",
            "addr add 198.18.47.1/24 dev xtvm-nic", "link set xtvm-nic up"});
    run_ip("xtvm-far",
           {"addr add 198.18.47.2/24 dev eth1", "link set eth1 up",
            fmt::format(
                "link add far type vxlan id {} local 198.18.47.2 remote 198.18.47.1 dev eth1 dstport 4789",
                number),
            "addr add 10.77.9.99/24 dev far", "link set far up"});
  }
  ~HostsNetworks() { remove(); }
  static void remove() {
    for (const auto* link : {"xtvm-bridge", "xtvm-port", "xtvm-nic", "vtxvmtest"}) { delete_link(link); }
    delete_namespace("xtvm-far");
  }
  static std::string bridge() {
    std::string text;
    for (const auto* file : {"address", "mtu", "flags", "addr_assign_type"}) {
      text += read_value(fs::path("/sys/class/net/xtvm-bridge") / file).value_or("?") + " ";
    }
    return text;
  }
};

/// A packet of so many bytes, headers included, to a port that nobody has: "refused" once the other side has
/// said so, which it does only if the packet came whole.
std::string knock(const std::string& address, int bytes) {
  return fmt::format(
      "/usr/bin/python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
      "s.setsockopt(socket.IPPROTO_IP, 10, 2); s.settimeout(20); s.connect((\"{}\", 9)); "
      "s.send(b\"x\" * {}); s.recv(1)' 2>&1 | grep -q ConnectionRefusedError && echo refused",
      address, bytes - 28);
}

TEST_CASE_METHOD(Bench,
                 "guests reach nodes over a bridge of the host's and over VXLAN, with the MTU of either") {
  const HostsNetworks networks;
  const auto image = stub_image();
  const auto logs = log_folder();
  const auto before = HostsNetworks::bridge();
  auto on_bridge = guest(image, 1, logs), tunnelled = guest(image, 2, logs);
  on_bridge.nics[0].kind = NicKind::bridge;
  on_bridge.nics[0].source = "xtvm-bridge";
  on_bridge.nics[0].settings.mtu = 1400;
  tunnelled.nics[0].settings.mtu = 1450;
  hypervisor->create_network({"virtrain-vmtest", "vtvmtest", {"vmtest", ""}});
  create_vxlan({"vtxvmtest", "vtvmtest", HostsNetworks::number, "xtvm-nic", "198.18.47.1", {"198.18.47.2"}},
               "vmtest");
  for (const auto& spec : {on_bridge, tunnelled}) { hypervisor->create_domain(spec); }
  StubClient first(hypervisor->open_channel(on_bridge.name)),
      second(hypervisor->open_channel(tunnelled.name));
  CHECK(first.line() == "hello g1");
  CHECK(second.line() == "hello g2");
  CHECK(first.ask("cat /sys/class/net/eth0/mtu") == "1400\n");
  CHECK(second.ask("cat /sys/class/net/eth0/mtu") == "1450\n");
  CHECK(HostsNetworks::bridge() == before);

  SliceSpec spec;
  spec.name = "vt-vmtest";
  spec.experiment = "vmtest";
  spec.hostname = "s1";
  spec.cores = {0};
  spec.memory_bytes = 256U << 20;
  spec.network = {"xtvm-bridge", "vtvvmtest", "10.77.9.77/24", 1400, "fe:54:00:77:09:77"};
  spec.argv = {VIRTRAIN_BINARY_DIR "/virtrain-stub-agent"};
  spec.temporary_folder = "/tmp/own";
  const auto slice = start_slice(spec);
  StubClient in_slice(slice->take_channel());
  CHECK(in_slice.line() == "hello s1");
  CHECK(HostsNetworks::bridge() == before);
  CHECK(in_slice.ask("run " + knock("10.77.9.11", 1400)) == "refused\n");
  const auto from_far = [](int bytes) {
    return run_checked({"ip", "netns", "exec", "xtvm-far", "sh", "-c", knock("10.77.9.12", bytes)}).out;
  };
  CHECK(from_far(100) == "refused\n");
  CHECK(from_far(1450) == "refused\n");
  slice->destroy();
  hypervisor->destroy_domain(on_bridge.name);
  CHECK(HostsNetworks::bridge() == before);
  CHECK(bridge_ports("xtvm-bridge") == std::vector<std::string>{"xtvm-port"});
}

TEST_CASE_METHOD(Bench, "a guest that is told to power off shuts down, and its VM is gone") {
  hypervisor->create_network({"virtrain-vmtest", "vtvmtest", {"vmtest", ""}});
  const auto spec = guest(stub_image(), 1, log_folder());
  hypervisor->create_domain(spec);
  StubClient client(hypervisor->open_channel(spec.name));
  CHECK(client.line() == "hello g1");
  client.send("run " + std::string(power_off_command) + "\n");
  CHECK(client.ends(60s));
  for (int tries = 0; tries < 100 && exists(*hypervisor, spec.name); ++tries) {
    std::this_thread::sleep_for(100ms);
  }
  CHECK_FALSE(exists(*hypervisor, spec.name));
}

TEST_CASE_METHOD(Bench, "a guest that cannot boot says why on its console and ends") {
  const auto image = stub_image();
  const auto logs = log_folder();
  hypervisor->create_network({"virtrain-vmtest", "vtvmtest", {"vmtest", ""}});
  auto spec = guest(image, 1, logs);
  const auto empty = logs / "no-file-system";
  std::ofstream(empty) << std::string(1U << 20, '\0');
  spec.root_image = empty;
  hypervisor->create_domain(spec);
  StubClient client(hypervisor->open_channel(spec.name));
  CHECK(client.ends(30s));
  CHECK(read_file(spec.console_log).value_or("").find("virtrain-guest-init: mount /ro") != std::string::npos);
}

TEST_CASE_METHOD(Bench,
                 "domains and networks carry their mark, and what does not exist is no error to destroy") {
  hypervisor->create_network({"virtrain-vmtest", "vtvmtest", {"vmtest", "tenant"}});
  const auto networks = hypervisor->networks();
  const auto ours = std::find_if(networks.begin(), networks.end(),
                                 [](const auto& n) { return n.name == "virtrain-vmtest"; });
  REQUIRE(ours != networks.end());
  CHECK(ours->bridge == "vtvmtest");
  CHECK(ours->mark == LeaseMark{"vmtest", "tenant"});
  hypervisor->destroy_network("virtrain-vmtest");
  hypervisor->destroy_network("virtrain-vmtest");
  hypervisor->destroy_domain("virtrain-vmtest-1");
  CHECK_FALSE(exists(*hypervisor, "virtrain-vmtest-1"));
  CHECK_THROWS_AS(hypervisor->open_channel("virtrain-vmtest-1"), Error);
  CHECK_THROWS_AS(hypervisor->domain_stats("virtrain-vmtest-1"), Error);
  CHECK(hypervisor->versions().libvirt.find('.') != std::string::npos);
}

TEST_CASE_METHOD(Bench, "a VM and its network are found by their marks, without a journal, and cleaned") {
  const auto image = stub_image();
  const auto logs = log_folder();
  hypervisor->create_network({"virtrain-vmtest", "vtvmtest", {"vmtest", ""}});
  hypervisor->create_domain(guest(image, 1, logs));

  CleanupView ours;  // another harness may be at work on this host
  for (const auto& leftover : find_leftovers(hypervisor.get(), nullptr).leftovers) {
    if (leftover.experiment == "vmtest") { ours.leftovers.push_back(leftover); }
  }
  REQUIRE(ours.leftovers.size() == 2);
  CHECK(ours.leftovers[0].name == "virtrain-vmtest-1");
  CHECK(ours.leftovers[1].name == "virtrain-vmtest");
  const auto result = clean(ours, hypervisor.get(), nullptr);
  CHECK(result.failed.empty());
  CHECK_FALSE(exists(*hypervisor, "virtrain-vmtest-1"));
  for (const auto& network : hypervisor->networks()) { CHECK(network.name != "virtrain-vmtest"); }
  CHECK_FALSE(fs::exists("/sys/class/net/vtvmtest"));
  CHECK_FALSE(fs::exists("/sys/class/net/vttap1"));
}

TEST_CASE("the daemon's death ends channels and calls, and a new daemon is found again") {
  test::need_root();
  std::string why;
  if (libvirt_answers("qemu:///system", &why) && !LibvirtDaemon().started_by_us()) {
    test::skip("a libvirtd that is not ours runs here; this test kills it");
  }
  auto daemon = std::make_unique<LibvirtDaemon>();
  const auto hypervisor = connect_libvirt("qemu:///system");
  for (const auto& domain : hypervisor->domains()) {
    if (domain.mark && domain.mark->experiment != "vmtest") { test::skip("another virtrain is at work"); }
  }
  const auto image = stub_image();
  const Stage stage(*hypervisor);
  const auto logs = log_folder();
  hypervisor->create_network({"virtrain-vmtest", "vtvmtest", {"vmtest", ""}});
  hypervisor->create_domain(guest(image, 1, logs));
  StubClient client(hypervisor->open_channel("virtrain-vmtest-1"));
  client.line();
  const auto pid = std::stoi(read_file("/run/libvirtd.pid").value_or("0"));
  REQUIRE(pid > 1);
  REQUIRE(kill_and_wait(pid));
  CHECK(client.ends(5s));
  CHECK_THROWS_AS(hypervisor->domains(), Error);
  daemon.reset();  // the domain still runs, so this stops nothing
  daemon = std::make_unique<LibvirtDaemon>();
  CHECK(exists(*hypervisor, "virtrain-vmtest-1"));
  hypervisor->destroy_domain("virtrain-vmtest-1");
  CHECK_FALSE(exists(*hypervisor, "virtrain-vmtest-1"));
}

TEST_CASE("a daemon whose virtrain was killed as it started is stopped by the next one") {
  test::need_root();
  for (const auto& process :
       all_processes()) {  // one of a container, or of another test, has mounts of its own
    const bool with_our_mounts =
        link_name(fmt::format("/proc/{}/ns/mnt", process.pid)) == link_name("/proc/self/ns/mnt");
    if (!with_our_mounts) { continue; }
    if (process.name == "libvirtd" || process.name == "virtlogd") {
      test::skip("a libvirt daemon runs here");
    }
  }
  CommandOptions options;
  options.environment = {"VIRTRAIN_STARTED_FOR=" + claims_folder().string()};
  run_checked({"/usr/sbin/virtlogd", "-d"}, options);
  const auto logs_by_us = [] {
    for (const auto& process : all_processes()) {
      if (process.name == "virtlogd" &&
          process_variable(process.pid, "VIRTRAIN_STARTED_FOR") == claims_folder().string()) {
        return true;
      }
    }
    return false;
  };
  REQUIRE(logs_by_us());
  CHECK(LibvirtDaemon().started_by_us());
  CHECK_FALSE(logs_by_us());
}

}  // namespace
}  // namespace virtrain::vmctl
