#include "harness/evidence/trial_evidence.h"
#include "tests/support/catch.h"

using namespace virtrain::harness;

TEST_CASE("energy between two times lies on the lines between the readings") {
  const std::vector<virtrain::vmctl::EnergyReading> readings{{100, 0}, {200, 10}, {400, 70}};
  CHECK(joules_between(readings, 100, 400) == Approx(70));
  CHECK(joules_between(readings, 150, 300) == Approx(35));  // 5 to 40
  CHECK_FALSE(joules_between(readings, 99, 300));
  CHECK_FALSE(joules_between(readings, 150, 401));
  CHECK_FALSE(joules_between({}, 0, 1));
  CHECK_FALSE(joules_between(readings, 150, 150));
}
