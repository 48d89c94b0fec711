#include "harness/evidence/gpu_facts.h"

#include "tests/support/catch.h"
#include "tests/support/rank_records.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;
using virtrain::test::SaidRank;
using Facts = std::map<std::string, std::string>;

constexpr std::int64_t second_ns = 1'000'000'000;

/// The records of a rank on an A100, as the CUDA trainer writes them
/// (workloads/resnet50/training/training.cpp, workloads/resnet50/cuda/run/main.cpp,
/// workloads/common/gpu/gpu_sampler.cpp).
SaidRank rank_on(const std::string& pci_address, const std::string& uuid) {
  const json gpu = {{"name", "NVIDIA A100-PCIE-40GB"},
                    {"uuid", uuid},
                    {"driver", "550.90.07"},
                    {"vbios", "92.00.25.00.08"},
                    {"power_limit_w", 250.0},
                    {"most_sm_clock_mhz", 1410},
                    {"application_clock_mhz", 1095},
                    {"ecc_enabled", true},
                    {"pcie_generation", 1},
                    {"pcie_width", 16},
                    {"best_pcie_generation", 4},
                    {"best_pcie_width", 16},
                    {"mig_enabled", false},
                    {"virtualization", "passthrough"},
                    {"licensed", nullptr},
                    {"uncorrected_ecc_errors", 0},
                    {"sm_clock_mhz", 765}};
  SaidRank rank;
  rank.hello = json{{"record", "hello"},
                    {"device", "NVIDIA A100-PCIE-40GB"},
                    {"pci_address", pci_address},
                    {"compute_capability", 80},
                    {"cuda_driver", 12040},
                    {"cuda_runtime", 13000},
                    {"cudnn", "9.8.0"},
                    {"nccl", nullptr},
                    {"gpu", gpu},
                    {"build", "virtrain 0.1.0, g++ 12.2.0, Release"}};
  rank.ready = json{{"fusion", "full"}, {"repeatable", true}, {"parameters_hash", "1"}, {"gpu", gpu}};
  json at_the_end = gpu;
  at_the_end["during"] = {{"samples", 300},
                          {"seconds", 30.0},
                          {"sm_clock_mhz", {{"min", 1200}, {"mean", 1380.0}, {"max", 1410}}},
                          {"memory_clock_mhz", {{"min", 1215}, {"mean", 1215.0}, {"max", 1215}}},
                          {"temperature_c", {{"min", 50}, {"mean", 60.0}, {"max", 65}}},
                          {"power_w", {{"min", 200.0}, {"mean", 240.0}, {"max", 250.0}}},
                          {"energy_j", 7200.0},
                          {"energy_from", "counter"},
                          {"images_per_joule", 5.0},
                          {"throttled", {{"gpu_idle", 0.9}, {"sw_power_cap", 0.25}, {"hw_slowdown", 0.5}}}};
  rank.result = json{{"images", 36000}, {"steps", 140}, {"warmup_steps", 10}, {"gpu", at_the_end}};
  rank.samples = {{20 * second_ns, 70, 18000, 15, 6.9}, {35 * second_ns, 140, 18000, 15, 6.5}};
  return rank;
}

SaidRank first_rank() {
  return rank_on("0000:17:00.0", "GPU-1");
}

json& during(SaidRank& rank) {
  return rank.result["gpu"]["during"];
}

std::vector<RankState> states_of(const std::vector<SaidRank>& ranks) {
  std::vector<RankState> states;
  states.reserve(ranks.size());
  for (const auto& rank : ranks) { states.push_back(rank.state()); }
  return states;
}

std::vector<const RankState*> pointers_to(const std::vector<RankState>& states) {
  std::vector<const RankState*> pointers;
  pointers.reserve(states.size());
  for (const auto& state : states) { pointers.push_back(&state); }
  return pointers;
}

Facts facts_of_node(const std::vector<SaidRank>& ranks) {
  const auto states = states_of(ranks);
  return gpu_facts(pointers_to(states));
}

/// Readings of ranks in one node by their names; all must be the guest's and of one time.
std::map<std::string, double> readings(const std::vector<SaidRank>& ranks, std::int64_t t_ns) {
  const auto states = states_of(ranks);
  std::map<std::string, double> found;
  for (const auto& reading : gpu_telemetry(pointers_to(states))) {
    CHECK(reading.source == "guest");
    CHECK(reading.t_ns == t_ns);
    CHECK(found.emplace(reading.metric, reading.value).second);
  }
  return found;
}

}  // namespace

TEST_CASE("what a rank says of GPU, libraries and fusion, by the comparison's names") {
  const auto rank = first_rank();
  CHECK(facts_of_node({rank}) == Facts{{"gpu_name", "NVIDIA A100-PCIE-40GB"},
                                       {"gpu_uuid", "GPU-1"},
                                       {"driver", "550.90.07"},
                                       {"vbios", "92.00.25.00.08"},
                                       {"power_limit", "250 W"},
                                       {"clocks", "1095 MHz"},
                                       {"ecc", "on"},
                                       {"mig", "off"},
                                       {"gpu_virtualization", "passthrough"},
                                       {"gpu_pcie_generation", "4"},
                                       {"gpu_pcie_width", "x16"},
                                       {"cuda", "13.0"},
                                       {"cudnn", "9.8.0"},
                                       {"trainer_build", "virtrain 0.1.0, g++ 12.2.0, Release"},
                                       {"fusion", "full"},
                                       {"repeatable", "yes"}});
  CHECK(gpu_facts({}).empty());
}

TEST_CASE("where the ranks of a node differ, a fact lists each value once, in order") {
  auto second = rank_on("0000:ca:00.0", "GPU-0");
  second.hello["gpu"]["ecc_enabled"] = false;
  second.hello["cuda_runtime"] = 12080;
  second.hello["nccl"] = "2.26.2";
  const auto first = first_rank();
  const auto facts = facts_of_node({first, second});
  CHECK(facts.at("gpu_uuid") == "GPU-0, GPU-1");
  CHECK(facts.at("gpu_name") == "NVIDIA A100-PCIE-40GB");
  CHECK(facts.at("ecc") == "off, on");
  CHECK(facts.at("cuda") == "12.8, 13.0");
  CHECK(facts.at("nccl") == "2.26.2");
}

TEST_CASE("a vGPU has no UUID and no VBIOS of a card") {
  auto rank = first_rank();
  auto& gpu = rank.hello["gpu"];
  gpu["virtualization"] = "vgpu";
  gpu["licensed"] = true;
  gpu["power_limit_w"] = nullptr;
  gpu["application_clock_mhz"] = nullptr;
  gpu["vbios"] = "00.00.00.00.00";
  const auto facts = facts_of_node({rank});
  CHECK(facts.at("gpu_virtualization") == "vgpu");
  CHECK(facts.at("gpu_licensed") == "yes");
  for (const char* name : {"gpu_uuid", "vbios", "power_limit", "clocks"}) { CHECK(facts.count(name) == 0); }
}

TEST_CASE("without NVML the trainer still names its device and libraries") {
  auto rank = first_rank();
  rank.hello["gpu"] = {{"error", "load libnvidia-ml.so.1: no such file"}};
  rank.result["gpu"] = rank.hello["gpu"];
  const auto facts = facts_of_node({rank});
  CHECK(facts.at("gpu_name") == "NVIDIA A100-PCIE-40GB");
  CHECK(facts.at("cudnn") == "9.8.0");
  CHECK(facts.count("driver") == 0);
  CHECK(readings({rank}, 35 * second_ns).empty());
}

TEST_CASE("what a guest sends is taken only where it is short, printable and of its type") {
  const auto name_by = [](const json& said) {
    auto rank = first_rank();
    rank.hello.erase("device");
    rank.hello["gpu"]["name"] = said;
    const auto facts = facts_of_node({rank});
    const auto found = facts.find("gpu_name");
    return found == facts.end() ? "" : found->second;
  };
  CHECK(name_by(std::string(200, 'x')) == std::string(200, 'x'));
  CHECK(name_by(std::string(201, 'x')).empty());
  for (const json& bad : {json(""), json("A\n100"), json("A\t100"), json("\x1b[2J"), json(7), json(true),
                          json(nullptr), json({"A100"}), json({{"a", 1}})}) {
    CHECK(name_by(bad).empty());
  }

  auto rank = first_rank();
  rank.hello["cuda_runtime"] = "13.0";
  rank.hello["gpu"].update({{"power_limit_w", -1}, {"ecc_enabled", 1}, {"best_pcie_width", 1e300}});
  rank.ready["repeatable"] = "yes";
  const auto facts = facts_of_node({rank});
  for (const char* name : {"cuda", "power_limit", "ecc", "gpu_pcie_width", "repeatable"}) {
    INFO(name);
    CHECK(facts.count(name) == 0);
  }
  for (const json& odd : {json("gpu"), json::array({1}), json(nullptr), json(3)}) {
    SaidRank other;
    other.hello = json{{"gpu", odd}};
    other.ready = odd;
    other.result = json{{"gpu", {{"during", odd}}}};
    other.samples = {{second_ns, 1, 1, 1, std::nullopt}};
    CHECK(facts_of_node({other}).empty());
    CHECK(readings({other}, second_ns).empty());
  }
  CHECK(gpu_facts({std::make_unique<RankState>().get()}).empty());
}

TEST_CASE("the course of a node's GPUs: means over the ranks, power together, at the end of the samples") {
  CHECK(readings({first_rank()}, 35 * second_ns) == std::map<std::string, double>{
                                                        {"gpu_sm_clock_mhz", 1380},
                                                        {"gpu_power_watts", 240},
                                                        {"gpu_temperature_celsius", 60},
                                                        {"gpu_throttle_share", 0.5},
                                                        {"gpu_images_per_joule", 5},
                                                    });
  auto second = rank_on("0000:ca:00.0", "GPU-2");
  during(second)["sm_clock_mhz"]["mean"] = 1000;
  during(second)["power_w"]["mean"] = 160;
  during(second)["temperature_c"]["mean"] = 50;
  during(second)["energy_j"] = 4800;
  during(second)["throttled"] = json::object();
  second.samples.back().t_ns = 36 * second_ns;
  const auto both = readings({first_rank(), second}, 36 * second_ns);
  CHECK(both.at("gpu_sm_clock_mhz") == 1190);
  CHECK(both.at("gpu_power_watts") == 400);
  CHECK(both.at("gpu_temperature_celsius") == 55);
  CHECK(both.at("gpu_throttle_share") == 0.25);
  CHECK(both.at("gpu_images_per_joule") == 6);
}

TEST_CASE("two ranks of one GPU have its power and energy once") {
  const auto shared = readings({first_rank(), first_rank()}, 35 * second_ns);
  CHECK(shared.at("gpu_power_watts") == 240);
  CHECK(shared.at("gpu_images_per_joule") == 10);
}

TEST_CASE("idle clocks and clocks that somebody set are no throttling, the power cap is") {
  const auto share_of = [](const json& throttled) {
    auto rank = first_rank();
    during(rank)["throttled"] = throttled;
    const auto found = readings({rank}, 35 * second_ns);
    return found.count("gpu_throttle_share") == 0 ? -1 : found.at("gpu_throttle_share");
  };
  CHECK(share_of({{"gpu_idle", 1.0}, {"applications_clocks_setting", 1.0}, {"sync_boost", 1.0}}) == 0);
  for (const char* reason : {"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
                             "sw_thermal_slowdown", "sw_power_cap"}) {
    CHECK(share_of({{reason, 0.125}, {"gpu_idle", 1.0}}) == 0.125);
  }
  CHECK(share_of({{"hw_slowdown", 7}}) == 1);
  CHECK(share_of(nullptr) == -1);
}

TEST_CASE("what a GPU does not tell gives no reading, and without samples there is no time for any") {
  auto rank = first_rank();
  for (const char* name : {"power_w", "energy_j", "images_per_joule"}) { during(rank)[name] = nullptr; }
  const auto found = readings({rank}, 35 * second_ns);
  CHECK(found.size() == 3);
  CHECK(found.count("gpu_power_watts") == 0);
  CHECK(found.count("gpu_images_per_joule") == 0);
  rank.samples.clear();
  const auto state = rank.state();
  CHECK(gpu_telemetry({&state}).empty());
}

}  // namespace virtrain::harness
