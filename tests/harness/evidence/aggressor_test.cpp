#include "harness/evidence/aggressor.h"

#include "tests/support/catch.h"

using namespace virtrain::harness;

TEST_CASE("a neighbour's row gets its stressors' work and the victim's later steps, in the bytes of old") {
  virtrain::results::Tenant row;
  row.workload = {{"aggressor", "cpu"}};
  add_work({{"h2d", 0.5, 0.25, 1e9, 1, 2e9, "B/s"}}, {}, row);
  const std::string stressors =
      R"("stressors":[{"busy":0.25,"covered":1.0,"kind":"h2d","rate":1000000000.0,"rate_before":2000000000.0,"unit":"B/s"}])";
  CHECK(row.workload.dump() == R"({"aggressor":"cpu",)" + stressors + "}");
  add_work({{"h2d", 0.5, 0.25, 1e9, 1, 2e9, "B/s"}}, {{0.5, 0.1, 16}}, row);
  CHECK(row.workload.dump() ==
        R"({"aggressor":"cpu","recovery":[{"end":0.5,"images":16.0,"seconds":0.1}],)" + stressors + "}");
}

TEST_CASE("levels are means over the counted time alone, weighted by time") {
  constexpr std::int64_t s = 1'000'000'000;
  const std::vector<AggressorProgress> progress{{1 * s, 1, 0, 0}, {2 * s, 1, 0.5, 10}, {4 * s, 2, 1, 20}};
  const auto level = level_between(progress, 1 * s + s / 2, 3 * s + s / 2);
  CHECK(level.busy == Approx((0.5 * 0.5 + 1 * 1.5) / 2));
  CHECK(level.rate == Approx((10 * 0.5 + 20 * 1.5) / 2));
  CHECK(level.covered == Approx(1));
  CHECK(level_between(progress, 3 * s, 5 * s).covered == Approx(0.5));
  CHECK(level_between(progress, 8 * s, 9 * s).covered == 0);
  CHECK(level_between({}, 5 * s, 4 * s).covered == 0);
  CHECK(is_at_level(0.91, 1));
  CHECK_FALSE(is_at_level(0.89, 1));
  CHECK(is_at_level(0.27, 0.25));
  CHECK_FALSE(is_at_level(0.28, 0.25));
}
