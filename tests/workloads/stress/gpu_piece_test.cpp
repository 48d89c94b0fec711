#include <numeric>

#include "tests/support/catch.h"
#include "workloads/stress/crew.h"
#include "workloads/stress/load.h"

using namespace virtrain::stress;

namespace {

constexpr std::uint64_t MiB = 1ULL << 20;
constexpr std::uint64_t GiB = 1ULL << 30;

/// The work of each second of a load that keeps this rate, on a device that would do `fastest` a second.
std::vector<std::uint64_t> progress(std::uint64_t bytes_per_second, std::uint64_t largest, int times,
                                    double fastest) {
  Pace pace(1, static_cast<double>(bytes_per_second));
  const std::uint64_t work =
      static_cast<std::uint64_t>(times) * piece_bytes(largest, times, bytes_per_second);
  constexpr std::size_t seconds = 20;
  std::vector<std::uint64_t> of_second(seconds);
  double now = 0;
  while (now < seconds) {
    const double busy = static_cast<double>(work) / fastest;
    now += busy;
    if (now < seconds) { of_second[static_cast<std::size_t>(now)] += work; }
    const double rest = pace.rest_seconds(busy, work);
    now += rest;
    pace.rested(rest);
  }
  return of_second;
}

}  // namespace

TEST_CASE("every second of a GPU's load shows the rate that it was given") {
  for (const std::uint64_t rate : {MiB / 16, MiB, 100 * MiB, 5 * GiB, 100 * GiB, 1000 * GiB}) {
    for (const int times : {1, 2}) {
      CAPTURE(rate, times);
      for (const std::uint64_t work : progress(rate, 1 * GiB, times, 3e12)) {
        CHECK(static_cast<double>(work) == Approx(static_cast<double>(rate)).epsilon(0.12));
      }
    }
  }
}

TEST_CASE("a piece is whole lines, the largest without a rate, and never nothing") {
  CHECK(piece_bytes(64 * MiB, 1, std::nullopt) == 64 * MiB);
  CHECK(piece_bytes(64 * MiB, 1, 500 * GiB) == 64 * MiB);
  CHECK(piece_bytes(GiB, 1, 100 * MiB) == 5 * MiB);
  CHECK(piece_bytes(GiB, 2, 100 * MiB) == 5 * MiB / 2);
  CHECK(piece_bytes(GiB, 1, 20'300) == 896);
  CHECK(piece_bytes(GiB, 1, 1) == 128);
}

TEST_CASE("products fill some milliseconds, whatever the GPU") {
  CHECK(products_in_piece(0.2e-3) == 25);
  CHECK(products_in_piece(3e-3) == 1);
  CHECK(products_in_piece(0.3) == 1);
  CHECK(products_in_piece(1e-9) == 4096);
}

TEST_CASE("pieces go round the whole buffer, and round again") {
  using Parts = std::vector<Ring::Part>;
  Ring ring(1000);
  CHECK(ring.next(400) == Parts{{0, 400}});
  CHECK(ring.next(400) == Parts{{400, 400}});
  CHECK(ring.next(400) == Parts{{800, 200}, {0, 200}});
  CHECK(ring.next(1800) == Parts{{200, 800}, {0, 1000}});
  CHECK(ring.next(1) == Parts{{0, 1}});
}
