// Machines that exist already, by launchers that lead to this one.

#include "harness/hosts/attached_host.h"

#include <boost/asio/use_future.hpp>
#include <signal.h>

#include <filesystem>
#include <future>

#include "harness/hosts/run_hosts.h"
#include "tests/harness/agent/agent_process.h"
#include "tests/support/catch.h"
#include "tests/support/fake_host.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::harness {
namespace {

using test::Contains;
namespace fs = std::filesystem;
namespace asio = boost::asio;

AttachedMachine machine_by(const std::string& name, std::vector<std::string> launcher) {
  AttachedMachine machine;
  machine.name = name;
  machine.launcher = std::move(launcher);
  return machine;
}

std::string refusal_of(const std::vector<AttachedMachine>& machines) {
  const TemporaryFolder folder;
  test::FakeHost fake(folder.path, "", {});
  RunHosts hosts(fake);
  const auto attached = attached_hosts(machines);
  hosts.attach(machines, attached);
  try {
    hosts.begin({});
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
    return error.message();
  }
  return "(accepted)";
}

TEST_CASE("machines that cannot be attached are refused by name, and one that is there twice") {
  CHECK_THAT(refusal_of({machine_by("c:1", {"env"}), machine_by("c:2", {"nice"})}),
             Contains("c:1 and c:2 are one machine: both have the same machine-id and boot id"));
  CHECK_THAT(refusal_of({machine_by("c:1", {"false"})}),
             Contains("c:1: start a shell by its launcher: the launcher ended"));
  CHECK_THAT(refusal_of({machine_by(
                 "c:1", {"sh", "-c", "echo 'me@vm: Permission denied (publickey).' >&2; exit 255"})}),
             Contains("the launcher asks for a password or a key that it has not"));
  CHECK_THAT(refusal_of({machine_by("c:1", {"sh", "-c", "exec yes banner"})}),
             Contains("it prints other words, and no answer"));
  CHECK_THAT(refusal_of({machine_by("c:1", {"no-such-launcher"})}),
             Contains("not installed on this machine"));
  CHECK_THAT(refusal_of({machine_by("c:1", {"setarch", "i686"})}), Contains("its architecture is i686"));
}

/// An attached host that has made its node, and the agent of that.
struct Made {
  asio::io_context io;
  AttachedMachine machine = machine_by("c:1", {"env"});
  std::vector<std::unique_ptr<AttachedHost>> hosts = attached_hosts({machine});
  std::shared_ptr<AgentClient> agent;
  fs::path folder;

  Made() {
    auto& host = *hosts.front();
    host.begin({});
    host.use_folder(host.folders().front());
    vmctl::NodeGroupSpec spec;
    spec.tenants.resize(1);
    spec.tenants[0].resize(1);
    spec.tenants[0][0].host = "c:1";
    const auto group = host.plan_nodes(spec);
    REQUIRE(group.nodes.size() == 1);
    folder = fs::path(group.nodes[0].temporary_folder).parent_path();
    agent = std::make_shared<AgentClient>(io, "t1n1", host.start(group.nodes[0].id).agent);
  }

  MachineReport look() {
    auto report = asio::co_spawn(
        io,
        [this]() -> asio::awaitable<MachineReport> {
          co_await agent->handshake(std::chrono::seconds(10));
          co_return co_await agent->machine();
        },
        asio::use_future);
    while (report.wait_for(std::chrono::seconds(0)) != std::future_status::ready) { io.run_one(); }
    return report.get();
  }

  std::vector<std::string> end() {
    agent->close();
    io.restart();
    io.run_for(std::chrono::milliseconds(200));
    agent.reset();
    return hosts.front()->remove(1).left;
  }
};

// One test: the machine takes one coordinator at a time.
TEST_CASE("an attached machine runs the agent, and nothing of it stays, whoever is killed") {
  Made made;
  const auto mark = "VIRTRAIN_BUNDLE=" + made.folder.string();
  SECTION("nobody") {
    CHECK(made.look().is_guest.has_value());
    CHECK(fs::exists(made.folder / "bin/virtrain-agent"));
    CHECK((fs::status(made.folder).permissions() & fs::perms::mask) == fs::perms::owner_all);
    CHECK_FALSE(test::processes_with(mark).empty());
  }
  SECTION("the agent") {
    made.look();
    for (const int pid : test::processes_with(mark)) { ::kill(pid, SIGKILL); }
    CHECK(test::comes_true([&] { return !fs::exists(made.folder); }));
  }
  SECTION("nobody, and the agent has not been spoken to") {}
  CHECK(made.end().empty());
  CHECK_FALSE(fs::exists(made.folder));
  CHECK(test::processes_with(mark).empty());
}

}  // namespace
}  // namespace virtrain::harness
