#include "workloads/common/gpu/nvml.h"

#include <dlfcn.h>

#include "common/error.h"
#include "tests/support/catch.h"

using namespace virtrain;
using Strings = std::vector<std::string>;

// FAKE_NVML is the path of a library of our own, loaded as the real one would be.

TEST_CASE("a whole GPU tells everything") {
  const Nvml nvml(FAKE_NVML);
  const GpuIdentity identity = nvml.identity("0000:01:00.0");
  CHECK(identity.name == "NVIDIA H200");
  CHECK(identity.driver == "580.65.06");
  CHECK(identity.power_limit_w == 700);
  CHECK(identity.most_sm_clock_mhz == 1980U);
  CHECK(identity.application_clock_mhz == 1830U);
  CHECK(identity.ecc_enabled == true);
  CHECK(identity.pcie_generation == 4U);
  CHECK(identity.best_pcie_generation == 5U);
  CHECK(identity.best_pcie_width == 16U);
  CHECK(identity.mig_enabled == false);
  CHECK(identity.virtualization == "passthrough");
  CHECK(identity.licensed == std::nullopt);  // nothing to license
  const GpuState state = nvml.state("0000:01:00.0");
  CHECK(state.sm_clock_mhz == 1755U);
  CHECK(state.memory_clock_mhz == 3201U);
  CHECK(state.temperature_c == 61U);
  CHECK(state.power_w == 512.345);
  CHECK(state.energy_j == 5'000'000'000.25);
  CHECK(state.throttle_reasons == Strings{"sw_power_cap", "hw_thermal_slowdown", "bit 9"});
  const GpuHealth health = nvml.health("0000:01:00.0");
  CHECK(health.uncorrected_ecc_errors == 2U);
  CHECK(health.row_remap_pending == true);
  CHECK(health.fabric_state == "in_progress");
  CHECK(health.compute_processes == 3U);
  CHECK(nvml.use("0000:01:00.0").compute_processes == 3U);
  CHECK(nvml.use("0000:01:00.0").busy_percent == 97U);
  CHECK(nvml.use("0000:02:00.0").busy_percent == std::nullopt);
}

TEST_CASE("a GPU that others use is said, one's own use is not") {
  CHECK_THAT(sharing_words(Nvml(FAKE_NVML).health("0000:01:00.0")),
             virtrain::test::Contains("; 3 processes use the GPU"));
  GpuHealth health;
  CHECK(sharing_words(health).empty());  // not told
  for (const unsigned processes : {0U, 1U}) {
    health.compute_processes = processes;
    CHECK(sharing_words(health).empty());
  }
}

TEST_CASE("what a vGPU does not tell is absent, and a missing licence shows") {
  const Nvml nvml(FAKE_NVML);
  const GpuIdentity identity = nvml.identity("0000:02:00.0");
  CHECK(identity.virtualization == "vgpu");
  CHECK(identity.licensed == false);
  CHECK(identity.power_limit_w == std::nullopt);
  CHECK(identity.application_clock_mhz == std::nullopt);
  CHECK(identity.ecc_enabled == std::nullopt);
  const nlohmann::json state = to_json(nvml.state("0000:02:00.0"));
  CHECK(state["power_w"].is_null());
  CHECK(state["throttle_reasons"].is_null());
  const nlohmann::json health = to_json(nvml.health("0000:02:00.0"));
  CHECK(health["uncorrected_ecc_errors"].is_null());
  CHECK(health["row_remap_pending"].is_null());
  CHECK(health["fabric_state"].is_null());
  CHECK(to_json(identity)["name"] == "NVIDIA H200X-35C");
}

TEST_CASE("a function that an older driver lacks is an absent value") {
  CHECK(Nvml(FAKE_NVML).identity("0000:01:00.0").vbios == std::nullopt);
}

TEST_CASE("a sample asks nothing that may go to the GPU's firmware") {
  void* const library = dlopen(FAKE_NVML, RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto questions = reinterpret_cast<int (*)()>(dlsym(library, "fake_nvml_firmware_questions"));
  const Nvml nvml(FAKE_NVML);
  const int before = questions();
  nvml.state("0000:01:00.0");
  CHECK(questions() == before);
  nvml.health("0000:01:00.0");
  CHECK(questions() == before + 4);
  dlclose(library);
}

TEST_CASE("the library is shut down as often as it was initialized") {
  void* const library = dlopen(FAKE_NVML, RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto users = reinterpret_cast<int (*)()>(dlsym(library, "fake_nvml_users"));
  {
    Nvml first(FAKE_NVML);
    const Nvml second(FAKE_NVML);
    const Nvml moved = std::move(first);
    CHECK(users() == 2);
  }
  CHECK(users() == 0);
  dlclose(library);
}

TEST_CASE("an unknown address, a missing library and a wrong one are errors with advice") {
  const Nvml nvml(FAKE_NVML);
  CHECK_THROWS_WITH(nvml.identity("0000:99:00.0"),
                    "find the GPU 0000:99:00.0: Not Found (nvidia-smi -L lists the GPUs)");
  CHECK_THROWS_WITH(Nvml("libno-such-thing.so.1"), virtrain::test::Contains("load libno-such-thing.so.1") &&
                                                       virtrain::test::Contains("install NVIDIA's driver"));
  CHECK_THROWS_WITH(Nvml("libm.so.6"), virtrain::test::Contains("it has no nvmlInit_v2"));
}

TEST_CASE("no reason to throttle is an empty list") {
  CHECK(throttle_reason_names(0).empty());
}
