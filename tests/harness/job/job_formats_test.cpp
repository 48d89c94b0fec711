// Outputs of known programs that are judged as a whole, or whose lines need those before them.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "harness/evidence/job_output.h"
#include "harness/job/command_job.h"
#include "tests/support/catch.h"

namespace virtrain::harness {
namespace {

using test::Contains;

constexpr std::int64_t format_second_ns = 1'000'000'000;

JobThroughput of_format(LineFormat format) {
  JobThroughput how;
  how.format = format;
  how.unit = format == LineFormat::nccl_tests ? "B/s" : "samples/s";
  how.scope = FigureScope::job;
  return how;
}

/// As nccl-tests 2.13 prints it, of four ranks.
const std::vector<std::string> table_begin = {
    "# nThread 1 nGpus 1 minBytes 1024 maxBytes 1048576 step: 1024(factor) warmup iters: 5 iters: 20 agg "
    "iters: 1 "
    "validation: 1 graph: 0",
    "#",
    "# Using devices",
    "#  Rank  0 Group  0 Pid   4000 on     node-a device  0 [0000:07:00] NVIDIA Test GPU",
    "#  Rank  1 Group  0 Pid   4001 on     node-a device  1 [0000:08:00] NVIDIA Test GPU",
    "#  Rank  2 Group  0 Pid   4002 on     node-b device  0 [0000:07:00] NVIDIA Test GPU",
    "#  Rank  3 Group  0 Pid   4003 on     node-b device  1 [0000:08:00] NVIDIA Test GPU",
    "#",
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
    "busbw #wrong",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
    "(GB/s)       "};
constexpr const char* small_row =
    "        1024           256     float     sum      -1    20.00    0.05    0.08      0    20.00    0.05   "
    " 0.08      0";
constexpr const char* large_row =
    "     1048576        262144     float     sum      -1   100.00   10.49   15.73      0    80.00   13.11   "
    "19.66      0";
const std::vector<std::string> table_end = {"# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 8.88",
                                            "#"};

JobTable table_of(const std::vector<std::string>& rows, const std::vector<std::string>& end = table_end,
                  std::int64_t between_ns = format_second_ns / 10) {
  JobTable table;
  std::int64_t now = 5 * format_second_ns;
  for (const auto* part : {&table_begin, &rows, &end}) {
    for (const auto& line : *part) { table.add(line, now += between_ns); }
  }
  return table;
}

std::string doubts(const JobResult& result) {
  std::string all;
  for (const auto& doubt : result.doubts) { all += doubt + "\n"; }
  return all;
}

double value_of(const JobResult& result, const nlohmann::json& settings) {
  for (const auto& figure : result.others) {
    if (figure.settings == settings) { return figure.value; }
  }
  return 0;
}

std::string mllog(std::int64_t ms, const std::string& key, const std::string& value,
                  const std::string& metadata = "{}") {
  return fmt::format(
      R"(0: :::MLLOG {{"namespace": "", "time_ms": {}, "event_type": "POINT_IN_TIME", "key": "{}", "value": {}, "metadata": {}}})",
      1'700'000'000'000 + ms, key, value, metadata);
}

std::vector<double> rates_of(const std::vector<std::string>& lines) {
  FigureReader reader(of_format(LineFormat::mllog));
  std::vector<double> rates;
  for (const auto& line : lines) {
    const auto figure = reader.read(line, 0);
    if (!figure) { continue; }
    if (figure->replaces_others) { rates.clear(); }
    rates.push_back(figure->value);
  }
  return rates;
}

}  // namespace

TEST_CASE("job_formats: the bus bandwidth of nccl-tests' largest size decides, and all rows are figures") {
  const auto table = table_of({small_row, large_row});
  const auto result =
      table.judge(of_format(LineFormat::nccl_tests), "/opt/nccl-tests/build/all_reduce_perf -b 1K");
  CHECK(doubts(result).empty());
  CHECK(result.throughput == Approx(15.73e9));
  CHECK(result.others.size() == 8);
  CHECK(result.end_ns > result.begin_ns);
  const nlohmann::json settings = {{"size_bytes", "1048576"}, {"data_type", "float"}, {"side", "in place"}};
  auto bus = settings, algorithm = settings;
  bus["bandwidth"] = "bus";
  algorithm["bandwidth"] = "algorithm";
  CHECK(value_of(result, bus) == Approx(19.66e9));
  CHECK(value_of(result, algorithm) == Approx(13.11e9));
  for (const auto& figure : result.others) {
    CHECK(figure.name == "all_reduce");
    CHECK(figure.unit == "B/s");
  }

  auto how = of_format(LineFormat::nccl_tests);
  how.size = 1024;
  CHECK(table.judge(how, "all_reduce_perf").throughput == Approx(0.08e9));
  how.size = 2048;
  const auto missing = table.judge(how, "all_reduce_perf");
  CHECK(missing.throughput == 0);
  CHECK_THAT(doubts(missing), Contains("no row of 2KiB (throughput.size; there are 1KiB, 1MiB)"));
}

TEST_CASE("job_formats: cycles of nccl-tests are one figure, their mean") {
  const std::string again =
      "     1048576        262144     float     sum      -1   100.00   12.49   18.73      0    80.00   13.11 "
      "  19.66      0";
  const auto result =
      table_of({large_row, again}).judge(of_format(LineFormat::nccl_tests), "all_reduce_perf");
  CHECK(doubts(result).empty());
  CHECK(result.throughput == Approx(17.23e9));
  CHECK(result.others.size() == 4);
}

TEST_CASE("job_formats: a table of nccl-tests that nobody can believe is doubted in words") {
  const auto how = of_format(LineFormat::nccl_tests);
  const auto judged = [&](const JobTable& table, const std::string& program = "all_reduce_perf") {
    return doubts(table.judge(how, program));
  };
  CHECK_THAT(judged(table_of({})), Contains("printed no row of figures"));
  CHECK_THAT(judged(table_of({small_row, large_row}, {})), Contains("the test did not finish"));
  CHECK_THAT(judged(table_of({large_row}), "./test"), Contains("which collective this is"));
  CHECK_THAT(judged(table_of({small_row, "     1048576        262144     float  sum"})),
             Contains("its output:12: 4 words where a line of figures has 11 to 13"));
  std::string wrong = large_row;
  wrong.replace(wrong.find("15.73      0"), 12, "15.73      7");
  CHECK_THAT(
      judged(table_of({wrong}, {"# Out of bounds values : 7 FAILED", "# Avg bus bandwidth    : 8.88"})),
      Contains("7 elements of its data came out wrong"));
  std::string slow = large_row;
  slow.replace(slow.find("100.00"), 6, "90000.");
  CHECK_THAT(judged(table_of({slow}, table_end, 1000)), Contains("no clock checks it"));
  // A rank's line is lost: the bus bandwidth is that of four.
  JobTable lost;
  for (std::size_t i = 0; i < table_begin.size(); ++i) {
    if (i != 6) { lost.add(table_begin[i], format_second_ns); }
  }
  lost.add(large_row, 2 * format_second_ns);
  for (const auto& line : table_end) { lost.add(line, 2 * format_second_ns); }
  CHECK_THAT(judged(lost), Contains("which is that of 4 ranks"));
}

TEST_CASE("job_formats: rates of MLPerf's logs, the best kind that there is") {
  const auto start = [](int ms) { return mllog(ms, "epoch_start", "null", R"({"epoch_num": 1})"); };
  const auto stop = [](int ms) { return mllog(ms, "epoch_stop", "null", R"({"epoch_num": 1})"); };
  const auto samples = mllog(0, "train_samples", "1000");
  const auto tracked = [](double rate) {
    return mllog(1, "tracked_stats", fmt::format(R"({{"throughput": {}}})", rate));
  };
  const auto plain = [](double rate) { return mllog(1, "throughput", fmt::format("{}", rate)); };

  CHECK(rates_of({samples, start(1000), stop(3000), start(3000), stop(7000)}) ==
        std::vector<double>{500, 250});
  CHECK(rates_of({start(1000), stop(3000)}).empty());
  CHECK(rates_of({samples, start(1000), stop(3000), tracked(510), start(3000), stop(7000), tracked(260)}) ==
        std::vector<double>{510, 260});
  CHECK(rates_of({tracked(510), plain(512), tracked(260), plain(262)}) == std::vector<double>{512, 262});
  const auto block = [](int ms, const char* key, int count) {
    return mllog(ms, key, "null", fmt::format(R"({{"samples_count": {}}})", count));
  };
  CHECK(rates_of({block(0, "block_start", 2688), block(200'000, "block_stop", 3072)}) ==
        std::vector<double>{1.92});
  CHECK(rates_of({"no log", ":::MLLOG {", ":::MLLOG []", mllog(1, "throughput", "\"fast\""),
                  mllog(1, "throughput", "-5"), mllog(1, "tracked_stats", R"({"imgs_sec": 35453.2})")})
            .empty());
}

}  // namespace virtrain::harness
