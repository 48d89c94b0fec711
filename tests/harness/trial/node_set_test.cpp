// Tear-down where things go wrong, with a hypervisor that is none.

#include "harness/trial/node_set.h"

#include <boost/asio/co_spawn.hpp>
#include <catch2/catch.hpp>

#include <set>

#include "common/subprocess.h"
#include "common/time.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::harness {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

/// Remembers names; its guests never answer.
class FakeHypervisor final : public vmctl::Hypervisor {
 public:
  std::set<std::string> there;  ///< domains and networks
  std::set<std::string> stuck;  ///< what cannot be destroyed

  vmctl::HypervisorVersions versions() override { return {}; }
  void create_network(const vmctl::NetworkSpec& spec) override { there.insert(spec.name); }
  void destroy_network(const std::string& name) override { destroy_domain(name); }
  void create_domain(const vmctl::DomainSpec& spec) override { there.insert(spec.name); }
  UniqueFd open_channel(const std::string&) override {
    auto [ours, guests] = make_socketpair();
    guests_.push_back(std::move(guests));
    return std::move(ours);
  }
  vmctl::DomainState domain_state(const std::string&) override { return vmctl::DomainState::running; }
  void destroy_domain(const std::string& name) override {
    if (stuck.contains(name)) { throw Error("destroy " + name, ErrorCode::timeout, "it is stuck"); }
    there.erase(name);
  }
  vmctl::DomainStats domain_stats(const std::string&) override { return {}; }
  std::vector<vmctl::DomainInfo> domains() override { return {}; }
  std::vector<vmctl::NetworkInfo> networks() override { return {}; }
  std::vector<vmctl::NodeDevice> pci_devices() override { return {}; }

 private:
  std::vector<UniqueFd> guests_;
};

/// Two tenants with a VM each.
Placement two_tenants() {
  Placement placement{"case", "", {}, false};
  for (const auto* name : {"t1", "t2"}) {
    TenantPlacement tenant;
    tenant.name = name;
    NodePlacement node;
    node.hostname = std::string(name) + "n1";
    node.address = "10.77.0.2/16";
    node.mac = "52:54:00:77:00:02";
    node.cores = {0};
    node.memory_bytes = 512U << 20;
    tenant.nodes = {node};
    placement.tenants.push_back(tenant);
  }
  return placement;
}

/// VMs of an experiment that are up when `harm` comes, and then torn down.
struct TornDown {
  TemporaryFolder folder;
  asio::io_context io;
  asio::thread_pool pool{1};
  StopSource stop{io};
  results::Store store{folder.path / "results.db"};
  vmctl::LeaseJournal journal{folder.path / "leases.db"};
  const vmctl::Owner owner = vmctl::this_process("20261120t083012-7f3a2b", "");
  vmctl::DeviceLender lender{journal, owner};
  Scenario scenario;
  Plan plan;
  RunContext context{io,          pool,
                     stop,        store,
                     journal,     owner,
                     lender,      scenario,
                     plan,        owner.experiment,
                     "7f3a2b",    vmctl::HostMode::system,
                     folder.path, {},
                     VmHost{},    1,
                     {}};
  FakeHypervisor* hypervisor = nullptr;
  std::vector<std::string> left;

  explicit TornDown(const std::function<void(TornDown&)>& harm) {
    scenario.guest.vcpus = 1;
    results::Experiment record;
    record.id = record.scenario = owner.experiment;
    record.started_at = iso8601(wall_ns());
    store.add_experiment(record);
    auto fake = std::make_unique<FakeHypervisor>();
    hypervisor = fake.get();
    context.vm_host->hypervisor = std::move(fake);
    const auto placement = two_tenants();
    NodeSet nodes(context, placement, arm_vm);
    const auto live = [&]() -> asio::awaitable<void> {
      co_await nodes.define();
      co_await nodes.boot();
      CHECK(hypervisor->there.size() == 4);
      harm(*this);
      left = co_await nodes.tear_down();
    };
    asio::co_spawn(io, live(), [](std::exception_ptr error) {
      if (error) { std::rethrow_exception(error); }
    });
    io.run();
  }
};

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

TEST_CASE("what cannot be removed is said and stays in the journal, the others go") {
  const std::string stuck = "virtrain-20261120t083012-7f3a2b-2";
  const TornDown torn_down([&](TornDown& running) { running.hypervisor->stuck = {stuck}; });
  CHECK(torn_down.hypervisor->there == std::set{stuck});
  REQUIRE(torn_down.left.size() == 1);
  CHECK_THAT(torn_down.left[0], Contains(stuck) && Contains("it is stuck"));
  REQUIRE(torn_down.journal.effects().size() == 1);
  CHECK(torn_down.journal.effects()[0].name == stuck);
}

}  // namespace
}  // namespace virtrain::harness
