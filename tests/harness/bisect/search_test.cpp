#include "harness/bisect/search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "tests/support/catch.h"

using namespace virtrain::harness;

namespace {

using Oracle = std::function<StepOutcome(const Suspects&)>;

struct Ended {
  Search search;
  std::size_t comparisons = 0;
};

/// Asks until the search ends.
Ended run(std::size_t suspects, const Oracle& oracle) {
  std::vector<Told> told;
  while (true) {
    auto now = search(suspects, told);
    if (now.end != SearchEnd::goes_on) { return {now, told.size()}; }
    REQUIRE_FALSE(now.next.empty());
    REQUIRE(told.size() < 64);
    told.push_back({now.next, oracle(now.next)});
  }
}

Oracle loss_of(const Suspects& cause) {
  return [cause](const Suspects& tried) {
    return std::includes(tried.begin(), tried.end(), cause.begin(), cause.end()) ? StepOutcome::loss
                                                                                 : StepOutcome::none;
  };
}

std::size_t logarithm(std::size_t n) {
  return static_cast<std::size_t>(std::ceil(std::log2(static_cast<double>(n))));
}

}  // namespace

TEST_CASE("a single cause is found at every place in at most ceil(log2 n) + 2 comparisons") {
  for (std::size_t n = 1; n <= 33; ++n) {
    for (std::size_t cause = 0; cause < n; ++cause) {
      const auto ended = run(n, loss_of({cause}));
      CAPTURE(n, cause);
      CHECK(ended.search.end == SearchEnd::found);
      CHECK(ended.search.causes == std::vector<Suspects>{{cause}});
      CHECK(ended.comparisons <= logarithm(n) + 2);
      CHECK(ended.comparisons <= most_comparisons(n));
    }
  }
  CHECK(most_comparisons(1) == 1);
  CHECK(most_comparisons(8) == 5);
}

TEST_CASE("two suspects that bring the loss only together are named as a set") {
  for (const std::size_t n : {2U, 3U, 5U, 8U}) {
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a + 1; b < n; ++b) {
        const auto ended = run(n, loss_of({a, b}));
        CAPTURE(n, a, b);
        CHECK(ended.search.end == SearchEnd::found);
        CHECK(ended.search.causes == std::vector<Suspects>{{a, b}});
        CHECK(ended.comparisons <= 3 * (logarithm(n) + 2));
      }
    }
  }
}

TEST_CASE("three that act together, too") {
  const auto ended = run(7, loss_of({1, 4, 6}));
  CHECK(ended.search.causes == std::vector<Suspects>{{1, 4, 6}});
}

TEST_CASE("causes that each bring a part are all named") {
  const Oracle parts = [](const Suspects& tried) {
    const auto hits = tried.count(1) + tried.count(4);
    return hits == 2 ? StepOutcome::loss : hits == 1 ? StepOutcome::part : StepOutcome::none;
  };
  const auto ended = run(6, parts);
  CHECK(ended.search.end == SearchEnd::found);
  CHECK(ended.search.causes == std::vector<Suspects>{{1}, {4}});
}

TEST_CASE("where all suspects together bring nothing, one comparison says so") {
  const auto ended = run(5, loss_of({99}));
  CHECK(ended.search.end == SearchEnd::nothing);
  CHECK(ended.comparisons == 1);
  CHECK(ended.search.causes.empty());
  CHECK(search(0, {}).end == SearchEnd::nothing);
}

TEST_CASE("what the pairs do not tell ends the search with those it is among") {
  const Oracle foggy = [](const Suspects& tried) {
    return tried.size() == 4  ? StepOutcome::loss
           : tried.size() > 1 ? StepOutcome::none
                              : StepOutcome::unclear;
  };
  const auto ended = run(4, foggy);
  CHECK(ended.search.end == SearchEnd::unclear);
  CHECK(ended.search.candidates == Suspects{3});
  CHECK(run(3, [](const Suspects&) { return StepOutcome::unclear; }).search.candidates == Suspects{0, 1, 2});
}

TEST_CASE("wrong answers never send the search round in circles, and are seldom believed") {
  std::mt19937_64 random(7);
  std::size_t wrong = 0;
  for (int repetition = 0; repetition < 1000; ++repetition) {
    const std::size_t n = 2 + random() % 6;
    const std::size_t cause = random() % n;
    const auto truth = loss_of({cause});
    const auto ended = run(n, [&](const Suspects& tried) {
      const auto right = truth(tried);
      if (random() % 100 >= 5) { return right; }
      return right == StepOutcome::loss ? StepOutcome::none : StepOutcome::loss;
    });
    CHECK(ended.search.end != SearchEnd::goes_on);
    const bool blames_another =
        ended.search.end == SearchEnd::found && !ended.search.causes.front().contains(cause);
    wrong += blames_another ? 1 : 0;
  }
  CHECK(wrong < 100);  // 5 % of the answers were wrong
}
