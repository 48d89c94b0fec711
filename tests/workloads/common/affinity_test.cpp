#include "tests/support/catch.h"
#include "workloads/common/processor.h"

using namespace virtrain;

TEST_CASE("a rank alone takes all its cores") {
  const ThreadPlacement placement = place_threads({0, 1, 4, 5}, 1, 0, 0);
  CHECK(placement.threads == 4);
  CHECK(placement.cpus == std::vector<int>{0, 1, 4, 5});
}

TEST_CASE("ranks with one and the same mask divide it") {
  CHECK(place_threads({0, 1, 4, 5}, 2, 0, 0).cpus == std::vector<int>{0, 1});
  CHECK(place_threads({0, 1, 4, 5}, 2, 1, 0).cpus == std::vector<int>{4, 5});
}

TEST_CASE("threads that are not as many as the cores are not pinned") {
  const ThreadPlacement fewer = place_threads({0, 1, 4, 5}, 1, 0, 2);
  CHECK(fewer.threads == 2);
  CHECK(fewer.cpus.empty());
  const ThreadPlacement requested = place_threads({0, 1}, 1, 0, 3);
  CHECK(requested.threads == 3);
  CHECK(requested.cpus.empty());
  const ThreadPlacement crowded = place_threads({0, 1}, 3, 2, 0);
  CHECK(crowded.threads == 1);
  CHECK(crowded.cpus.empty());
}

TEST_CASE("the process knows its cores and its processor") {
  CHECK_FALSE(allowed_cpus().empty());
  CHECK_FALSE(allowed_cpus_text().empty());
  CHECK_FALSE(cpu_model().empty());
}
