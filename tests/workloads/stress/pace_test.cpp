#include "tests/support/catch.h"
#include "workloads/stress/crew.h"

using namespace virtrain::stress;

namespace {

/// Work done in `seconds` of a simulated clock, in pieces that take `piece_seconds` and sleeps that last
/// `oversleep` too long.
double work_in(Pace& pace, double seconds, double piece_seconds, std::uint64_t piece_work, double oversleep) {
  double now = 0;
  double work = 0;
  while (now < seconds) {
    now += piece_seconds;
    work += static_cast<double>(piece_work);
    const double rest = pace.rest_seconds(piece_seconds, piece_work);
    const double rested = rest > 0 ? rest + oversleep : 0;
    now += rested;
    pace.rested(rested);
  }
  return work;
}

}  // namespace

TEST_CASE("a rate is kept, however small the pieces and however long the sleeps") {
  for (const double piece_seconds : {1e-5, 1e-3, 5e-3}) {
    for (const double oversleep : {0.0, 1e-4, 5e-3}) {
      Pace pace(1, 1e6);
      const auto piece_work =
          static_cast<std::uint64_t>(piece_seconds * 10e6);  // ten times as fast as allowed
      CHECK(work_in(pace, 20, piece_seconds, piece_work, oversleep) == Approx(20e6).epsilon(0.01));
    }
  }
}

TEST_CASE("a share is kept") {
  Pace pace(0.25, std::nullopt);
  CHECK(work_in(pace, 20, 1e-3, 1, 1e-4) == Approx(5000).epsilon(0.01));
  Pace full(1, std::nullopt);
  CHECK(full.rest_seconds(0.01, 1) == 0);
}

TEST_CASE("lost time is caught up for a second, not for ever") {
  Pace pace(1, 1000.0);
  CHECK(pace.rest_seconds(60, 1) == 0);  // a piece that hung for a minute
  CHECK(pace.rest_seconds(0, 1000) == 0);
  CHECK(pace.rest_seconds(0, 1000) == Approx(1.0));
}
