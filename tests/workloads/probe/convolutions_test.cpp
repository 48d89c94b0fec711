#include "tests/support/catch.h"
#include "workloads/probe/compute.h"

using namespace virtrain::probe;

TEST_CASE("the model's convolutions agree in their three directions, and their operations are ResNet-50's") {
  const std::vector<Figure> found = measure_convolutions({2, 32, 2});
  REQUIRE(found.size() >= 3);
  // 8.178 GFLOP at 224 px (torchvision's count, twice its multiply-adds) without the last layer; the stem's
  // 7x7 needs no gradient of the images.
  const double forward = 2 * (8.178e9 - 2.0 * 2048 * 1000) / 49;
  const double stem = 2 * 2.0 * 3 * 64 * 49 * 16 * 16;
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(found[i].name, found[i].data_type);
    CHECK(found[i].wrong == 0);
    const double operations = found[i].value * found[i].seconds;
    const bool of_data = found[i].name == "convolutions_backward_data";
    CHECK(operations == Approx(of_data ? forward - stem : forward).epsilon(1e-3));
  }
}
