#include "workloads/probe/gpu.h"

#include <cmath>
#include <set>

#include "tests/support/catch.h"
#include "workloads/probe/compute.h"

using namespace virtrain::probe;

TEST_CASE("words that did not arrive as they were sent are counted") {
  const auto sent = pattern(1000, 1);
  CHECK(wrong_words(sent, sent) == 0);
  auto arrived = sent;
  arrived[0] ^= 1U;
  arrived[999] ^= 1U << 31U;
  CHECK(wrong_words(sent, arrived) == 2);
  arrived.pop_back();
  CHECK(wrong_words(sent, arrived) == 2);
}

TEST_CASE("the pattern repeats no word, so that swapped pages show") {
  const auto words = pattern(100'000, 3);
  CHECK(std::set<std::uint32_t>(words.begin(), words.end()).size() == words.size());
  CHECK(pattern(4, 3) != pattern(4, 4));
}

TEST_CASE("matrices are exact in bfloat16 and in float16") {
  for (const float value : random_matrix(1000, 1)) {
    CHECK(std::abs(value) <= 1);
    CHECK(value * 64 == std::round(value * 64));  // seven bits
  }
}
