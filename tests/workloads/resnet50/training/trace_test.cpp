#include "workloads/resnet50/training/trace.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <filesystem>

#include "common/error.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::resnet50;
using nlohmann::json;

namespace {

Span compute(std::int64_t begin, std::int64_t end) {
  return {Span::Kind::compute, "forward", 1, begin, end};
}

Span communication(std::int64_t begin, std::int64_t end) {
  return {Span::Kind::communication, "all-reduce 0", 1, begin, end};
}

}  // namespace

TEST_CASE("communication under computing is hidden, the rest is exposed") {
  // compute   0────────100      150──180
  // communicate   60────────140   160────200
  const Exposure seen =
      exposure({compute(0, 100), communication(60, 140), compute(150, 180), communication(160, 200)});
  CHECK(seen.communication_ns == 120);
  CHECK(seen.exposed_ns == 40 + 20);
}

TEST_CASE("each moment counts once, in whatever order the spans come") {
  const Exposure seen = exposure({communication(30, 90), communication(20, 60), communication(200, 210),
                                  compute(40, 50), compute(0, 25), compute(45, 70)});
  CHECK(seen.communication_ns == 80);       // 20..90 and 200..210
  CHECK(seen.exposed_ns == 80 - (5 + 30));  // without 20..25 and 40..70
}

TEST_CASE("the ends of exposure") {
  CHECK(exposure({}).communication_ns == 0);
  CHECK(exposure({compute(0, 10)}).exposed_ns == 0);
  CHECK(exposure({communication(5, 15)}).exposed_ns == 10);
  CHECK(exposure({communication(5, 15), compute(0, 20)}).exposed_ns == 0);
  CHECK(exposure({communication(5, 15), compute(15, 20)}).exposed_ns == 10);
  CHECK(exposure({communication(7, 7)}).communication_ns == 0);
}

TEST_CASE("a trace is what Chrome's viewer reads") {
  const json trace =
      json::parse(trace_json({{Span::Kind::compute, "forward \"x\"", 4, 5'000'001'500, 5'000'003'500},
                              {Span::Kind::communication, "all-reduce 0", 4, 5'000'002'500, 5'000'004'500}},
                             3));
  std::vector<json> spans;
  std::vector<std::string> names;
  for (const json& event : trace.at("traceEvents")) {
    CHECK(event.at("pid") == 3);
    if (event.at("ph") == "X") { spans.push_back(event); }
    if (event.at("ph") == "M") { names.push_back(event.at("args").at("name")); }
  }
  CHECK(names == std::vector<std::string>{"rank 3", "compute", "communication", "exposed communication"});
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].at("name") == "forward \"x\"");
  CHECK(spans[0].at("ts") == 5'000'001.5);  // microseconds
  CHECK(spans[0].at("dur") == 2);
  CHECK(spans[0].at("args").at("step") == 4);
  CHECK(spans[0].at("tid") != spans[1].at("tid"));
  CHECK(trace.at("otherData").at("communication_ms") == 0.002);
  CHECK(trace.at("otherData").at("exposed_communication_ms") == 0.001);
}

TEST_CASE("a trace shows when communication was exposed, on a line of its own") {
  // compute        0────────100  120─130   150──180
  // communicate      60─────────────────140  160────200    300─310
  // exposed                  100─120 130─140       180─200 300─310
  const json trace =
      json::parse(trace_json({communication(60, 140), compute(120, 130), compute(0, 100), compute(150, 180),
                              communication(160, 200), communication(300, 310)},
                             0));
  std::vector<std::pair<double, double>> exposed;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("cat") != "exposed communication") { continue; }
    CHECK(event.at("tid") == 2);
    exposed.emplace_back(event.at("ts"), event.at("dur"));
  }
  CHECK(exposed ==
        std::vector<std::pair<double, double>>{{0.1, 0.02}, {0.13, 0.01}, {0.18, 0.02}, {0.3, 0.01}});
}

TEST_CASE("several ranks write several files") {
  CHECK(trace_path("t.json", 0, 1) == "t.json");
  CHECK(trace_path("t.json", 2, 4) == "t.2.json");
  CHECK(trace_path("/tmp/my.run/trace", 0, 2) == "/tmp/my.run/trace.0");
}

TEST_CASE("a file that cannot be written is an error that names it") {
  CHECK_THROWS_WITH(write_trace("/nonexistent/t.json", {}, 0), virtrain::test::Contains("/nonexistent"));
}
