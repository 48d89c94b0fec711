#include "harness/agent/client/node_budget.h"

#include "common/error.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

/// How many messages a node may send at once.
int burst_of(const char* type, std::size_t bytes) {
  NodeBudget budget;
  int sent = 0;
  try {
    for (; sent < 1'000'000; ++sent) { budget.take(type, bytes, second_ns); }
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::protocol);
    CHECK_THAT(error.message(), Contains("it sent more than "));
  }
  return sent;
}

}  // namespace

TEST_CASE("a bucket fills up with time and never beyond its rim") {
  TokenBucket bucket(2, 10);
  CHECK(bucket.take(10, 5 * second_ns));
  CHECK_FALSE(bucket.take(1, 5 * second_ns));
  CHECK(bucket.take(1, 5 * second_ns + second_ns / 2));
  CHECK_FALSE(bucket.take(1, 5 * second_ns + second_ns / 2));
  CHECK_FALSE(bucket.take(10.5, 3600 * second_ns));
  CHECK(bucket.take(10, 3600 * second_ns));
}

TEST_CASE("row 6: each kind of message has its limit, and all together") {
  CHECK(burst_of("telemetry", 100) == 180);
  CHECK(burst_of("rsh", 100) == 256);
  CHECK(burst_of("rsh_closed", 100) == 256);
  CHECK(burst_of("announce", 100) == 4);
  CHECK(burst_of("output", 100) == 50'000);
  CHECK(burst_of("made up", 100) == 50'000);
  CHECK(burst_of("output", 1 << 20) == 64);
}

TEST_CASE("an hour of what a trial sends is no flood") {
  NodeBudget budget;
  budget.take("announce", 50, second_ns);
  for (int second = 1; second <= 3600; ++second) {
    budget.take("telemetry", 500, second * second_ns);
    budget.take("pong", 60, second * second_ns);
    for (int line = 0; line < 3200; ++line) {  // 32 ranks, 100 steps a second
      budget.take("output", 300, second * second_ns + line * 300'000);
    }
  }
}
