// Nodes of a FakeHost behind frames, one of whose calls takes its time: what else goes on meanwhile.

#include "harness/trial/live_nodes.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "harness/hosts/host_client.h"
#include "tests/support/catch.h"
#include "tests/support/fake_host.h"
#include "tests/support/framed_host.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::harness {
namespace {

using namespace asio::experimental::awaitable_operators;
using namespace std::chrono_literals;

Placement one_node() {
  NodePlacement node;
  node.hostname = "t1n1";
  node.address = "10.77.0.2/16";
  node.mac = "52:54:00:00:00:01";
  node.cores = {0};
  node.memory_bytes = 512U << 20;
  TenantPlacement tenant;
  tenant.name = "tenant";
  tenant.nodes = {node};
  Placement placement{"case", {}, {tenant}, true};
  placement.guest.memory_bytes = node.memory_bytes;
  return placement;
}

struct Loop {
  const TemporaryFolder folder;
  test::FakeHost fake{folder.path, std::filesystem::path(VIRTRAIN_BINARY_DIR) / "virtrain-agent", {}};
  test::FramedHost framed{fake};
  RunHosts hosts{framed.client()};
  asio::io_context io;
  asio::thread_pool pool{4};
  StopSource stop{io};
  results::Store store{folder.path / "results.db"};
  const Scenario scenario = [] {
    Scenario patient;
    patient.boot_timeout_ns = 20'000'000'000;
    return patient;
  }();
  const Plan plan = {};
  const Placement placement = one_node();
  RunContext context{io, pool, stop, store, {hosts, pool}, scenario, plan, "20260101t000000-000001"};

  void run(asio::awaitable<void> work) {
    const LoopThread this_thread;
    std::exception_ptr failure;
    bool has_ended = false;
    asio::co_spawn(io, std::move(work), [&](std::exception_ptr error) {
      failure = error;
      has_ended = true;
    });
    while (!has_ended) { io.run_one(); }
    if (failure) { std::rethrow_exception(failure); }
  }
  asio::awaitable<void> bring_up(LiveNodes& nodes) {
    co_await nodes.define();
    co_await nodes.boot();
    co_await nodes.reach_agents();
  }
};

/// Pings the agent until it is cancelled; the longest time between two answers.
asio::awaitable<void> ping(AgentClient& agent, std::chrono::nanoseconds& longest) {
  auto heard = std::chrono::steady_clock::now();
  while (true) {
    co_await agent.synchronize_clock(1);
    const auto now = std::chrono::steady_clock::now();
    longest = std::max<std::chrono::nanoseconds>(longest, now - heard);
    heard = now;
  }
}

}  // namespace

TEST_CASE("a host that stands still in one call delays no ping of a node") {
  const auto method = GENERATE(as<std::string>{}, "plan_nodes", "make_networks", "start");
  Loop loop;
  loop.fake.plant_fault(method, {.delay = 1s}, 2);
  std::chrono::nanoseconds longest{};
  const auto work = [&]() -> asio::awaitable<void> {
    LiveNodes first(loop.context, loop.placement, arm_vm), second(loop.context, loop.placement, arm_vm);
    co_await loop.bring_up(first);
    co_await (ping(*first.nodes()[0].agent, longest) || loop.bring_up(second));
    co_await second.tear_down();
    co_await first.tear_down();
  };
  loop.run(work());
  CHECK(longest > 0s);
  CHECK(longest < 500ms);
  CHECK(loop.fake.left().empty());
}

TEST_CASE("a node's deadlines leave out what its host says it has waited for a core") {
  Loop loop;
  const auto work = [&]() -> asio::awaitable<void> {
    LiveNodes nodes(loop.context, loop.placement, arm_vm);
    co_await loop.bring_up(nodes);
    loop.fake.let_wait(1, 5s);
    asio::steady_timer timer(loop.io);
    for (int i = 0; i < 300 && nodes.nodes()[0].agent->waiting_time() != 5s; ++i) {
      timer.expires_after(10ms);
      co_await timer.async_wait(asio::use_awaitable);
    }
    CHECK(nodes.nodes()[0].agent->waiting_time() == 5s);
    co_await nodes.tear_down();
  };
  loop.run(work());
}

TEST_CASE("nodes that could not be planned have nothing to be removed") {
  Loop loop;
  loop.fake.plant_fault("plan_nodes", {.error = Error("plan", ErrorCode::io, "refused")});
  const auto work = [&]() -> asio::awaitable<void> {
    LiveNodes nodes(loop.context, loop.placement, arm_vm);
    bool failed = false;
    try {
      co_await nodes.define();
    } catch (const Error&) { failed = true; }
    CHECK(failed);
    const auto left = co_await nodes.tear_down();
    CHECK(left.empty());
  };
  loop.run(work());
  CHECK(loop.fake.calls("remove") == 0);
}

}  // namespace virtrain::harness
