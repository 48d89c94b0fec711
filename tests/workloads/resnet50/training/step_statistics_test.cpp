#include "workloads/resnet50/training/step_statistics.h"

#include "tests/support/catch.h"

using namespace virtrain::resnet50;

TEST_CASE("quantiles interpolate as numpy's") {
  CHECK(quantile({4, 1, 3, 2}, 0.5) == 2.5);
  CHECK(quantile({1, 2, 3, 4, 5}, 0.9) == Approx(4.6));
  CHECK(quantile({7}, 0.99) == 7);
}

TEST_CASE("tf_cnn_benchmarks' table") {
  CHECK(tf_cnn_header() == "Step\tImg/sec\ttotal_loss\n");
  CHECK(tf_cnn_line({32 / 205.3}, 32, 9.1114) == "1\timages/sec: 205.3 +/- 0.0 (jitter = 0.0)\t9.111\n");
  // Speeds 100, 50, 100: mean of 3 * 100 / (1 + 2 + 1) = 75, numpy.std = 23.570, / sqrt(3) = 13.6, jitter 0.
  CHECK(tf_cnn_line({1, 2, 1}, 100, 0.5) == "3\timages/sec: 75.0 +/- 13.6 (jitter = 0.0)\t0.500\n");
  // Speeds 100, 50: median 75, distances 25 and 25, jitter 1.4826 * 25 = 37.1; +/- 25 / sqrt(2) = 17.7.
  CHECK(tf_cnn_line({1, 2}, 100, 0.5) == "2\timages/sec: 66.7 +/- 17.7 (jitter = 37.1)\t0.500\n");
  const std::string rule(64, '-');
  CHECK(tf_cnn_total(5391.75) == rule + "\ntotal images/sec: 5391.75\n" + rule + "\n");
}
