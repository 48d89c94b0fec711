#include "results/comparison/causes/explain.h"

#include <cmath>
#include <set>

#include "results/comparison/compare_json.h"
#include "results/reading/reading.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

/// A planted cause and what it must cost by its model.
struct Planted {
  std::string cause;
  Evidence baseline;
  Evidence candidate;
  double ratio;                ///< of the throughputs
  std::optional<double> cost;  ///< share of the baseline's throughput
  bool at_most;
};

std::vector<Planted> planted_causes() {
  const std::map<std::string, double> busy = {{"rate.cpu_user_seconds", 1.6},
                                              {"rate.cpu_system_seconds", 0.4}};
  const std::map<std::string, double> stolen = {
      {"rate.cpu_user_seconds", 1.2}, {"rate.cpu_system_seconds", 0.4}, {"rate.cpu_steal_seconds", 0.4}};
  return {
      {"emulation",
       {{}, {{"virtualization", {"none"}}}},
       {{}, {{"virtualization", {"tcg"}}}},
       0.1,
       0.9,
       true},
      {"steal", {busy}, {stolen}, 0.8, 0.2, false},
      // The host sees its vCPUs wait where the guest sees nothing.
      {"steal", {}, {{{"rate.vcpu_seconds", 0.9}, {"rate.vcpu_wait_seconds", 0.1}}}, 0.9, 0.1, false},
      {"cores", {{{"cores", 4}}}, {{{"cores", 3}}}, 0.75, 0.25, false},
      {"clocks", {{{"mean.gpu_sm_clock_mhz", 1400}}}, {{{"mean.gpu_sm_clock_mhz", 1260}}}, 0.9, 0.1, false},
      {"clocks", {{}, {{"clocks", {"1400 MHz"}}}}, {{}, {{"clocks", {"1260 MHz"}}}}, 0.9, 0.1, false},
      {"throttling", {}, {{{"rate.gpu_throttled_seconds", 0.15}}}, 0.85, 0.15, false},
      {"network_bandwidth",
       {{{"probe.all_reduce", 10e9}, {"exposed_allreduce_share", 0.2}}},
       {{{"probe.all_reduce", 5e9}, {"exposed_allreduce_share", 0.4 / 1.2}}},
       1 / 1.2,
       1 - 1 / 1.2,
       false},
      {"network_bandwidth", {{{"probe.all_reduce", 10e9}}}, {{{"probe.all_reduce", 5e9}}}, 0.8, 0.2, true},
      {"exposed_allreduce",
       {{{"exposed_allreduce_share", 0.1}}},
       {{{"exposed_allreduce_share", 0.28}}},
       0.8,
       0.2,
       false},
      {"transport", {{}, {{"transport", {"shm"}}}}, {{}, {{"transport", {"tcp"}}}}, 0.7, 0.3, true},
      {"peer_to_peer", {{}, {{"peer_to_peer", {"on"}}}}, {{}, {{"peer_to_peer", {"off"}}}}, 0.7, 0.3, true},
      {"arithmetic", {{{"probe.gemm", 3e12}}}, {{{"probe.gemm", 2.7e12}}}, 0.8, 0.1, true},
      {"memory_bandwidth", {{{"probe.triad", 100e9}}}, {{{"probe.triad", 50e9}}}, 0.7, 0.3, true},
      {"pcie_link",
       {{}, {{"gpu_pcie_width", {"x16"}}, {"gpu_pcie_generation", {"4"}}}},
       {{}, {{"gpu_pcie_width", {"x8"}}}},
       0.9,
       0.1,
       true},
      {"pcie_link",
       {{}, {{"gpu_pcie_generation", {"4"}}}},
       {{}, {{"gpu_pcie_generation", {"3"}}}},
       0.4,
       0.5,
       true},
      {"pcie_link",
       {{{"probe.host_to_device", 20e9}, {"probe.device_to_host", 20e9}}},
       {{{"probe.host_to_device", 20e9}, {"probe.device_to_host", 10e9}}},
       0.7,
       0.3,
       true},
      {"numa", {}, {{{"mean.numa_remote_share", 0.25}}}, 0.5, 0.2, true},
      {"instruction_set", {{}, {{"isa", {"avx512_core"}}}}, {{}, {{"isa", {"avx2"}}}}, 0.3, 0.5, true},
      {"helper_threads", {busy}, {{{"cores", 2}, {"rate.helper_cpu_seconds", 0.2}}}, 0.8, 0.1, true},
      {"start_spread", {}, {{{"start_spread_seconds", 1}, {"measured_seconds", 9}}}, 0.8, 0.1, true},
      {"io_wait",
       {busy},
       {{{"rate.cpu_user_seconds", 1.6}, {"rate.cpu_iowait_seconds", 0.4}}},
       0.8,
       0.2,
       false},
  };
}

}  // namespace

TEST_CASE("each cause of the table is found where it is planted, alone and with its cost") {
  std::set<std::string> tested;
  for (const auto& [cause, baseline, candidate, ratio, cost, at_most] : planted_causes()) {
    DYNAMIC_SECTION(cause << " " << ratio << (at_most ? " at most" : "")) {
      const auto found = explain(ratio, baseline, candidate);
      REQUIRE(found.findings.size() == 1);
      const auto& first = found.findings.front();
      CHECK(first.cause == cause);
      CHECK(first.cost.value() == Approx(cost.value()).epsilon(1e-6));
      CHECK(first.at_most == at_most);
      CHECK_FALSE(first.evidence.empty());
      CHECK_FALSE(first.model.empty());
      if (!at_most) {
        CHECK(found.unexplained.value() == Approx(1 - std::log(1 - *cost) / std::log(ratio)).margin(1e-9));
      }
      if (at_most) { CHECK(found.unexplained.value() == Approx(1)); }
      // The same evidence on both sides explains nothing.
      CHECK(explain(ratio, candidate, candidate).findings.empty());
    }
    tested.insert(cause);
  }
  for (const auto& row : cause_rows()) {
    CAPTURE(row.cause);
    CHECK(tested.contains(std::string(row.cause)));
  }
}

TEST_CASE("what the processor lost bounds a GPU's loss and does not measure it") {
  const Facts cuda = {{"backend", {"cuda"}}};
  const Evidence baseline{{{"rate.cpu_user_seconds", 1.0}, {"cores", 4}}, cuda};
  const Evidence candidate{{{"rate.cpu_user_seconds", 0.8},
                            {"rate.cpu_steal_seconds", 0.2},
                            {"rate.cpu_iowait_seconds", 0.1},
                            {"cores", 2}},
                           cuda};
  const auto found = explain(0.99, baseline, candidate);
  CHECK(found.findings.size() == 3);
  for (const auto& finding : found.findings) { CHECK(finding.at_most); }
}

TEST_CASE("what is not known is said alike of both sides") {
  const std::map<std::string, double> busy = {{"rate.cpu_user_seconds", 1.5}};
  for (const char* name : {"rate.cpu_steal_seconds", "mean.numa_remote_share", "rate.helper_cpu_seconds"}) {
    CAPTURE(name);
    Evidence knows{busy, {}, "vm"}, not_known{busy, {}, "bare_metal"};
    knows.numbers[name] = 0.5;
    const auto evidence = [](double ratio, const Evidence& baseline, const Evidence& candidate) {
      return explain(ratio, baseline, candidate).findings.at(0).evidence;
    };
    CHECK_THAT(evidence(0.5, not_known, knows), Contains("not known (taken as 0) in bare_metal, "));
    CHECK_THAT(evidence(2, knows, not_known), Contains("in vm, not known (taken as 0) in bare_metal"));
  }
}

TEST_CASE("the step of a tenant with a workload of its own is as long as its own batch") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  auto trial = a_trial("e", "c", "vm", 1);
  trial.status = Status::finished;
  trial.batch_size = 100;
  const auto tenant =
      store.save_tenant(store.import_trial(trial), {.workload = {{"batch_size", 20}, {"steps", 5}}});
  store.save_rank(tenant, {.throughput = of_images(10)});
  std::map<std::string, double> numbers;
  for (const auto& one : store.comparison_numbers({"e"})) { numbers[one.name] = one.value; }
  CHECK(numbers.at("step_seconds") == 2);
  CHECK(numbers.at("measured_seconds") == 10);
}

TEST_CASE("a probe explains the work of what it measures") {
  const std::map<std::string, double> fast = {
      {"probe.triad", 100},        {"probe.device_copy", 1000},     {"probe.gemm", 10},
      {"probe.gpu_gemm", 1000},    {"probe.gpu_gemm.float16", 900}, {"probe.gemm.bfloat16", 9},
      {"probe.host_to_device", 50}};
  const auto costs = [&](const char* backend, const char* precision, const std::string& slower) {
    const Facts facts = {{"backend", {backend}}, {"precision", {precision}}};
    Evidence candidate{fast, facts};
    candidate.numbers[slower] /= 2;
    std::set<std::string> causes;
    for (const auto& finding : explain(0.5, {fast, facts}, candidate).findings) {
      CHECK_THAT(finding.evidence,
                 Contains(slower.substr(slower.find('.') + 1)) || Contains("host and device"));
      causes.insert(finding.cause);
    }
    return causes;
  };
  using Causes = std::set<std::string>;
  CHECK(costs("cuda", "fp16", "probe.gpu_gemm.float16") == Causes{"arithmetic"});
  CHECK(costs("cuda", "fp16", "probe.gpu_gemm").empty());  // of all types together: the one in use is known
  CHECK(costs("cuda", "bf16", "probe.gpu_gemm") == Causes{"arithmetic"});
  CHECK(costs("cuda", "bf16", "probe.gemm.bfloat16").empty());
  CHECK(costs("cpu", "bf16", "probe.gemm.bfloat16") == Causes{"arithmetic"});
  CHECK(costs("cpu", "bf16", "probe.gpu_gemm").empty());
  CHECK(costs("cuda", "fp16", "probe.device_copy") == Causes{"memory_bandwidth"});
  CHECK(costs("cuda", "fp16", "probe.triad").empty());
  CHECK(costs("cpu", "bf16", "probe.triad") == Causes{"memory_bandwidth"});
  CHECK(costs("cpu", "bf16", "probe.device_copy").empty());
  CHECK(costs("cuda", "fp16", "probe.host_to_device") == Causes{"pcie_link"});
  CHECK(costs("cpu", "bf16", "probe.host_to_device").empty());
}

TEST_CASE("ways between GPUs that nodes list together or apart are the same ways") {
  const auto with_ways = [](const std::set<std::string>& nodes) {
    return Evidence{{}, {{"peer_to_peer", nodes}}};
  };
  const auto apart = with_ways({"NET/Socket, P2P/CUMEM", "NET/Socket, SHM/direct"});
  CHECK(explain(0.9, apart, with_ways({"NET/Socket, P2P/CUMEM, SHM/direct"})).findings.empty());
  CHECK(explain(0.9, apart, with_ways({"NET/Socket, SHM/direct"})).findings.size() == 1);
}

TEST_CASE("causes are ranked, multiply, and leave the rest unexplained") {
  const Evidence baseline{{{"mean.gpu_sm_clock_mhz", 1000}, {"rate.cpu_user_seconds", 1}}};
  const Evidence candidate{
      {{"mean.gpu_sm_clock_mhz", 950}, {"rate.cpu_user_seconds", 0.8}, {"rate.cpu_steal_seconds", 0.2}}};
  const double ratio = 0.95 * 0.8 * 0.9;
  const auto found = explain(ratio, baseline, candidate);
  REQUIRE(found.findings.size() == 2);
  CHECK(found.findings[0].cause == "steal");
  CHECK(found.findings[1].cause == "clocks");
  CHECK(found.findings[0].share_of_gap.value() == Approx(std::log(0.8) / std::log(ratio)));
  CHECK(found.unexplained.value() == Approx(std::log(0.9) / std::log(ratio)));
  CHECK(found.findings[0].candidate == "20.00 %");
}

TEST_CASE("too much evidence is more than the gap, and no gap needs none") {
  const Evidence stolen{{{"rate.cpu_user_seconds", 0.5}, {"rate.cpu_steal_seconds", 0.5}}};
  const auto over = explain(0.9, {}, stolen);
  CHECK(over.unexplained.value() < 0);
  const auto level = explain(1.0, {}, stolen);
  CHECK_FALSE(level.unexplained);
  Evidence fast, slow;
  fast.numbers["probe.triad"] = 12e9;
  slow.numbers["probe.triad"] = 9e9;
  const auto bounded = explain(0.9, fast, slow);
  CHECK(bounded.findings.at(0).evidence == "12 GB/s in the baseline, 9 GB/s in the candidate (triad)");
  CHECK(to_json(bounded)["findings"][0]["words"] == "memory: it has another bandwidth");
  CHECK(to_json(level).at("unexplained").is_null());
}

TEST_CASE("an upper bound takes only what the measured causes leave") {
  const Evidence baseline{{{"rate.cpu_user_seconds", 1}, {"probe.triad", 100}}};
  const Evidence candidate{
      {{"rate.cpu_user_seconds", 0.8}, {"rate.cpu_steal_seconds", 0.2}, {"probe.triad", 50}}};
  const auto found = explain(0.76, baseline, candidate);
  REQUIRE(found.findings.size() == 2);
  CHECK(found.findings[0].cause == "steal");
  CHECK(found.findings[1].cost.value() == Approx(0.05));
  // Where steal explains all of it, the bandwidth cannot have cost anything.
  CHECK(explain(0.8, baseline, candidate).findings.size() == 1);
}

TEST_CASE("halved bandwidth comes before the waiting that it causes") {
  const Evidence baseline{{{"probe.all_reduce", 10e9}, {"exposed_allreduce_share", 0.2}}};
  const Evidence candidate{{{"probe.all_reduce", 5e9}, {"exposed_allreduce_share", 0.4}}};
  const auto found = explain(0.75, baseline, candidate);
  REQUIRE(found.findings.size() == 2);
  CHECK(found.findings[0].cause == "network_bandwidth");
  CHECK(found.findings[1].cause == "exposed_allreduce");
  CHECK(found.unexplained.value() == Approx(0).margin(1e-9));
}

TEST_CASE("evidence comes from telemetry of the measured steps, ranks, nodes and probes") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  for (const std::string arm : {"bare_metal", "vm"}) {
    const bool is_vm = arm == "vm";
    for (int pair = 1; pair <= 3; ++pair) {
      const auto trial = add_finished(store, "e", "c", arm, pair, is_vm ? 80 : 100);
      const auto tenant = store.save_tenant(trial, {.transport = "tcp"});
      const auto node =
          store.save_node(tenant, {.name = "n", .kind = is_vm ? "vm" : "slice", .cores = "0-1"});
      const auto rank = store.save_rank(tenant, {.node = "n",
                                                 .isa = "avx2",
                                                 .throughput = of_images(is_vm ? 80 : 100),
                                                 .exposed_allreduce_seconds = 1});
      std::vector<Sample> samples;
      std::vector<Telemetry> readings;
      for (std::int64_t second = 1; second <= 20; ++second) {
        const std::int64_t t_ns = second * 1'000'000'000;
        // Measured from second 10 to 20; before it, all was stolen, and must not count.
        if (second > 10) { samples.push_back({t_ns, second, 10, 1.0, 1.0}); }
        const double stolen =
            second <= 8 ? 2.0 * static_cast<double>(second) : 16 + 0.4 * static_cast<double>(second - 8);
        readings.push_back({t_ns, "guest", "cpu_user_seconds", 1.6 * static_cast<double>(second)});
        readings.push_back({t_ns, "guest", "cpu_steal_seconds", is_vm ? stolen : 0});
        readings.push_back({t_ns, "guest", "cpu_mhz", 3000});
      }
      store.add_samples(rank, samples);
      store.add_telemetry(node, readings);
    }
  }
  store.add_probes("e", std::vector<Probe>{
                            {.name = "triad", .arm = "bare_metal", .value = 1e10, .unit = "B/s"},
                            {.name = "triad", .arm = "vm", .value = 0.99e10, .unit = "B/s"},
                        });
  const auto list = compare(store, {.explain = true});
  REQUIRE(list.size() == 1);
  REQUIRE(list[0].explanation);
  const auto& found = *list[0].explanation;
  REQUIRE_FALSE(found.findings.empty());
  CHECK(found.findings[0].cause == "steal");
  CHECK(found.findings[0].cost.value() == Approx(0.2).epsilon(1e-6));
  CHECK(std::abs(found.unexplained.value()) < 1e-6);
  CHECK(to_json(list[0]).at("explanation").at("findings").at(0).at("cause") == "steal");
  CHECK_FALSE(compare(store, {}).at(0).explanation);
}
