// Whole experiments over several FakeHosts behind real frames: real agents and a real database.

#include <fstream>
#include <functional>
#include <set>

#include "common/contains.h"
#include "common/system/time.h"
#include "harness/experiment/experiment.h"
#include "harness/plan/host_shares.h"
#include "harness/scenario/decode/decode.h"
#include "results/reading/reading.h"
#include "results/store/store.h"
#include "tests/harness/experiment/payload_with_a_shell.h"
#include "tests/support/catch.h"
#include "tests/support/fake_host.h"
#include "tests/support/framed_host.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::harness {
namespace {

using test::Contains;
using test::FakeHost;
using test::FramedHost;
namespace fs = std::filesystem;

const fs::path programs = VIRTRAIN_BINARY_DIR;

std::string name_of(std::size_t n) {
  return fmt::format("host-{:02}", n + 1);
}

/// Hosts of four cores each, and an experiment over them with a tenant of one node on each.
struct Cluster {
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<FakeHost>> fakes;
  std::vector<std::unique_ptr<FramedHost>> framed;
  std::vector<NamedHost> named;
  ExperimentOptions options;
  ExperimentOutcome outcome;
  std::function<void(const std::string& stage, int trial)> on_stage;

  explicit Cluster(std::size_t count) {
    for (std::size_t n = 0; n < count; ++n) {
      const auto own = folder.path / name_of(n);
      fs::create_directories(own);
      fakes.push_back(std::make_unique<FakeHost>(
          own, programs / "virtrain-agent",
          std::map<std::string, fs::path>{
              {"virtrain-resnet50-cpu", programs / "fault-kit/virtrain-resnet50-cpu"}}));
      fakes.back()->set_fact("hostname", name_of(n));
    }
  }

  Plan plan(const Scenario& scenario) const {
    std::vector<PlanHost> rooms;
    for (std::size_t n = 0; n < fakes.size(); ++n) {
      rooms.push_back({fakes.size() == 1 ? "" : name_of(n), FakeHost::small_inventory(), false});
    }
    return make_plan(scenario, rooms);
  }

  static Scenario scenario(std::size_t tenants, int pairs, const std::string& arms = "[vm]") {
    std::string all;
    for (std::size_t t = 0; t < tenants; ++t) { all += std::string(t == 0 ? "" : ", ") + "{nodes: 1}"; }
    return decode_scenario(
        "name: many\nworkload: {batch_size: 4, image_size: 32, warmup_steps: 0, steps: 4, display_every: 1}\n"
        "guest: {vcpus: 1, memory: 512MiB}\ncases: [{name: one-each, tenants: [" +
            all + "]}]\narms: " + arms + "\npairs: " + std::to_string(pairs) + "\n",
        "many.yaml");
  }

  void run(const Scenario& wanted) {
    ::setenv("STEP_SECONDS", "0.02", 1);
    ::setenv("VIRTRAIN_TEST_FOLDER", folder.path.c_str(), 1);
    const auto planned = plan(wanted);
    options.progress = [this](const Progress& progress) {
      if (on_stage) { on_stage(progress.now, std::stoi(progress.trial.substr(1))); }
    };
    for (std::size_t n = 0; n < fakes.size(); ++n) {
      const auto name = fakes.size() == 1 ? "" : name_of(n);
      framed.push_back(std::make_unique<FramedHost>(*fakes[n], name));
      named.push_back({name, {vmctl::HostNetworkKind::vxlan, "data0"}, framed.back()->take_client()});
    }
    {
      RunHosts hosts(named);
      outcome = run_experiment(hosts, wanted, planned, database(), options);
    }
    named.clear();
    framed.clear();
  }

  fs::path database() const { return folder.path / "results.db"; }
  results::Store store() const { return results::Store(database(), results::Store::Mode::open); }
  std::vector<Status> statuses() const {
    std::vector<Status> all;
    for (const auto& trial : store().trials(outcome.experiment)) { all.push_back(trial.status); }
    return all;
  }
  std::vector<std::string> events(const std::string& message) const {
    std::vector<std::string> all;
    for (const auto& event : store().events(outcome.experiment)) {
      if (event.message == message) { all.push_back(event.detail.dump()); }
    }
    return all;
  }
};

TEST_CASE("an experiment over three hosts has each node on its own, and says which") {
  Cluster cluster(3);
  cluster.fakes[1]->set_fact("kernel", "6.12.0");
  cluster.run(Cluster::scenario(3, 1, "[bare_metal, vm]"));
  CHECK(cluster.statuses() == std::vector<Status>(2, Status::finished));
  for (const auto& fake : cluster.fakes) {
    CHECK(fake->left().empty());
    CHECK(fake->ended() == true);
    CHECK(fake->calls("start") == 2);
  }
  const auto store = cluster.store();
  const auto experiment = store.experiment(cluster.outcome.experiment).value();
  CHECK(experiment.host_name == "host-01, host-02, host-03");
  CHECK(experiment.fingerprint.at("hosts_differ") == "kernel");
  std::set<std::string> hosts;
  for (const auto& tenant : store.tenants(store.trials(experiment.id).front().id)) {
    for (const auto& node : store.nodes(tenant.id)) { hosts.insert(node.host); }
  }
  CHECK(hosts == std::set<std::string>{"host-01", "host-02", "host-03"});
  const auto differ = cluster.events("hosts are not alike");
  results::CompareRequest request;
  request.selection.experiments = {experiment.id};
  const auto compared = results::compare(store, request);
  REQUIRE(compared.size() == 1);
  CHECK(contains<std::string>(compared[0].flags, "hosts_differ"));
  REQUIRE(differ.size() == 1);
  CHECK_THAT(differ[0], Contains("host-02: kernel is 6.12.0, elsewhere 6.1.0"));
}

TEST_CASE("the link to one host is cut: the others remove their part, and what had finished stays") {
  for (const std::string stage : {"define", "boot", "agent", "place", "run", "collect"}) {
    DYNAMIC_SECTION(stage) {
      Cluster cluster(2);
      cluster.on_stage = [&](const std::string& now, int trial) {
        if (trial == 2 && now == stage) { cluster.framed[1]->server().stop("the link was cut"); }
      };
      cluster.run(Cluster::scenario(2, 3));
      const auto statuses = cluster.statuses();
      REQUIRE(statuses.size() >= 2);
      CHECK(statuses[0] == Status::finished);
      CHECK(statuses[1] == Status::failed);
      CHECK_THAT(cluster.outcome.first_failure, Contains("host-02"));
      CHECK_FALSE(cluster.outcome.aborted_by);  // trials had begun: the run ends as one with failed trials
      CHECK(cluster.fakes[0]->left().empty());
      CHECK(cluster.fakes[1]->left() == std::set<std::string>{"run"});  // in its journal, for clean
    }
  }
}

/// From the start of a run to the end of its first barrier, where each call of a host takes 300 ms and no CPU
/// time. Hosts are taken one after the other, in the order of their names, which is left out.
double seconds_to_barrier(std::size_t hosts) {
  Cluster cluster(hosts);
  for (const auto& fake : cluster.fakes) {
    for (const char* method : {"look_at_network", "begin", "fingerprint", "plan_nodes", "make_networks",
                               "start", "counters", "watch_devices", "keep_services_away"}) {
      fake->plant_fault(method, {.delay = std::chrono::milliseconds(300)}, 0);
    }
  }
  const auto began_ns = monotonic_ns();
  double seconds = 0;
  cluster.on_stage = [&](const std::string& now, int) {
    UNSCOPED_INFO(fmt::format("{:.2f} s {}", static_cast<double>(monotonic_ns() - began_ns) * 1e-9, now));
    if (now == "run") { seconds = static_cast<double>(monotonic_ns() - began_ns) * 1e-9; }
  };
  cluster.run(Cluster::scenario(hosts, 1, "[bare_metal]"));
  CHECK(cluster.statuses() == std::vector<Status>{Status::finished});
  return seconds;
}

TEST_CASE("eight hosts come to the barrier when the slowest one does") {
  const auto two = seconds_to_barrier(2), eight = seconds_to_barrier(8);
  INFO(fmt::format("two hosts {:.2f} s, eight {:.2f} s", two, eight));
  CHECK(two > 2);
  CHECK(eight < 1.2 * two + 0.5);  // eight agents start on this machine's cores
}

TEST_CASE("hosts with two versions of Open MPI are refused before anything is stored") {
  Cluster cluster(2);
  for (const auto& fake : cluster.fakes) { fake->set_fact("open_mpi", "4.1.4"); }
  cluster.fakes[1]->set_fact("open_mpi", "5.0.7");
  CHECK_THROWS_WITH(cluster.run(Cluster::scenario(2, 1)),
                    Contains("host-02: open_mpi is 5.0.7, elsewhere 4.1.4 (install one version"));
  CHECK(cluster.store().list_experiments().empty());
}

TEST_CASE(
    "a host that lacks a job's payload, or has another one, is named before anything is made or stored") {
  for (const bool has_another : {false, true}) {
    Cluster cluster(2);
    const auto image = payload_with_a_shell(cluster.folder.path).string();
    auto& other = *cluster.fakes[1];
    if (has_another) {
      other.set_payload(std::string(64, 'a'));
    } else {
      other.plant_fault("take_payload", {.error = Error("copy the payload " + image, ErrorCode::host_unable,
                                                        "No such file or directory")});
    }
    const auto wanted = decode_scenario(
        "name: many\nworkload: {command: [sh, -c, ':'], payload: " + image +
            ", throughput: {pattern: '(?P<value>[0-9]+)', example: '5', unit: tokens/s}}\n"
            "guest: {vcpus: 1, memory: 512MiB}\n"
            "cases: [{name: one-each, tenants: [{nodes: 1}, {nodes: 1}]}]\narms: [bare_metal, vm]\n",
        "many.yaml");
    try {
      cluster.run(wanted);
      FAIL_CHECK("it was not refused");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::host_unable);
      CHECK_THAT(error.what(),
                 Contains(has_another ? "host-02 has " + std::string(64, 'a') + " there" : "host-02: ") &&
                     Contains(fmt::format("rsync {0} host-02:{0}", image)));
    }
    CHECK(cluster.store().list_experiments().empty());
    for (const auto& fake : cluster.fakes) { CHECK(fake->calls("plan_nodes") == 0); }
  }
}

TEST_CASE("hosts that run VMs in different ways make no image together") {
  Cluster cluster(2);
  cluster.fakes[1]->set_virtualization(Virtualization::tcg);
  cluster.run(Cluster::scenario(2, 1));
  CHECK(cluster.statuses() == std::vector<Status>{Status::failed});
  CHECK_THAT(cluster.outcome.first_failure, Contains("host-01 runs VMs as kvm and host-02 as tcg"));
}

}  // namespace
}  // namespace virtrain::harness
