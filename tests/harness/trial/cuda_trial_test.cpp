// Whole trials of backend cuda on bare metal, in real slices of this host and without a GPU: what stands for
// nvidia-smi lists the GPUs, and fake_cuda_trainer.py trains on none. Root only.

#include <boost/asio/co_spawn.hpp>
#include <fmt/format.h>

#include <fstream>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/time.h"
#include "harness/job/programs.h"
#include "harness/job/rank_command.h"
#include "harness/plan/node_group.h"
#include "harness/trial/trial_run.h"
#include "tests/harness/agent/agent_process.h"
#include "tests/support/first_in_path.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/host/local_host.h"
#include "vmctl/journal/leases.h"
#include "vmctl/machine/inventory.h"
#include "vmctl/machine/record.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;
using virtrain::test::Contains;
using virtrain::test::Equals;
using Strings = std::vector<std::string>;
namespace fs = std::filesystem;

/// The domain is none that a machine has.
constexpr const char* listed =
    "0000FFFE:17:00.0, GPU-17\n0000FFFE:65:00.0, GPU-65\n0000FFFE:CA:00.0, GPU-ca\n"
    "0000FFFE:E3:00.0, GPU-e3\n0000FFFE:E4:00.0, GPU-e4\n";
constexpr std::int64_t steps = 4, batch_size = 8;

vmctl::PlacedDevice gpu(const std::string& slot) {
  vmctl::PlacedDevice device;
  device.grant.address = "fffe:" + slot + ":00.0";
  return device;
}

/// As the planner would: a node for each list of GPUs, a rank for each of its GPUs.
Placement placement_of(const std::vector<Strings>& slots) {
  const auto cores = vmctl::load_machine().cores;
  TenantPlacement tenant;
  tenant.name = "tenant";
  tenant.workload.backend = Backend::cuda;
  tenant.workload.steps = steps;
  tenant.workload.batch_size = batch_size;
  tenant.gpus_per_node = tenant.ranks_per_node = std::ssize(slots.at(0));
  for (std::size_t n = 0; n < slots.size(); ++n) {
    NodePlacement node;
    node.hostname = fmt::format("t1n{}", n + 1);
    node.address = fmt::format("10.77.0.{}/16", n + 2);
    node.cores = {cores[n % cores.size()].id};
    node.memory_bytes = 512U << 20;
    for (const auto& slot : slots[n]) { node.devices.push_back(gpu(slot)); }
    tenant.nodes.push_back(std::move(node));
  }
  Placement placement{"case", {}, {tenant}, true};
  placement.guest.memory_bytes = 512U << 20;
  return placement;
}

/// This host as `virtrain doctor --record` writes it down, and these GPUs beside what it has.
fs::path host_with_gpus(const fs::path& folder) {
  vmctl::record_host(folder);
  for (const auto* slot : {"17", "65", "98", "ca", "e3", "e4"}) {
    const auto function = folder / "sys/bus/pci/devices" / gpu(slot).grant.address;
    fs::create_directories(function);
    std::ofstream(function / "vendor") << vmctl::nvidia << "\n";
    std::ofstream(function / "device") << "0x20f1\n";
    std::ofstream(function / "class") << "0x030200\n";
  }
  return folder;
}

/// Answers the one question that is asked of it.
void write_nvidia_smi(const fs::path& folder) {
  const auto program = folder / "nvidia-smi";
  std::ofstream(program) << "#!/bin/sh\n"
                            "[ \"$*\" = '--query-gpu=pci.bus_id,uuid --format=csv,noheader' ] || exit 9\n"
                            "cat <<'END'\n"
                         << listed << "END\n";
  fs::permissions(program, fs::perms::owner_all);
}

/// An experiment of one trial, driven as experiment_runner.cpp does it. Its folder is the trainer's too, for
/// that stays visible in slices.
class OneTrial {
 public:
  KnownPlans plans;
  std::string stage;              ///< the last one it reached
  std::optional<ErrorCode> code;  ///< of what went wrong

  OneTrial(const std::string& arm, Placement placement) {
    plan_.placements = {std::move(placement)};
    plan_.trials = {{1, 0, arm, arm, 1, 0}};
    scenario_.trial_timeout_ns = 60'000'000'000;
    write_nvidia_smi(folder_.path);
    const auto trainer = folder_.path / trainer_name(Backend::cuda);
    fs::copy_file(VIRTRAIN_SOURCE_DIR "/tests/harness/job/fake_cuda_trainer.py", trainer);
    ::setenv("VIRTRAIN_STATE_DIR", folder_.path.c_str(), 1);
    host_->begin({context_.experiment, "", vmctl::HostMode::system, true, {trainer.string()}});
    try {
      host_->acquire(resources_of(plan_)[""]);
    } catch (const Error& error) { test::skip(error.what()); }  // another run's
    context_.mpi = mpi_dialect(host_->fingerprint().at("open_mpi"));
    results::Experiment record;
    record.id = record.scenario = context_.experiment;
    record.started_at = iso8601(wall_ns());
    store_.add_experiment(record);
  }

  /// What went wrong; empty if nothing did.
  std::string run() {
    results::Trial record;
    record.experiment = context_.experiment;
    record.case_name = "case";
    record.arm = plan_.trials[0].arm;
    record.started_at = iso8601(wall_ns());
    LiveNodes nodes(context_, plan_.placements[0], record.arm);
    TrialRun trial(context_, plan_.trials[0], store_.begin_trial(record), plans);
    asio::co_spawn(io_, drive(trial, nodes), [](std::exception_ptr error) {
      if (error) { std::rethrow_exception(error); }
    });
    io_.run();
    stage = trial.stage();
    CHECK(vmctl::LeaseJournal(folder_.path / "leases.db").effects().empty());
    CHECK(test::processes_with("VIRTRAIN_EXPERIMENT=" + context_.experiment).empty());
    return failure_;
  }

  /// What rank r of the node was given and found, as it has written it down.
  json given(std::size_t node, std::int64_t rank) const {
    const auto found = written_.at(node).find(fmt::format("rank-{}.json", rank));
    return found == written_.at(node).end() ? json() : json::parse(found->second);
  }
  const results::Store& store() const { return store_; }
  results::Trial trial() const { return store_.trials(context_.experiment).at(0); }
  results::Tenant tenant() const { return store_.tenants(trial().id).at(0); }
  /// The GPUs' readings of the tenant's n-th node.
  std::map<std::string, double> gpu_readings(std::size_t n) const {
    std::map<std::string, double> readings;
    for (const auto& reading : store_.telemetry(store_.nodes(tenant().id).at(n).id)) {
      if (reading.metric.starts_with("gpu_")) { readings[reading.metric] = reading.value; }
    }
    return readings;
  }

 private:
  asio::awaitable<void> drive(TrialRun& trial, LiveNodes& nodes) {
    try {
      co_await trial.run(nodes, false);
    } catch (const Error& error) {
      failure_ = error.what();
      code = error.code();
    } catch (const std::exception& error) { failure_ = error.what(); }
    for (const auto& node : nodes.nodes()) {
      auto& written = written_.emplace_back();
      for (const auto& file : entries_of(fs::path(node.made.cache_home) / "virtrain")) {
        written[file.filename()] = read_file(file).value_or("null");
      }
    }
    CHECK((co_await nodes.tear_down()).empty());
    for (const auto& node : nodes.nodes()) { CHECK_FALSE(fs::exists(node.made.cache_home)); }
  }

  const TemporaryFolder folder_;
  const FirstInPath programs_{folder_.path};
  asio::io_context io_;
  asio::thread_pool pool_{2};
  StopSource stop_{io_};
  const std::unique_ptr<vmctl::Host> host_ =
      std::make_unique<vmctl::LocalHost>(host_with_gpus(folder_.path / "host"));
  RunHosts hosts_{*host_};
  Scenario scenario_;
  Plan plan_;
  std::vector<std::map<std::string, std::string>> written_;  ///< by the ranks of each node, by file
  std::string failure_;
  results::Store store_{folder_.path / "results.db"};
  RunContext context_{io_,
                      pool_,
                      stop_,
                      store_,
                      {hosts_, pool_},
                      scenario_,
                      plan_,
                      fmt::format("20260101t000000-{:06x}", ::getpid() & 0xffffff)};
};

TEST_CASE("ranks on bare metal run on their node's GPUs with the experiment's engines") {
  test::need_root();
  OneTrial run(arm_bare_metal, placement_of({{"65", "17"}, {"e3", "e4"}}));
  PlanFile timed;
  timed.add(R"({"A100":{"known":"engine 1"}})");
  run.plans.add("", timed);
  const json known = json::parse(run.plans.for_node("").text());
  REQUIRE_THAT(run.run(), Equals(""));

  CHECK(run.given(0, 0) == json{{"gpus", "GPU-65,GPU-17"}, {"found", known}});
  CHECK(run.given(0, 1) == json{{"gpus", "GPU-65,GPU-17"}, {"found", nullptr}});
  CHECK(run.given(1, 2) == json{{"gpus", "GPU-e3,GPU-e4"}, {"found", known}});
  CHECK(run.given(1, 3) == json{{"gpus", "GPU-e3,GPU-e4"}, {"found", nullptr}});
  CHECK(json::parse(run.plans.for_node("").text())["A100"] ==
        json{{"known", "engine 1"}, {"of t1n1", "engine 2"}, {"of t1n2", "engine 2"}});

  // Nothing else is wrong with it than that these ranks have sent each other nothing.
  CHECK(run.trial().status == Status::finished);
  CHECK_THAT(run.trial().invalid_reason, Contains("its network carried") && !Contains("; "));
  for (const auto& rank : run.store().ranks(run.tenant().id)) {
    CHECK(run.store().samples(rank.id).size() == steps);
  }
}

TEST_CASE("what ranks on bare metal say of their GPUs becomes facts and readings of their nodes") {
  test::need_root();
  OneTrial run(arm_bare_metal, placement_of({{"17", "65"}, {"ca", "e3"}}));
  REQUIRE_THAT(run.run(), Equals(""));
  const auto nodes = run.store().nodes(run.tenant().id);
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].fingerprint.at("gpu_uuid") == "GPU-17, GPU-65");
  CHECK(nodes[1].fingerprint.at("gpu_uuid") == "GPU-ca, GPU-e3");
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    auto facts = nodes[n].fingerprint;
    CHECK(facts["gpu_name"] == "NVIDIA A100");
    CHECK(facts["driver"] == "550.90.07");
    CHECK(facts["power_limit"] == "250 W");
    CHECK(facts["ecc"] == "on");
    CHECK(facts["cuda"] == "13.0");
    CHECK(facts["fusion"] == "auto");  // the flag: alone on bare metal the trainer chooses by timing
    CHECK(facts["peer_to_peer"] == "NET/Socket, P2P/CUMEM/read");
    CHECK(run.gpu_readings(n) == std::map<std::string, double>{{"gpu_sm_clock_mhz", 1380},
                                                               {"gpu_power_watts", 2 * 240},
                                                               {"gpu_temperature_celsius", 60},
                                                               {"gpu_throttle_share", 0.25},
                                                               {"gpu_images_per_joule", 0.64}});
  }
}

TEST_CASE("the one slice of bare_metal_shared has the GPUs of all nodes") {
  test::need_root();
  OneTrial run(arm_bare_metal_shared, placement_of({{"17"}, {"ca"}}));
  REQUIRE_THAT(run.run(), Equals(""));
  for (const std::int64_t rank : {0, 1}) { CHECK(run.given(0, rank)["gpus"] == "GPU-17,GPU-ca"); }
  CHECK(run.given(0, 0)["found"] == json::object());
  CHECK_THAT(run.trial().invalid_reason, Equals(""));
  for (const auto& rank : run.store().ranks(run.tenant().id)) { CHECK(rank.node == "t1n1"); }
  CHECK(run.store().nodes(run.tenant().id).at(0).fingerprint.at("peer_to_peer") == "P2P/CUMEM/read");
}

TEST_CASE("a trial ends before its ranks start where nvidia-smi does not list a planned GPU") {
  test::need_root();
  OneTrial run(arm_bare_metal, placement_of({{"17"}, {"98"}}));
  CHECK_THAT(run.run(), Contains("find the GPU fffe:98:00.0") &&
                            Contains("nvidia-smi does not list it (is it on the nvidia driver again?)"));
  CHECK(run.code == ErrorCode::trial_failed);
  CHECK(run.stage == "agent");
  CHECK(run.given(0, 0).is_null());
  CHECK(run.store().ranks(run.tenant().id).empty());
}

}  // namespace
}  // namespace virtrain::harness
