#include "tests/support/catch.h"
#include "workloads/probe/sweep.h"

using namespace virtrain::probe;

TEST_CASE("numbers lose decimals as they grow, as getFloatStr has them") {
  CHECK(fitted_number(5.63, 7) == "   5.63");
  CHECK(fitted_number(339.614, 7) == " 339.61");
  CHECK(fitted_number(1448.2, 7) == "1448.20");
  CHECK(fitted_number(11480.04, 7) == "11480.0");
  CHECK(fitted_number(90330.4, 7) == "90330.4");
  CHECK(fitted_number(903300, 7) == " 903300");
  CHECK(fitted_number(9033000, 7) == "9033000");
  CHECK(fitted_number(90330000, 7) == "9.0e+07");
  CHECK(fitted_number(156.51, 6) == "156.51");
  CHECK(fitted_number(0, 6) == "  0.00");
}

TEST_CASE("a line is nccl-tests' line") {
  SweepLine line;
  line.ranks = 2;
  line.size_bytes = 1048576;
  line.count = 262144;
  line.out_of_place = Side{339.61e-6, 0};
  line.in_place = Side{335.85e-6, 12};
  // As nccl-tests 2.18 prints it on two ranks.
  CHECK(nccl_line(line) ==
        "     1048576        262144     float     sum      -1   339.61    3.09    3.09       0   335.85    "
        "3.12    3.12 "
        "     12\n");
  line.collective = Collective::broadcast;
  line.out_of_place.reset();
  CHECK(nccl_line(line) ==
        "     1048576        262144     float    none       0      N/A     N/A     N/A     N/A   335.85    "
        "3.12    3.12 "
        "     12\n");
}

TEST_CASE("the lines before the table name each rank's device as nccl-tests does") {
  SweepSetting setting;
  setting.collective = Collective::all_gather;
  setting.library = "NCCL 2.28.3";
  setting.processes = {{"node-a", 41, " 0 [0000:19:00.0] NVIDIA H200"},
                       {"node-b", 42, " 1 [0000:1a:00.0] NVIDIA H200"}};
  const std::string text = nccl_preamble(setting);
  CHECK_THAT(text,
             virtrain::test::Contains(
                 "over NCCL 2.28.3, nccl-tests' columns\n# Collective test starting: all_gather_perf\n"));
  CHECK_THAT(text,
             virtrain::test::Contains(
                 "#  Rank  0 Group  0 Pid     41 on     node-a device  0 [0000:19:00.0] NVIDIA H200\n"));
  CHECK_THAT(text,
             virtrain::test::Contains(
                 "#  Rank  1 Group  0 Pid     42 on     node-b device  1 [0000:1a:00.0] NVIDIA H200\n"));
}

TEST_CASE("the end counts wrong elements and averages both sides") {
  SweepLine line;
  line.ranks = 2;
  line.size_bytes = 2'000'000;
  line.out_of_place = Side{0.001, 0};
  line.in_place = Side{0.002, 0};
  const std::string good = nccl_conclusion(line.collective, {line});
  CHECK_THAT(good, virtrain::test::Contains("# Out of bounds values : 0 OK\n"));
  CHECK_THAT(good, virtrain::test::Contains("# Avg bus bandwidth    : 1.5 \n"));
  CHECK_THAT(good, virtrain::test::Contains("concluded: all_reduce_perf\n"));
  line.in_place.wrong = 3;
  CHECK_THAT(nccl_conclusion(line.collective, {line}),
             virtrain::test::Contains("# Out of bounds values : 3 FAILED\n"));
}
