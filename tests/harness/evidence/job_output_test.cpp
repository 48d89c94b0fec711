#include "harness/evidence/job_output.h"

#include <algorithm>

#include "common/text/units.h"
#include "tests/support/catch.h"

namespace virtrain::harness {
namespace {

using test::Contains;

constexpr double job_second_ns = 1e9;

JobThroughput tokens(FigureScope scope, std::int64_t skip = 0) {
  JobThroughput how;
  how.pattern = "(?P<value>[0-9.]+)";
  how.unit = "tokens/s";
  how.scope = scope;
  how.skip = skip;
  return how;
}

/// A figure each `seconds`, of the values one after the other.
std::vector<JobFigure> each(double seconds, const std::vector<double>& values, double begin = 100) {
  std::vector<JobFigure> figures;
  double now = begin;
  for (const double value : values) {
    now += seconds;
    figures.push_back({static_cast<std::int64_t>(now * job_second_ns), value});
  }
  return figures;
}

std::string doubts_of(const JobResult& result) {
  std::string all;
  for (const auto& doubt : result.doubts) { all += doubt + "\n"; }
  return all;
}

JobResult of_one(const std::vector<JobFigure>& figures, std::int64_t skip = 0) {
  return judge_job({{"the command", figures}}, tokens(FigureScope::job, skip), 1);
}

}  // namespace

TEST_CASE("a job's throughput is its work over the window's time, after what is skipped") {
  // 900 does not count; then 1 s at 100 and 3 s at 300: (100 + 900) / 4.
  std::vector<JobFigure> figures{{1'000'000'000, 900},
                                 {2'000'000'000, 100},
                                 {3'000'000'000, 300},
                                 {4'000'000'000, 300},
                                 {5'000'000'000, 300}};
  const auto result = of_one(figures, 1);
  CHECK(doubts_of(result).empty());
  CHECK(result.throughput == Approx(250));
  CHECK(result.begin_ns == 1'000'000'000);
  CHECK(result.end_ns == 5'000'000'000);
  CHECK(result.figures == 4);
}

TEST_CASE("only the window counts in which all ranks report, and their figures are added") {
  // Rank 1 begins 3 s later, rank 0 ends 2 s earlier.
  const auto first = each(1, {10, 10, 10, 20, 20, 20, 20, 20}, 0);
  auto second = each(1, {21, 21, 21, 21, 21, 21, 21}, 3);
  const auto result = judge_job({{"rank 0", first}, {"rank 1", second}}, tokens(FigureScope::rank), 2);
  CHECK(doubts_of(result).empty());
  CHECK(result.begin_ns == 4'000'000'000);
  CHECK(result.end_ns == 8'000'000'000);
  CHECK(result.throughput == Approx(41));
  const auto for_all = judge_job({{"rank 0", first}}, tokens(FigureScope::each_rank), 4);
  CHECK(for_all.throughput == Approx(4 * (10 + 10 + 20 * 5) / 7.0));
}

TEST_CASE("figures that nobody can believe are doubted in words") {
  CHECK_THAT(doubts_of(of_one({})), Contains("the command printed no figure"));
  CHECK_THAT(doubts_of(of_one(each(1, {10, 10, 10, 10}), 3)), Contains("printed 4 figures, and after 3"));
  const auto burst = each(1e-6, std::vector<double>(20, 50));
  CHECK_THAT(doubts_of(of_one(burst)), Contains("20 figures in 1 burst, so no clock checks them"));

  std::vector<double> falls(40, 100);
  falls.insert(falls.end(), 40, 50);
  CHECK_THAT(doubts_of(of_one(each(1, falls))), Contains("figures fall from about 100 to 50 tokens/s"));

  // It claims the same speed while its lines come half as often.
  auto slower = each(1, std::vector<double>(40, 100));
  const auto rest = each(2, std::vector<double>(40, 100), 140);
  slower.insert(slower.end(), rest.begin(), rest.end());
  CHECK_THAT(doubts_of(of_one(slower)), Contains("lines fall from about 1 to 0.5 lines/s by the clock"));

  // It claims more and more while they come as often as before.
  std::vector<double> rises(60);
  std::ranges::generate(rises, [i = 0]() mutable { return 100 + 10 * i++; });
  CHECK_THAT(doubts_of(of_one(each(1, rises))), Contains("its figures and the clock part"));

  const auto alike = each(1, std::vector<double>(9, 10)), other = each(1, std::vector<double>(9, 20));
  CHECK_THAT(doubts_of(judge_job({{"rank 0", alike}, {"rank 1", other}}, tokens(FigureScope::rank), 2)),
             Contains("rank 0 says 10 tokens/s and rank 1 20, who do the same work"));
  const auto late = each(1, std::vector<double>(9, 10), 200);
  CHECK_THAT(doubts_of(judge_job({{"rank 0", alike}, {"rank 1", late}}, tokens(FigureScope::rank), 2)),
             Contains("in the window in which all report"));
  CHECK_THAT(doubts_of(judge_job({{"rank 0", alike}, {"rank 1", {}}}, tokens(FigureScope::rank), 2)),
             Contains("rank 1 printed no figure"));
}

TEST_CASE("a line without a figure is not passed over, for those around it would count for its time") {
  FigureReader reader(tokens(FigureScope::job));
  std::vector<JobFigure> figures;
  const auto take = [&](const char* line, std::int64_t seconds) {
    const auto figure = reader.read(line, seconds * 1'000'000'000);
    if (figure) { figures.push_back(*figure); }
  };
  take("0.0", 1);
  for (std::int64_t second = 2; second < 9; ++second) { take("100", second); }
  const auto judge = [&] {
    return judge_job({{"t1n1", figures, reader.misread()}}, tokens(FigureScope::job), 1);
  };
  CHECK(doubts_of(judge()).empty());  // before the window
  take("0", 9);
  take("100", 10);
  CHECK_THAT(doubts_of(judge()),
             Contains("t1n1: 2 lines without the figure that belongs there; the last says '0', "
                      "which is not a number above zero"));
  CHECK_THAT(doubts_of(judge_job({{"t1n1", {}, reader.misread()}}, tokens(FigureScope::job), 1)),
             Contains("t1n1 printed no figure: the last line that should have one says '0'"));
}

TEST_CASE("a known program's line with nan in place of its speed is not passed over either") {
  const auto word = [](LineFormat format, const std::string& line) {
    JobThroughput how;
    how.format = format;
    FigureReader reader(how);
    CHECK_FALSE(reader.read(line, 1));
    return reader.misread().words;
  };
  const std::string is_none = ", which is not a number above zero";
  CHECK(word(LineFormat::tf_cnn_benchmarks, "10\timages/sec: nan +/- nan (jitter = nan)\tnan") ==
        "'nan'" + is_none);
  CHECK(word(LineFormat::horovod, "Iter #3: 0.0 img/sec per GPU") == "'0.0'" + is_none);
  CHECK(word(LineFormat::torchvision, "Epoch: [0]  [  10/5005]  eta: 1:00  img/s: inf  loss: 6.9") ==
        "'inf'" + is_none);
  CHECK(word(LineFormat::torchtitan, "[titan] step: 8  loss:  7.9  tps: 0  tflops: 0.00  mfu: 0.00%") ==
        "'0'" + is_none);
  CHECK(word(LineFormat::megatron,
             " iteration 5/ 50 | elapsed time per iteration (ms): nan | global batch size: 1024 |") ==
        "'nan'" + is_none);
  CHECK(word(LineFormat::jsonl, R"({"throughput": NaN, "work": 3})") == "'NaN'" + is_none);
  CHECK(word(LineFormat::jsonl, R"({"throughput": null})") == "'null'" + is_none);
  // Lines of something else.
  CHECK(word(LineFormat::jsonl, R"({"loss": 3})").empty());
  CHECK(word(LineFormat::torchvision, "Test:  [ 10/50]  img/s: nan").empty());
  CHECK(word(LineFormat::tf_cnn_benchmarks, "total images/sec: nan").empty());
}

TEST_CASE("work that a job says it has done is held against the agent's clock") {
  auto figures = each(1, std::vector<double>(11, 100));
  double done = 0;
  for (auto& one : figures) { one.work = done += 100; }
  CHECK(doubts_of(of_one(figures)).empty());
  done = 0;
  for (auto& one : figures) { one.work = done += 60; }
  CHECK_THAT(doubts_of(of_one(figures)), Contains("says 100 tokens/s where its work by the clock is 60"));
}

TEST_CASE("a slow step now and then, and a drift, are no levels") {
  std::vector<double> values(200);
  std::ranges::generate(values, [i = -1]() mutable { return ++i % 50 == 25 ? 20 : 100 + 0.02 * i; });
  std::vector<JobFigure> figures;
  double now = 0;
  for (const double value : values) {
    now += 100 / value;
    figures.push_back({static_cast<std::int64_t>(now * job_second_ns), value});
  }
  CHECK(doubts_of(of_one(figures)).empty());
}

TEST_CASE("commas stand between thousands, or what has them is no number") {
  CHECK(parse_grouped_number("1,234.5") == 1234.5);
  CHECK(parse_grouped_number("-12,345,678") == -12345678.0);
  CHECK(parse_grouped_number("12,34,567") == 1234567.0);
  CHECK(parse_grouped_number("1.5,") == 1.5);
  for (const char* text :
       {"", ",", "1,5", "1,2345", "1234,567", "1,,234", ",123", "1.5,234", "1,234,5", "x,123"}) {
    INFO(text);
    CHECK_FALSE(parse_grouped_number(text));
  }
}

TEST_CASE("lines of known programs, as they print them") {
  const auto read = [](LineFormat format, const std::string& line) -> double {
    JobThroughput how;
    how.format = format;
    const auto figure = FigureReader(how).read(line, 0);
    return figure ? figure->value : 0;
  };
  // pytorch/torchtitan, with and without colours; a validation's line does not count.
  CHECK(read(LineFormat::torchtitan,
             "[rank0]:[titan] 2025-03-24 10:00:00,000 - root - INFO - step: 80  loss:  7.9123  grad_norm:  "
             "1.2345  "
             "memory:  5.71GiB(6.01%)  tps: 57,729  tflops: 78.76  mfu: 7.96%") == 57729);
  CHECK(read(LineFormat::torchtitan,
             "\x1b[31mstep:  1  \x1b[32mloss:  8.2  \x1b[34mtps: 1,444  \x1b[36mtflops: "
             "300.32  \x1b[35mmfu: 23.10%\x1b[39m") == 1444);
  CHECK(read(LineFormat::torchtitan, "validate step: 10  loss:  7.5  tps: 90,000") == 0);
  // NVIDIA/Megatron-LM: samples of a batch over an iteration's time.
  CHECK(
      read(LineFormat::megatron,
           " [2025-11-28 18:48:17] iteration       50/    5000 | consumed samples:        51200 | elapsed "
           "time "
           "per iteration (ms): 61674.3 | throughput per GPU (TFLOP/s/GPU): 68.2 | learning rate: 1.0E-04 | "
           "global batch size:  1024 | lm loss: 6.681113E+00 |") == Approx(1024 / 61.6743));
  CHECK(read(LineFormat::horovod, "Iter #0: 100.5 img/sec per GPU") == 100.5);
  CHECK(read(LineFormat::torchvision,
             "Epoch: [0]  [  10/5005]  eta: 1:00:00  lr: 0.1  img/s: 350.1  loss: 6.9 (6.9)") == 350.1);
  // As torchrun passes it on with --tee.
  CHECK(read(LineFormat::torchvision, "[default0]:Epoch: [0]  [10/5005]  eta: 1:00:00  img/s: 350.1") ==
        350.1);
  CHECK(read(LineFormat::torchvision, "[no role]: Epoch: [0]  [10/5005]  eta: 1:00:00  img/s: 350.1") == 0);
  CHECK(read(LineFormat::jsonl, R"({"throughput": 12.5, "work": 100, "loss": 2})") == 12.5);
  CHECK(read(LineFormat::jsonl, R"({"throughput": -1})") == 0);
  CHECK(read(LineFormat::tf_cnn_benchmarks, "Done warm up") == 0);
}

TEST_CASE("tf_cnn_benchmarks says the mean of all steps so far, from which each line's own speed comes") {
  JobThroughput how;
  how.format = LineFormat::tf_cnn_benchmarks;
  FigureReader reader(how);
  const auto first = reader.read("10\timages/sec: 100.0 +/- 0.0 (jitter = 0.0)\t7.9", 0);
  const auto second = reader.read("20\timages/sec: 80.0 +/- 0.1 (jitter = 0.6)\t7.8", 0);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->value == Approx(100));
  CHECK(second->value == Approx(10 / (20 / 80.0 - 10 / 100.0)));
}

}  // namespace virtrain::harness
