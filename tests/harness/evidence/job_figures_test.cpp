#include "harness/evidence/job_output.h"
#include "tests/support/catch.h"

namespace virtrain::harness {
namespace {

using test::Contains;

JobFigureLines figure(const std::string& name, const std::string& pattern,
                      FigureScope scope = FigureScope::job, std::int64_t skip = 0) {
  JobFigureLines lines;
  lines.name = name;
  lines.pattern = pattern;
  lines.unit = "%";
  lines.scope = scope;
  lines.skip = skip;
  return lines;
}

}  // namespace

TEST_CASE("a figure's value is the mean of its readings after those that are skipped") {
  const std::vector<JobFigureLines> rules{figure("mfu", "mfu: (?P<value>[-0-9.]+)", FigureScope::job, 1)};
  JobFigures figures(rules);
  const FigureOwner first{"t1n1"}, second{"t1n2"};
  for (const auto* line : {"mfu: 90", "mfu: 40", "no figure", "mfu: -20"}) { figures.take(line, first, 5); }
  // The first who says it speaks for all.
  CHECK(figures.take("mfu: 1000", second, 5).empty());
  const auto values = figures.values();
  REQUIRE(values.size() == 1);
  CHECK(values[0].name == "mfu");
  CHECK(values[0].unit == "%");
  CHECK(values[0].value == Approx(10));
  CHECK(values[0].node.empty());
  CHECK_FALSE(values[0].rank);
  CHECK_FALSE(values[0].t_ns);
  CHECK(figures.doubts({}).empty());
}

TEST_CASE("a reading that is not a number makes a figure doubtful, once there are some that count") {
  const std::vector<JobFigureLines> rules{figure("mfu", "mfu: (?P<value>\\S+)")};
  JobFigures figures(rules);
  for (const auto* line : {"mfu: N/A", "mfu: 40", "mfu: 41"}) { figures.take(line, {"t1n1"}, 5); }
  CHECK(figures.doubts({}).empty());
  figures.take("mfu: nan", {"t1n1"}, 6);
  const auto doubts = figures.doubts({});
  REQUIRE(doubts.size() == 1);
  CHECK(doubts[0] == "a line that the pattern of mfu matches says 'nan', which is not a number");
}

TEST_CASE("named groups are settings, and figures of other settings, nodes and ranks are other figures") {
  const std::vector<JobFigureLines> rules{
      figure("all_reduce", "size (?P<size_bytes>[0-9]+) (?P<value>[0-9]+)", FigureScope::rank)};
  JobFigures figures(rules);
  const auto reading = figures.take("size 8 100", {{}, 0}, 7);
  REQUIRE(reading.size() == 1);
  CHECK(reading[0].t_ns == 7);
  CHECK(reading[0].rank == 0);
  CHECK(reading[0].settings == nlohmann::json{{"size_bytes", "8"}});
  figures.take("size 8 300", {{}, 0}, 8);
  figures.take("size 16 400", {{}, 0}, 9);
  figures.take("size 8 500", {{}, 1}, 9);
  const auto values = figures.values();
  REQUIRE(values.size() == 3);
  double sum = 0;
  for (const auto& one : values) { sum += one.value; }
  CHECK(sum == Approx(200 + 400 + 500));
  const auto doubts = figures.doubts({{{}, 0}, {{}, 1}, {{}, 2}});
  REQUIRE(doubts.size() == 1);
  CHECK_THAT(doubts[0], Contains("rank 2 printed no all_reduce"));
}

TEST_CASE("a figure that nobody says, or only while it does not count, is doubted") {
  const std::vector<JobFigureLines> rules{figure("mfu", "mfu: (?P<value>[0-9]+)", FigureScope::job, 2)};
  JobFigures figures(rules);
  for (int i = 0; i < 2; ++i) { figures.take("mfu: 5", {"t1n1"}, 1); }
  CHECK(figures.values().empty());
  CHECK(figures.doubts({}) ==
        std::vector<std::string>{"the command printed no mfu after 2 that do not count"});
}

TEST_CASE("settings without end are a flood") {
  const std::vector<JobFigureLines> rules{figure("x", "(?P<step>[0-9]+)=(?P<value>[0-9]+)")};
  JobFigures figures(rules);
  const auto flood = [&] {
    for (int i = 0; i < 20'000; ++i) { figures.take(std::to_string(i) + "=1", {"t1n1"}, 1); }
  };
  CHECK_THROWS_WITH(flood(), Contains("more than 10000 figures of different settings"));
}

}  // namespace virtrain::harness
