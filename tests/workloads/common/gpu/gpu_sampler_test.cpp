#include "workloads/common/gpu/gpu_sampler.h"

#include <atomic>

#include "common/error.h"
#include "tests/support/catch.h"

using namespace virtrain;
using nlohmann::json;
using Strings = std::vector<std::string>;

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

GpuState state(unsigned clock, double power, std::optional<double> energy, Strings reasons) {
  GpuState out;
  out.sm_clock_mhz = clock;
  out.temperature_c = clock / 30;
  out.power_w = power;
  out.energy_j = energy;
  out.throttle_reasons = std::move(reasons);
  return out;
}

/// Waits until a look from the other thread has been taken; a test's time limit is ctest's.
void wait_for_samples(const GpuSampler& sampler, std::size_t count) {
  while (sampler.course().samples() < count) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
}

}  // namespace

TEST_CASE("a course has least, mean and most, shares of throttling and images per joule") {
  GpuCourse course;
  course.add(10 * second_ns, state(1980, 600, 1000.5, {}));
  course.add(11 * second_ns, state(1800, 700, 1700, {"sw_power_cap"}));
  course.add(12 * second_ns, state(1710, 710, 2100, {"sw_power_cap", "hw_thermal_slowdown"}));
  course.add(14 * second_ns, state(1950, 650, 3500.5, {}));
  const json during = course.to_json(5000);
  CHECK(during["samples"] == 4);
  CHECK(during["seconds"] == 4);
  CHECK(during["sm_clock_mhz"] == json{{"min", 1710}, {"mean", 1860}, {"max", 1980}});
  CHECK(during["temperature_c"]["max"] == 66);
  CHECK(during["power_w"]["mean"] == 665);
  CHECK(during["energy_j"] == 2500);
  CHECK(during["energy_from"] == "counter");
  CHECK(during["images_per_joule"] == 2);
  CHECK(during["throttled"] == json{{"sw_power_cap", 0.5}, {"hw_thermal_slowdown", 0.25}});
  CHECK(during["memory_clock_mhz"].is_null());
  CHECK(course.throttle_reasons() == Strings{"hw_thermal_slowdown", "sw_power_cap"});
}

TEST_CASE("without a counter the energy is power and time, and says so") {
  GpuCourse course;
  course.add(0, state(1000, 300, std::nullopt, {}));
  course.add(2 * second_ns, state(1000, 500, std::nullopt, {}));
  CHECK(course.to_json(std::nullopt)["energy_j"] == 800);
  CHECK(course.to_json(std::nullopt)["energy_from"] == "power");
  CHECK(course.to_json(std::nullopt)["images_per_joule"].is_null());
}

TEST_CASE("what a GPU does not tell is null, never zero") {
  GpuCourse course;
  for (const int second : {0, 1}) { course.add(second * second_ns, GpuState{}); }
  const json during = course.to_json(100);
  for (const char* name : {"sm_clock_mhz", "temperature_c", "power_w", "energy_j", "energy_from",
                           "images_per_joule", "throttled"}) {
    CAPTURE(name);
    CHECK(during[name].is_null());
  }
  CHECK(course.throttle_reasons() == std::nullopt);
  GpuCourse single;
  single.add(0, state(1000, 300, 7, {}));
  CHECK(single.energy_j() == std::nullopt);
}

TEST_CASE("the record has nvml.h's names, and the reasons of the whole course") {
  const Nvml nvml(FAKE_NVML);
  const char* const address = "0000:01:00.0";
  GpuCourse course;
  course.add(0, state(1900, 600, 1, {"sync_boost"}));
  course.add(second_ns, state(1900, 600, 501, {}));
  GpuIdentity known;
  known.power_limit_w = 650;  // changed meanwhile
  const json record = gpu_record(nvml, address, known, nvml.state(address), course, 1000);
  CHECK(record["uuid"] == "GPU-6ba7b810-9dad-11d1-80b4-00c04fd430c8");
  CHECK(record["virtualization"] == "passthrough");
  CHECK(record["ecc_enabled"] == true);
  CHECK(record["row_remap_pending"] == true);
  CHECK(record["uncorrected_ecc_errors"] == 2);
  CHECK(record["power_limit_w"] == 700);
  CHECK(record["fabric_state"] == "in_progress");
  CHECK(record["throttle_reasons"] == Strings{"sync_boost"});
  CHECK(record["during"]["images_per_joule"] == 2);
  // With all the rest of a result it has to fit in one record.
  CHECK(record.dump().size() < 2048);
  CHECK_FALSE(record.contains("error"));
}

TEST_CASE("of a card cut by MIG nobody knows what a slice draws") {
  const Nvml nvml(FAKE_NVML);
  const char* const address = "0000:03:00.0";
  GpuCourse course;
  course.add(0, state(1900, 600, 1, {}));
  course.add(second_ns, state(1900, 600, 501, {}));
  const json record = gpu_record(nvml, address, nvml.identity(address), nvml.state(address), course, 1000);
  CHECK(record["mig_enabled"] == true);
  CHECK((record["power_w"].is_null() && record["energy_j"].is_null()));
  for (const char* name : {"power_w", "energy_j", "energy_from", "images_per_joule"}) {
    CHECK(record["during"][name].is_null());
  }
  CHECK(record["during"]["sm_clock_mhz"]["mean"] == 1900);
}

TEST_CASE("a GPU that is lost at the end of a run leaves a record of what is known, and says so") {
  const Nvml nvml(FAKE_NVML);
  GpuState last = state(1900, 600, 1, {});
  const json record = gpu_record(nvml, "0000:09:00.0", nvml.identity("0000:01:00.0"), last, GpuCourse(), 1);
  CHECK(record["power_limit_w"] == 700);
  CHECK(record["sm_clock_mhz"] == 1900);
  CHECK(record["uncorrected_ecc_errors"].is_null());
  CHECK_THAT(record["error"].get<std::string>(), virtrain::test::Contains("0000:09:00.0"));
}

TEST_CASE("the sampler looks on its own, and a restart forgets what was") {
  const Nvml nvml(FAKE_NVML);
  std::atomic<bool> hot = true;
  GpuSampler sampler(
      [&] {
        GpuState now = nvml.state("0000:01:00.0");
        if (hot) { now.temperature_c = 99; }
        return now;
      },
      std::chrono::milliseconds(1));
  wait_for_samples(sampler, 3);
  CHECK(sampler.course().to_json({})["temperature_c"]["max"] == 99);
  hot = false;
  // A look that began while it was hot may still come in after the first restart.
  sampler.restart();
  wait_for_samples(sampler, 3);
  sampler.restart();
  wait_for_samples(sampler, 3);
  const GpuCourse course = sampler.stop();
  CHECK(course.samples() >= 3);
  CHECK(course.to_json({})["temperature_c"]["max"] == 61);
  CHECK(course.to_json({})["energy_j"] == 0);  // the fake's counter stands still
  CHECK(course.throttle_reasons() == Strings{"bit 9", "hw_thermal_slowdown", "sw_power_cap"});
  CHECK(sampler.course().samples() == course.samples());
}

TEST_CASE("a short measurement has its first sample and its last") {
  GpuSampler sampler([] { return state(1500, 100, 3, {}); }, std::chrono::hours(1));
  sampler.restart();
  CHECK(sampler.stop().samples() >= 2);
}

TEST_CASE("a GPU that is lost gives no samples and no crash") {
  std::atomic<int> looks = 0;
  GpuSampler sampler(
      [&]() -> GpuState {
        ++looks;
        throw Error("find the GPU", ErrorCode::not_found, "Not Found");
      },
      std::chrono::milliseconds(1));
  while (looks < 3) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
  const GpuCourse course = sampler.stop();
  CHECK(course.samples() == 0);
  CHECK(course.to_json(1)["power_w"].is_null());
}
