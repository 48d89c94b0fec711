#include <algorithm>
#include <functional>
#include <set>

#include "harness/job/guest_gpus.h"
#include "harness/rules/validity.h"
#include "tests/support/catch.h"
#include "tests/support/rank_records.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;
using virtrain::test::said;
using Trial = TrialEvidence&;

/// What a rank on a good GPU says: everything that it can, and nothing that is wrong.
json good_gpu(const char* virtualization) {
  return {{"uuid", "GPU-1"},
          {"virtualization", virtualization},
          {"licensed", true},
          {"ecc_enabled", true},
          {"row_remap_pending", false},
          {"uncorrected_ecc_errors", 4},
          {"throttle_reasons", {"gpu_idle", "sw_power_cap"}},
          {"power_limit_w", 300},
          {"application_clock_mhz", 1410},
          {"fabric_state", "completed"}};
}

/// The only rank of a tenant, which trained on "host" as it was planned, and says `more` in its hello and its
/// result.
RankState rank_that_says(const std::string& host, json in_hello, json in_result) {
  in_hello.update({{"rank", 0}, {"size", 1}, {"local_rank", 0}, {"hostname", host}});
  in_result.update({{"images_per_second", 10}, {"parameters_hash", "after"}});
  RankState rank;
  rank.hello = said<protocol::Hello>(in_hello);
  rank.ready = said<protocol::Ready>({{"parameters_hash", "before"}});
  rank.result = said<protocol::Result>(in_result);
  RankState::Window window;
  window.loss = 7.0;
  window.images = 1;
  window.seconds = 0.1;
  rank.samples = {window};
  return rank;
}

RankState rank_on(const std::string& host, const char* virtualization) {
  const auto gpu = good_gpu(virtualization);
  return rank_that_says(host, {{"gpu", gpu}},
                        {{"gpu", gpu},
                         {"steps", 80},
                         {"warmup_steps", 20},
                         {"skipped_steps", 5},
                         {"steady_state", {{"level", true}, {"not_level", json::array()}}}});
}

/// Two tenants of one VM each, the first with a whole GPU, the second with a vGPU.
TrialEvidence good() {
  TrialEvidence trial;
  for (const auto* name : {"a", "b"}) {
    TenantEvidence tenant;
    tenant.name = name;
    tenant.images_per_rank = 1;
    NodeEvidence node{std::string("t-") + name, std::string("boot-") + name, true};
    node.devices = 2;
    node.core_numa_nodes = {0, 0, 1, 1};
    node.memory_numa_node = 1;
    node.gpu_numa_nodes = {0, 1};
    node.guest_gpu_numa_nodes = {0, 1};
    node.wall_clock_offset_ns = -49'000'000;
    tenant.nodes = {node};
    tenant.ranks = {rank_on(node.hostname, trial.tenants.empty() ? "passthrough" : "vgpu")};
    tenant.transports_planned = {{"0-1", "P2P"}};
    tenant.transports_seen = {{"0-1", "P2P/IPC"}, {"0-2", "SHM"}};
    trial.tenants.push_back(tenant);
  }
  trial.hosts[""].link_errors_before = {{"0000:17:00.0", {5, 1, 0}}};
  trial.hosts[""].link_errors_after = {{"0000:17:00.0", {105, 1, 0}}};
  trial.hosts[""].links = {{"0000:17:00.0", {16, 16, 16, 16}}, {"0000:31:00.0", {0, 0, 16, 16}}};
  return trial;
}

protocol::GpuRecord& gpu_of(Trial trial, std::size_t tenant, bool at_the_end) {
  auto& rank = trial.tenants[tenant].ranks[0];
  return at_the_end ? *rank.result->gpu : *rank.hello->gpu;
}

struct Row {
  const char* id;
  std::function<void(Trial)> change;
  std::string words;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"RNK-1", [](Trial t) { t.tenants[0].ranks[0].ready.reset(); }, "a rank 0 did not report"},
      {"RNK-2", [](Trial t) { t.tenants[1].ranks[0].samples[0].loss.reset(); },
       "b rank 0 has no finite loss"},
      {"RNK-3", [](Trial t) { t.tenants[0].ranks[0].result->parameters_hash = "before"; },
       "a rank 0 did not change its parameters"},
      {"RNK-4", [](Trial t) { t.tenants[0].ranks[0].result->images_per_second = 1e308; },
       "a rank 0 says 1e+308 images/s where its samples show 10"},
      {"JOB-1", [](Trial t) { t.tenants[0].job_doubts = {"its figures came in one burst"}; },
       "a: its figures came in one burst"},
      {"NET-4", [](Trial t) { t.tenants[0].network_bytes_required = 1; },
       "a: its network carried 0 bytes a node, the all-reduces need 1"},
      {"NET-5", [](Trial t) { t.tenants[0].nodes[0].planned_mac = "52:54:00:00:00:01"; },
       "a t-a: its eth0 is not the virtual function with 52:54:00:00:00:01: it reports no NIC"},
      {"NET-5",
       [](Trial t) {
         auto& node = t.tenants[1].nodes[0];
         node.planned_mac = "52:54:00:00:00:01";
         node.nic_mac = "52:54:00:00:00:02";
         node.nic_driver = "igbvf";
       },
       "b t-b: its eth0 has 52:54:00:00:00:02 by driver igbvf where 52:54:00:00:00:01 was planned"},
      {"VM-1", [](Trial t) { t.host_boot_ids = {"boot-b"}; }, "b t-b has no boot id of its own"},
      {"ACS-1", [](Trial t) { t.hosts[""].acs_gaps = {"0000:16:02.0 without RR"}; },
       "tenants' devices reach each other past the IOMMU: bridge 0000:16:02.0 without RR"},
      {"IOM-3", [](Trial t) { t.hosts[""].unsafe_interrupts = true; },
       "a tenant could raise any interrupt of the host (allow_unsafe_interrupts)"},
      {"LNK-1", [](Trial t) { t.hosts[""].links["0000:17:00.0"].gigatransfers = 8; },
       "0000:17:00.0 ran at 8 GT/s x16 at best, of 16 GT/s x16"},
      {"LNK-1", [](Trial t) { t.hosts[""].links["0000:17:00.0"].lanes = 8; },
       "0000:17:00.0 ran at 16 GT/s x8 at best, of 16 GT/s x16"},
      {"AER-1", [](Trial t) { t.hosts[""].link_errors_after["0000:17:00.0"].fatal = 2; },
       "0000:17:00.0 had 2 uncorrected PCIe errors"},
      {"AER-1", [](Trial t) { t.hosts[""].link_errors_after["0000:17:00.0"].correctable = 106; },
       "0000:17:00.0 had 101 corrected PCIe errors"},
      {"DEV-1", [](Trial t) { t.tenants[0].nodes[0].missing_devices = {"0000:17:00.0"}; },
       "a t-a: its guest does not show 0000:17:00.0"},
      {"NUM-1", [](Trial t) { t.tenants[0].nodes[0].gpu_numa_nodes = {1}; },
       "a t-a: cores of NUMA node 0 with GPUs of node 1"},
      {"NUM-1",
       [](Trial t) {
         t.tenants[1].nodes[0].gpu_numa_nodes = {0};
         t.tenants[1].nodes[0].core_numa_nodes = {0};
       },
       "b t-b: memory of NUMA node 1 with GPUs of node 0"},
      {"NUM-2",
       [](Trial t) {
         t.tenants[0].nodes[0].guest_gpu_numa_nodes = {0, -1};
       },
       "a t-a: a GPU is on no NUMA node of the guest's"},
      {"LIC-1", [](Trial t) { gpu_of(t, 1, true).licensed = false; },
       "b rank 0: its vGPU was not licensed at the end, and slows down with time"},
      {"LIC-1", [](Trial t) { gpu_of(t, 1, false).licensed = false; },
       "b rank 0: its vGPU was not licensed at the start, and slows down with time"},
      {"LIC-1",
       [](Trial t) {
         gpu_of(t, 1, false).licensed = std::nullopt;
         gpu_of(t, 1, true).licensed = std::nullopt;
       },
       "b rank 0: its vGPU was not licensed at the start and end, and slows down with time"},
      {"LIC-1",
       [](Trial t) {
         t.tenants[0].nodes[0].licensed_at_start = true;
         t.tenants[0].nodes[0].licensed_at_end = false;
       },
       "a t-a: its vGPU was not licensed at the end, and slows down with time"},
      {"FAB-1", [](Trial t) { gpu_of(t, 0, false).fabric_state = "in_progress"; },
       "a rank 0: its NVLink fabric was in_progress"},
      {"P2P-1", [](Trial t) { t.tenants[0].nodes[0].peer_differences = {"GPU 0 does not reach GPU 1"}; },
       "a t-a: GPU 0 does not reach GPU 1"},
      {"P2P-2", [](Trial t) { t.tenants[1].transports_seen["0-1"] = "P2P/IPC, SHM/direct"; },
       "b ranks 0-1: P2P/IPC, SHM/direct where P2P was planned"},
      {"ECC-1", [](Trial t) { gpu_of(t, 0, true).uncorrected_ecc_errors = 6; },
       "a rank 0: 2 uncorrected ECC errors"},
      {"ECC-1", [](Trial t) { gpu_of(t, 0, true).ecc_enabled = false; }, "a rank 0: ECC was switched"},
      {"ECC-1", [](Trial t) { gpu_of(t, 0, true).row_remap_pending = true; },
       "a rank 0: rows of its memory wait to be remapped"},
      {"CLK-1",
       [](Trial t) {
         gpu_of(t, 0, true).throttle_reasons = std::vector<std::string>{"hw_power_brake_slowdown"};
       },
       "a rank 0: hw_power_brake_slowdown"},
      {"CLK-1", [](Trial t) { gpu_of(t, 0, true).power_limit_w = 250; },
       "a rank 0: its power limit went from 300 W to 250 W"},
      {"CLK-1", [](Trial t) { gpu_of(t, 0, true).application_clock_mhz = 1095; },
       "a rank 0: its application clock went from 1410 MHz to 1095 MHz"},
      {"TIME-1", [](Trial t) { t.tenants[0].nodes[0].wall_clock_offset_ns = 51'000'000; },
       "a t-a: its clock is 51 ms off the host's"},
      {"WARM-1",
       [](Trial t) {
         t.tenants[1].ranks[0].result->steady_state = said<protocol::SteadyStateFound>(
             {{"level", false}, {"not_level", {"sm_clock_mhz falls by 3.1 % in 10 s (at most 1 %)"}}});
       },
       "b rank 0: warm-up did not reach a steady state: sm_clock_mhz falls by 3.1 % in 10 s (at most 1 %)"},
      {"WARM-1",
       [](Trial t) {
         t.tenants[1].ranks[0].result->steady_state =
             said<protocol::SteadyStateFound>({{"level", false}, {"not_level", {"\x1b[2J"}}});
       },
       "b rank 0: warm-up did not reach a steady state: \uFFFD[2J"},
      // As GpuTelemetry writes it where the library is not there, and as gpu_record() does for a lost GPU.
      {"NVML-1",
       [](Trial t) {
         gpu_of(t, 0, false) = {.error = "load libnvidia-ml.so.1: no such file"};
         gpu_of(t, 0, true) = {.error = "load libnvidia-ml.so.1: no such file"};
       },
       "a rank 0: its GPU's ECC, clocks and licence were not judged, for NVML did not answer: "
       "load libnvidia-ml.so.1: no such file"},
      {"NVML-1", [](Trial t) { gpu_of(t, 1, true).error = "find the GPU 0000:01:00.0: Not Found"; },
       "b rank 0: its GPU's ECC, clocks and licence at the end were not judged, for NVML did not answer: "
       "find the GPU 0000:01:00.0: Not Found"},
      {"AGG-1",
       [](Trial t) {
         t.aggressors = {{"cpu", 0.25, 0.26, 1, 1}, {"cpu", 1, 0.61, 1, 1}};
       },
       "cpu worked at 61 % where 100 % was asked for"},
      {"AGG-1",
       [](Trial t) {
         t.aggressors = {{"net", 1, 1, 1, 0.4}};
       },
       "net reported its work in 40 % of the counted time"},
      {"STEP-1", [](Trial t) { t.tenants[0].ranks[0].result->skipped_steps = 6; },
       "a rank 0: 6 of 100 steps were skipped: gradients overflowed"},
  };
  return all;
}

/// What each rule finds, with its id before it.
std::vector<std::string> found_in(const TrialEvidence& trial) {
  std::vector<std::string> found;
  for (const auto& rule : validity_rules()) {
    for (const auto& words : rule.look(trial)) { found.push_back(std::string(rule.id) + ": " + words); }
  }
  return found;
}

TEST_CASE("every rule of validity: what breaks it, alone, and its words") {
  CHECK(found_in(good()).empty());
  for (const auto& rule : validity_rules()) {
    INFO(rule.id);
    CHECK(std::any_of(rows().begin(), rows().end(),
                      [&](const Row& row) { return std::string(row.id) == rule.id; }));
  }
  for (const auto& row : rows()) {
    auto trial = good();
    row.change(trial);
    CHECK(found_in(trial) == std::vector<std::string>{std::string(row.id) + ": " + row.words});
  }
}

TEST_CASE("a device that counts its link errors from zero again had few") {
  auto trial = good();
  trial.hosts[""].link_errors_after["0000:17:00.0"] = {3, 0, 0};
  CHECK(found_in(trial).empty());
  trial.hosts[""].link_errors_after["0000:17:00.0"] = {3, 0, 1};
  CHECK(found_in(trial) == std::vector<std::string>{"AER-1: 0000:17:00.0 had 1 uncorrected PCIe errors"});
}

TEST_CASE("what makes a trial invalid, and what is only noted") {
  for (const auto& row : rows()) {
    INFO(row.words);
    auto trial = good();
    row.change(trial);
    const std::set<std::string> notes{"NUM-2", "TIME-1", "WARM-1", "NVML-1", "STEP-1"};
    const bool noted = notes.contains(row.id);
    CHECK(remarks(trial).size() == (noted ? 1 : 0));
    const auto reasons = invalid_reasons(trial);
    CHECK(std::count(reasons.begin(), reasons.end(), std::string(row.id) + ": " + row.words) ==
          (noted ? 0 : 1));
  }
}

TEST_CASE("without devices no rule has anything to say") {
  TrialEvidence trial = good();
  trial.hosts = {};
  for (auto& tenant : trial.tenants) {
    tenant.nodes = {{"t", "boot-" + tenant.name, true}};
    tenant.ranks = {rank_that_says("t", json::object(), json::object())};
    tenant.transports_seen.clear();
  }
  CHECK(found_in(trial).empty());
}

TEST_CASE("skipped steps are judged only where they are counted") {
  const auto words_for = [](const json& skipped, const json& steps) {
    TrialEvidence trial = good();
    trial.tenants[0].ranks = {rank_that_says(
        "t-a", json::object(), {{"skipped_steps", skipped}, {"steps", steps}, {"warmup_steps", 20}})};
    return found_in(trial).size();
  };
  CHECK(words_for(100, 80) == 1);
  CHECK(words_for(1, 0) == 0);  // of the warm-up's 20
  CHECK(words_for(2, 0) == 1);
  for (const json& bad : {json("6"), json(nullptr), json(-6), json(6.5), json::array({6})}) {
    CHECK(words_for(bad, 80) == 0);
    CHECK(words_for(100, bad) == 0);
  }
}

TEST_CASE("one tenant alone needs no isolation") {
  TrialEvidence trial = good();
  trial.tenants.pop_back();
  trial.hosts[""].acs_gaps = {"0000:16:02.0 without RR"};
  trial.hosts[""].unsafe_interrupts = true;
  CHECK(found_in(trial).empty());
}

TEST_CASE("what a guest says of its GPU is read strictly, and null is absent") {
  CHECK_FALSE(said<protocol::Hello>(json()).gpu);
  CHECK_FALSE(said<protocol::Hello>({{"rank", 0}}).gpu);
  CHECK_FALSE(said<protocol::Hello>({{"gpu", "NVIDIA"}}).gpu);
  const auto odd = said<protocol::Hello>({{"gpu",
                                           {{"licensed", "yes"},
                                            {"uncorrected_ecc_errors", "3"},
                                            {"throttle_reasons", "hw_slowdown"},
                                            {"power_limit_w", nullptr},
                                            {"fabric_state", 3}}}})
                       .gpu;
  REQUIRE(odd);
  CHECK_FALSE(odd->licensed);
  CHECK_FALSE(odd->uncorrected_ecc_errors);
  CHECK_FALSE(odd->throttle_reasons);
  CHECK_FALSE(odd->power_limit_w);
  CHECK_FALSE(odd->fabric_state);
}

TEST_CASE("licences of vGPUs as nvidia-smi tells them") {
  const std::string licensed =
      "    License Status                    : Licensed (Expiry: 2026-11-21 8:6:49 GMT)\n";
  const std::string unlicensed = "        License Status                    : Unlicensed (Unrestricted)\n";
  CHECK(all_licensed("vGPU Software Licensed Product\n" + licensed, 1) == true);
  CHECK(all_licensed(licensed + licensed, 2) == true);
  CHECK(all_licensed(licensed + unlicensed, 2) == false);
  CHECK(all_licensed(unlicensed + licensed, 2) == false);
  CHECK(all_licensed(licensed, 2) == false);  // the other, which nobody has told, may be anything
  CHECK(all_licensed(licensed + licensed, 1) == false);
  CHECK(all_licensed("Product Name : NVIDIA A100\n", 1) == std::nullopt);
}

}  // namespace
}  // namespace virtrain::harness
