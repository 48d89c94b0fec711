#include "results/report/data/course.h"

#include "tests/support/catch.h"

namespace virtrain::results {
namespace {

constexpr std::int64_t second = 1'000'000'000;

Telemetry reading(std::int64_t seconds, const std::string& metric, double value) {
  return {seconds * second, "guest", metric, value};
}

TEST_CASE("a tenant's throughput is the sum over its ranks, where all of them measured the step") {
  const std::vector<std::vector<Sample>> ranks{
      {{10 * second, 10, 100, 2.0, {}}, {12 * second, 20, 100, 2.0, {}}, {14 * second, 30, 100, 2.0, {}}},
      {{11 * second, 10, 100, 4.0, {}}, {12 * second, 20, 100, 2.0, {}}}};
  const auto points = tenant_throughput(ranks);
  REQUIRE(points.size() == 2);
  CHECK(points[0] == Point{11, 75});
  CHECK(points[1] == Point{12, 100});
}

TEST_CASE("telemetry shares the trial's clock, counters become rates and shares") {
  TrialRecord trial;
  trial.trial.arm = "vm";
  TenantRecord tenant;
  tenant.samples = {{{105 * second, 1, 50, 1.0, {}}}};
  NodeRecord node{"t0n0", {}};
  // Two cores: in the first second all busy, in the second a quarter is stolen and the rest idles.
  const double user[] = {0, 2, 2}, idle[] = {0, 0, 1.5}, steal[] = {0, 0, 0.5};
  for (int i = 0; i < 3; ++i) {
    node.telemetry.push_back(reading(100 + i, "cpu_user_seconds", user[i]));
    node.telemetry.push_back(reading(100 + i, "cpu_idle_seconds", idle[i]));
    node.telemetry.push_back(reading(100 + i, "cpu_steal_seconds", steal[i]));
    node.telemetry.push_back(reading(100 + i, "cpu_system_seconds", 0));
    node.telemetry.push_back(reading(100 + i, "cpu_iowait_seconds", 0));
    node.telemetry.push_back(reading(100 + i, "network_tx_bytes", 5e6 * i));
  }
  tenant.nodes = {node};
  trial.tenants = {tenant};
  const std::vector<const TrialRecord*> trials{&trial};
  const auto panels = course_of(trials);
  REQUIRE(panels.size() == 4);
  CHECK(panels[0].title == "Throughput");
  CHECK(panels[0].lines.at(0).points == std::vector<Point>{{5, 50}});
  CHECK(panels[1].title == "CPU busy in the node");
  CHECK(panels[1].lines.at(0).points == std::vector<Point>{{1, 100}, {2, 0}});
  CHECK(panels[2].title == "CPU stolen from the node");
  CHECK(panels[2].lines.at(0).points == std::vector<Point>{{1, 0}, {2, 25}});
  CHECK(panels[3].unit == "MB/s");
  CHECK(panels[3].lines.at(0).points == std::vector<Point>{{1, 5}, {2, 5}});
}

TEST_CASE("a counter that fell was reset and shows nothing") {
  TrialRecord trial;
  TenantRecord tenant;
  tenant.samples = {{{5 * second, 1, 50, 1.0, {}}}};
  tenant.nodes = {{"n",
                   {reading(1, "network_tx_bytes", 9e6), reading(2, "network_tx_bytes", 1e6),
                    reading(3, "network_tx_bytes", 3e6)}}};
  trial.tenants = {tenant};
  const std::vector<const TrialRecord*> trials{&trial};
  const auto panels = course_of(trials);
  REQUIRE(panels.size() == 2);
  CHECK(panels[1].lines.at(0).points == std::vector<Point>{{2, 2}});
}

}  // namespace
}  // namespace virtrain::results
