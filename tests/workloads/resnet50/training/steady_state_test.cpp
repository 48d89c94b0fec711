#include <cmath>
#include <functional>
#include <random>

#include "tests/support/catch.h"
#include "workloads/resnet50/training/step_statistics.h"

using namespace virtrain::resnet50;
using nlohmann::json;

namespace {

/// Feeds steps of a course until the rule says that it is over; gives the rule.
SteadyState warm_up(double bound_s, const std::function<WarmupStep(double at_s)>& course) {
  SteadyState rule(bound_s);
  double now = 100;  // any clock
  while (!rule.is_over()) {
    WarmupStep step = course(now - 100);
    now += step.step_seconds;
    step.end_s = now;
    rule.add(step);
  }
  return rule;
}

double whole(double value) {
  return std::floor(value);
}

/// A GPU from 35 °C towards 71 °C with 20 s of time constant, whose clock sinks by 15 MHz steps as it heats.
WarmupStep heating(double at_s) {
  const double temperature = 71 - 36 * std::exp(-at_s / 20);
  const double clock = 1980 - 15 * whole((temperature - 35) / 4);
  return {0, 0.032 * 1980 / clock, clock, whole(temperature)};
}

bool mentions(const json& record, const std::string& words) {
  const auto why = record["not_level"].get<std::vector<std::string>>();
  return std::any_of(why.begin(), why.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

}  // namespace

TEST_CASE("what is level from the start takes one window") {
  const json record = warm_up(120, [](double) { return WarmupStep{0, 0.05, 1755, 61}; }).to_json();
  CHECK(record["level"] == true);
  CHECK(record["seconds"].get<double>() == Approx(SteadyState::window_s).margin(0.2));
  CHECK(record["observed"] == json{"step_seconds", "sm_clock_mhz", "temperature_c"});
  CHECK(record["not_level"].empty());
}

TEST_CASE("a GPU that heats up is level when its temperature is, not before") {
  const SteadyState rule = warm_up(300, heating);
  const json record = rule.to_json();
  CHECK(record["level"] == true);
  // 36 exp(-t/20) (1 - exp(-1/2)), the rise in 10 s, passes 1 degree at t = 53 s; whole degrees blur that.
  CHECK(record["seconds"] > 45);
  CHECK(record["seconds"] < 80);
}

TEST_CASE("a bound that comes first ends it, and the record says what was not level") {
  const json record = warm_up(20, heating).to_json();
  CHECK(record["level"] == false);
  CHECK(record["seconds"].get<double>() == Approx(20).margin(0.1));
  CHECK(record["bound_seconds"] == 20);
  CHECK(mentions(record, "temperature_c rises by"));
}

TEST_CASE("throttling up and down by a third is never level, a power limit's jitter is") {
  const auto saw_tooth = [](double at_s) {
    const double clock = 1980 - 700 * (at_s / 8 - whole(at_s / 8));  // sinks for 8 s, springs back
    return WarmupStep{0, 0.032 * 1980 / clock, clock, 88};
  };
  const json throttled = warm_up(60, saw_tooth).to_json();
  CHECK(throttled["level"] == false);
  CHECK(throttled["seconds"].get<double>() == Approx(60).margin(0.1));
  CHECK(mentions(throttled, "sm_clock_mhz"));

  std::mt19937 random(7);
  std::normal_distribution<double> jitter(0, 30);
  const auto capped = [&](double) {
    const double clock = 1700 + 15 * whole(jitter(random) / 15);
    return WarmupStep{0, 0.032 * 1980 / clock, clock, 68};
  };
  const json level = warm_up(60, capped).to_json();
  CHECK(level["level"] == true);
  CHECK(level["seconds"] < 15);
}

TEST_CASE("without sensors the step time decides, noisy as it is, hiccups left out") {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 0.04);
  int steps = 0;
  const auto cpu = [&](double) {
    return WarmupStep{0, ++steps == 5 ? 6.0 : 1.6 * (1 + noise(random)), std::nullopt, std::nullopt};
  };
  const json record = warm_up(300, cpu).to_json();
  CHECK(record["level"] == true);
  CHECK(record["observed"] == json{"step_seconds"});
  CHECK(record["seconds"] < 60);
}

TEST_CASE("slow steps make the window longer: ten are needed") {
  const json record = warm_up(600, [](double) { return WarmupStep{0, 20, {}, {}}; }).to_json();
  CHECK(record["level"] == true);
  CHECK(record["seconds"].get<double>() == Approx(20.0 * SteadyState::least_steps));
}

TEST_CASE("a step time that grows for ever reaches the bound") {
  const auto leak = [](double at_s) { return WarmupStep{0, 0.1 * (1 + at_s / 60), {}, {}}; };
  const json record = warm_up(90, leak).to_json();
  CHECK(record["level"] == false);
  CHECK(mentions(record, "step_seconds rises by"));
  CHECK(mentions(record, "at most 1 %"));
}

TEST_CASE("a bound shorter than a window says that it saw too little") {
  const json record = warm_up(2, [](double) { return WarmupStep{0, 0.5, 1755, 61}; }).to_json();
  CHECK(record["level"] == false);
  CHECK(mentions(record, "fewer than 10 s"));
}

TEST_CASE("thousands of steps a second are looked at twice a second") {
  // Quadratic work would take minutes here.
  const json record = warm_up(30, [](double at_s) {
                        return WarmupStep{0, 0.0005 * (1 + at_s / 50), 1755, 61};
                      }).to_json();
  CHECK(record["level"] == false);
}
