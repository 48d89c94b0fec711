// Several hosts as one run has them: FakeHosts, whose faults are planted in one of them.

#include "harness/hosts/run_hosts.h"

#include <chrono>
#include <memory>
#include <thread>

#include "harness/plan/host_shares.h"
#include "harness/plan/node_group.h"
#include "harness/scenario/decode/decode.h"
#include "tests/support/catch.h"
#include "tests/support/fake_host.h"
#include "tests/support/framed_host.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::harness {
namespace {

using test::Contains;
using test::FakeHost;
using test::Fault;
using test::FramedHost;
using vmctl::HostNetworkKind;
namespace fs = std::filesystem;

const std::string experiment = "20261120t083012-7f3a2b";

/// Two FakeHosts, "a" and "b", joined by VXLAN.
struct TwoHosts {
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<FakeHost>> fakes;
  std::vector<std::unique_ptr<FramedHost>> framed;
  std::vector<NamedHost> named;
  FakeHost& a = add("a");
  FakeHost& b = add("b");
  RunHosts hosts{named};

  FakeHost& add(const std::string& name) {
    fakes.push_back(std::make_unique<FakeHost>(folder.path, fs::path(VIRTRAIN_BINARY_DIR) / "virtrain-agent",
                                               std::map<std::string, fs::path>()));
    framed.push_back(std::make_unique<FramedHost>(*fakes.back(), name));
    named.push_back({name, {HostNetworkKind::vxlan, "data0"}, framed.back()->take_client()});
    return *fakes.back();
  }
  vmctl::RunSpec run() const { return {experiment, "", vmctl::HostMode::system, true, {}}; }
};

/// Two tenants with two nodes each, one of them on each host.
vmctl::NodeGroupSpec four_nodes() {
  const auto scenario = decode_scenario(
      "name: hosts\nworkload: {batch_size: 4}\nguest: {vcpus: 1, memory: 512MiB}\n"
      "cases: [{name: two, tenants: [{nodes: 2}, {nodes: 2}]}]\narms: [vm]\npairs: 1\n",
      "hosts.yaml");
  const auto inventory = FakeHost::small_inventory();
  auto plan = make_plan(scenario, {{"a", inventory, false}, {"b", inventory, false}});
  give_addresses(plan, experiment);
  return node_group(plan.placements.at(0), arm_vm);
}

std::string words_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) { return error.what(); }
  return "";
}

TEST_CASE("each host is told its name and where the others' tunnels end") {
  TwoHosts two;
  two.hosts.begin(two.run());
  CHECK(two.a.run().host == "a");
  CHECK(two.b.run().host == "b");
  CHECK(two.b.run().network.name == "data0");
  CHECK(two.a.run().peers.size() == 1);
  CHECK(two.a.calls("look_at_network") == 1);
  FakeHost alone(two.folder.path, "", {});
  RunHosts only(alone);
  only.begin(two.run());
  CHECK(alone.run().host.empty());
  CHECK(alone.calls("look_at_network") == 0);
}

TEST_CASE("a machine that is there under two names is refused, and not waited for") {
  TwoHosts two;
  const auto lease = "lease experiment:" + two.run().experiment;
  two.b.plant_fault("begin", Fault{.error = Error(lease, ErrorCode::busy, "held by another run")});
  try {
    two.hosts.begin(two.run());
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
    CHECK_THAT(error.what(), Contains("b: lease experiment:") && Contains("two names lead to one machine"));
  }
}

TEST_CASE("hosts are taken all or none, in the order of their names") {
  TwoHosts two;
  two.hosts.begin(two.run());
  two.b.plant_fault("acquire", Fault{.error = Error("take cores", ErrorCode::busy, "somebody has them")});
  const ByHost<std::vector<std::string>> wanted{{"a", {"core:0"}}, {"b", {"core:1"}}};
  CHECK(words_of([&] { two.hosts.acquire(wanted); }) == "b: take cores: somebody has them");
  CHECK(two.a.left() == std::set<std::string>{"run"});
  CHECK(two.a.calls("end") == 1);
  CHECK(two.a.calls("begin") == 2);
  two.hosts.acquire(wanted);
  CHECK(two.a.left() == std::set<std::string>{"resources", "run"});
  CHECK(two.b.left() == std::set<std::string>{"resources", "run"});
  two.a.plant_fault("acquire", Fault{.error = Error("take cores", ErrorCode::busy, "no")}, 3);
  CHECK_THAT(words_of([&] { two.hosts.acquire(wanted); }), Contains("a: take cores"));
  CHECK(two.b.calls("acquire") == 2);
}

TEST_CASE("nodes are numbered over the run, in the order of their tenants, and each goes to its host") {
  TwoHosts two;
  two.hosts.begin(two.run());
  const auto group = two.hosts.plan_nodes(four_nodes());
  REQUIRE(group.nodes.size() == 4);
  for (std::size_t n = 0; n < 4; ++n) {
    CHECK(group.nodes[n].id == static_cast<vmctl::NodeId>(n) + 1);
    CHECK(group.nodes[n].tenant == n / 2);
    CHECK(group.nodes[n].placed == n % 2);
  }
  two.hosts.make_networks(group.id);
  CHECK(two.a.left().contains("network 1"));
  CHECK(two.b.left().contains("network 1"));
  two.b.let_wait(2, std::chrono::seconds(3));  // its second: the fourth of the run
  for (int tries = 0; tries < 100 && two.hosts.waiting_time(4).count() == 0;
       ++tries) {  // it tells once a second
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(two.hosts.waiting_time(4) == std::chrono::seconds(3));
  CHECK(two.hosts.waiting_time(2) == std::chrono::seconds(0));
  two.a.plant_fault("last_words", Fault{.error = Error("read", ErrorCode::io, "refused")}, 0);
  CHECK_THAT(words_of([&] { two.hosts.last_words(1); }), Contains("a: read: refused"));
  CHECK_NOTHROW(two.hosts.last_words(2));
  CHECK(two.hosts.remove(group.id).left.empty());
  CHECK(two.b.left() == std::set<std::string>{"run"});
}

TEST_CASE("what one host could not remove keeps no other from removing its part") {
  TwoHosts two;
  two.hosts.begin(two.run());
  const auto group = two.hosts.plan_nodes(four_nodes());
  two.hosts.make_networks(group.id);
  two.a.plant_fault("remove", Fault{.error = Error("call remove", ErrorCode::io, "the host is gone")});
  const auto left = two.hosts.remove(group.id).left;
  REQUIRE(left.size() == 1);
  CHECK(left[0] == "a: call remove: the host is gone");
  CHECK(two.b.left() == std::set<std::string>{"run"});
  two.a.plant_fault("end", Fault{.error = Error("call end", ErrorCode::io, "the host is gone")});
  CHECK_NOTHROW(two.hosts.end(true));
  CHECK(two.b.ended() == true);
}

TEST_CASE("a host that is gone gives devices back and ends by itself, and the others do what they are told") {
  TwoHosts two;
  two.hosts.begin(two.run());
  two.framed[0]->server().stop("the link was cut");
  CHECK(two.hosts.end_lending().empty());
  CHECK(two.b.calls("end_lending") == 1);
  CHECK_NOTHROW(two.hosts.end(true));
  CHECK(two.b.ended() == true);
}

TEST_CASE("hosts work at once: a slow one costs its own time and no other's") {
  TwoHosts two;
  two.hosts.begin(two.run());
  for (auto* host : {&two.a, &two.b}) { host->plant_fault("make_image", {.delay = std::chrono::seconds(1)}); }
  const auto began = std::chrono::steady_clock::now();
  two.hosts.make_image({});
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::milliseconds(1800));
}

TEST_CASE("what is of one host is refused where there are several") {
  TwoHosts two;
  CHECK_THAT(words_of([&] { two.hosts.only(); }), Contains("the run has several hosts"));
}

}  // namespace
}  // namespace virtrain::harness
