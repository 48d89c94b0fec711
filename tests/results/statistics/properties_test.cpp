// Properties that hold for all data, and rates that hold over many: seeded, so that they never flicker.

#include <algorithm>
#include <cmath>
#include <random>

#include "results/statistics/power.h"
#include "results/statistics/statistics.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;

namespace {

struct Data {
  std::vector<double> baseline;
  std::vector<double> candidate;
};

/// Log-normal throughputs around 1000; the candidate's truth is `ratio` of it. Pairs share what is common.
Data simulate(std::mt19937_64& random, int n, double ratio, double sigma) {
  std::normal_distribution<double> noise(0, sigma);
  Data data;
  for (int i = 0; i < n; ++i) {
    const double common = std::log(1000) + noise(random);
    data.baseline.push_back(std::exp(common));
    data.candidate.push_back(std::exp(common + std::log(ratio) + noise(random)));
  }
  return data;
}

std::vector<std::optional<double>> known(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

RatioTest ratio_of_pairs(const Data& data, const Settings& settings = {}) {
  return compare_paired(known(data.baseline), known(data.candidate), settings).test;
}
RatioTest ratio_of_groups(const Data& data, const Settings& settings = {}) {
  return compare_unpaired(data.baseline, data.candidate, settings).test;
}

/// Whether a rate seen in `trials` fits the true one: within four standard deviations of its binomial (a
/// chance of 6e-5 for a true statement, and the seed is fixed).
void check_rate(int seen, int trials, double truth) {
  const double expected = truth * trials;
  const double tolerance = 4 * std::sqrt(trials * truth * (1 - truth));
  CAPTURE(seen, trials, truth, tolerance);
  CHECK(std::abs(seen - expected) <= tolerance);
}

constexpr int many = 3000;

}  // namespace

TEST_CASE("other units change no ratio, no interval and no p") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    const auto data = simulate(random, 3 + round % 6, 0.98, 0.02);
    auto scaled = data;
    for (auto* side : {&scaled.baseline, &scaled.candidate}) {
      for (auto& value : *side) { value *= 1e-3; }
    }
    for (const auto test : {ratio_of_pairs, ratio_of_groups}) {
      const auto plain = test(data, {});
      const auto other = test(scaled, {});
      CHECK(other.ratio == Approx(plain.ratio).epsilon(1e-12));
      CHECK(other.ci->low == Approx(plain.ci->low).epsilon(1e-12));
      CHECK(other.tost_p.value() == Approx(plain.tost_p.value()).epsilon(1e-8).margin(1e-300));
      CHECK(other.verdict == plain.verdict);
    }
  }
}

TEST_CASE("swapped arms invert the ratio and the interval, and worse becomes better") {
  std::mt19937_64 random(2);
  int decided = 0;
  for (int round = 0; round < 60; ++round) {
    const auto data = simulate(random, 4 + round % 6, round % 2 == 0 ? 0.94 : 1.0, 0.012);
    const Data swapped{data.candidate, data.baseline};
    for (const auto test : {ratio_of_pairs, ratio_of_groups}) {
      const auto one = test(data, {});
      const auto other = test(swapped, {});
      CHECK(other.ratio == Approx(1 / one.ratio).epsilon(1e-12));
      CHECK(other.ci->low == Approx(1 / one.ci->high).epsilon(1e-12));
      CHECK(other.ci_tost->high == Approx(1 / one.ci_tost->low).epsilon(1e-12));
      CHECK(other.p_lower.value() == Approx(one.p_upper.value()).epsilon(1e-9).margin(1e-300));
      CHECK(other.p_diff.value() == Approx(one.p_diff.value()).epsilon(1e-9).margin(1e-300));
      CHECK((other.verdict == Verdict::better) == (one.verdict == Verdict::worse));
      CHECK((other.verdict == Verdict::equivalent) == (one.verdict == Verdict::equivalent));
      decided += one.verdict == Verdict::worse ? 1 : 0;
    }
  }
  CHECK(decided > 20);
}

TEST_CASE("the order of pairs and of runs does not matter") {
  std::mt19937_64 random(3);
  const auto data = simulate(random, 7, 0.97, 0.02);
  Data turned = data;
  std::reverse(turned.baseline.begin(), turned.baseline.end());
  std::reverse(turned.candidate.begin(), turned.candidate.end());
  CHECK(ratio_of_pairs(turned).p_diff.value() == Approx(ratio_of_pairs(data).p_diff.value()).epsilon(1e-10));
  CHECK(ratio_of_groups(turned).p_diff.value() ==
        Approx(ratio_of_groups(data).p_diff.value()).epsilon(1e-10));
}

TEST_CASE("the 95 % interval covers the truth in 95 % of cases") {
  std::mt19937_64 random(4);
  const double truth = 0.97;
  int paired_hits = 0, unpaired_hits = 0, verdict_hits = 0;
  for (int i = 0; i < many; ++i) {
    const auto data = simulate(random, 5, truth, 0.02);
    const auto inside = [&](const Interval& interval) {
      return interval.low < truth && truth < interval.high;
    };
    const auto pairs = ratio_of_pairs(data);
    paired_hits += inside(*pairs.ci) ? 1 : 0;
    verdict_hits += inside(*pairs.ci_tost) ? 1 : 0;
    auto fresh = simulate(random, 6, 1, 0.02);
    for (auto& value : fresh.candidate) { value *= truth; }
    std::shuffle(fresh.candidate.begin(), fresh.candidate.end(), random);
    const Data independent{data.baseline, fresh.candidate};
    unpaired_hits += inside(*ratio_of_groups(independent).ci) ? 1 : 0;
  }
  check_rate(paired_hits, many, 0.95);
  check_rate(verdict_hits, many, 0.90);
  check_rate(unpaired_hits, many, 0.95);
}

TEST_CASE("an A/A comparison finds a difference at its stated rate, and almost never calls an arm worse") {
  std::mt19937_64 random(5);
  int different = 0, worse = 0;
  for (int i = 0; i < many; ++i) {
    const auto test = ratio_of_pairs(simulate(random, 6, 1, 0.01));
    different += *test.p_diff < 0.05 ? 1 : 0;
    worse += test.verdict == Verdict::worse ? 1 : 0;
  }
  check_rate(different, many, 0.05);
  CHECK(worse < many / 100);
}

TEST_CASE("at the margin the verdict errs at alpha, no more") {
  std::mt19937_64 random(6);
  for (const double alpha : {0.05, 0.01}) {
    int equivalent = 0, worse = 0;
    const Settings settings{0.02, alpha};
    for (int i = 0; i < many; ++i) {
      const auto test = ratio_of_pairs(simulate(random, 8, 0.98, 0.004), settings);
      equivalent += test.verdict == Verdict::equivalent ? 1 : 0;
      worse += test.verdict == Verdict::worse ? 1 : 0;
    }
    check_rate(equivalent, many, alpha);
    check_rate(worse, many, alpha);
  }
}

TEST_CASE("a planted loss of 3 % is called worse at its stated power, a small one equivalent") {
  std::mt19937_64 random(7);
  const double theta = -std::log1p(-0.02);
  const double sigma = 0.012;
  for (const int n : {6, 11}) {
    int worse = 0, equivalent = 0;
    for (int i = 0; i < many; ++i) {
      worse += ratio_of_pairs(simulate(random, n, 0.97, sigma)).verdict == Verdict::worse ? 1 : 0;
      equivalent += ratio_of_pairs(simulate(random, n, 0.995, sigma)).verdict == Verdict::equivalent ? 1 : 0;
    }
    check_rate(worse, many, power(n, std::log(0.97), sigma, theta, 0.05));
    check_rate(equivalent, many, power(n, std::log(0.995), sigma, theta, 0.05));
  }
}

TEST_CASE("Holm keeps the rate of any false alarm in a family") {
  std::mt19937_64 random(8);
  int plain = 0, corrected = 0;
  const int families = 1000;
  for (int i = 0; i < families; ++i) {
    std::vector<double> p_values;
    p_values.reserve(10);
    for (int k = 0; k < 10; ++k) {
      p_values.push_back(*ratio_of_pairs(simulate(random, 5, 0.98, 0.005)).p_worse);
    }
    const auto adjusted = holm(p_values);
    plain += *std::min_element(p_values.begin(), p_values.end()) < 0.05 ? 1 : 0;
    corrected += *std::min_element(adjusted.begin(), adjusted.end()) < 0.05 ? 1 : 0;
  }
  check_rate(plain, families, 1 - std::pow(0.95, 10));
  check_rate(corrected, families, 1 - std::pow(1 - 0.05 / 10, 10));
}

TEST_CASE("p_worse is the other tail of p_lower, also where it is tiny") {
  std::mt19937_64 random(9);
  const auto test = ratio_of_pairs(simulate(random, 6, 0.97, 0.01));
  CHECK(*test.p_worse + *test.p_lower == Approx(1).epsilon(1e-12));
  const auto sure = ratio_of_pairs(simulate(random, 40, 0.5, 0.001));
  CHECK(*sure.p_worse > 0);
  CHECK(*sure.p_worse < 1e-40);
}
