#include "results/statistics/sequential.h"

#include <cmath>
#include <cstdio>
#include <random>

#include "common/error.h"
#include "results/statistics/power.h"
#include "tests/support/catch.h"

using namespace virtrain::results;

namespace {

/// The boundary of a normal statistic that a nominal level stands for.
double z_of(double level) {
  double low = 0;
  double high = 9;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(middle / std::sqrt(2.0)) > level ? low : high) = middle;
  }
  return low;
}

std::vector<double> boundaries(std::vector<double> shares, double alpha) {
  std::vector<double> z;
  for (const double level : nominal_levels(shares, alpha)) { z.push_back(z_of(level)); }
  return z;
}

PairedComparison of_logs(const std::vector<double>& logs, const Settings& settings) {
  std::vector<std::optional<double>> baseline(logs.size(), 100.0);
  std::vector<std::optional<double>> candidate;
  for (const double log : logs) { candidate.emplace_back(100 * std::exp(log)); }
  return compare_paired(baseline, candidate, settings);
}

struct Ends {
  double equivalent = 0, worse = 0, mean_pairs = 0, futile = 0;
};

/// Shares of simulated experiments by their end.
Ends simulate(double mean_log, double sigma, const Looks& looks, int runs) {
  std::mt19937_64 random(20261123);
  std::normal_distribution<double> normal(mean_log, sigma);
  const Settings settings;
  Ends ends;
  const SequentialTest sequential(looks, settings);
  for (int run = 0; run < runs; ++run) {
    std::vector<double> logs;
    Stop stop = Stop::go_on;
    PairedComparison so_far;
    while (stop == Stop::go_on) {
      logs.push_back(normal(random));
      if (std::ssize(logs) < looks.first) { continue; }
      so_far = of_logs(logs, settings);
      stop = sequential.look(so_far.test, so_far.n);
    }
    ends.mean_pairs += static_cast<double>(logs.size()) / runs;
    ends.futile += stop == Stop::futility ? 1.0 / runs : 0;
    if (stop != Stop::verdict) { continue; }
    const auto& test = so_far.test;
    const double now = sequential.level(so_far.n);
    ends.equivalent += std::max(*test.p_lower, *test.p_upper) < now ? 1.0 / runs : 0;
    ends.worse += *test.p_worse < now ? 1.0 / runs : 0;
  }
  return ends;
}

}  // namespace

TEST_CASE("Boundaries are those of published tables") {
  // ldbounds and gsDesign (sfLDOF), two-sided 0.05, that is 0.025 above; R's help pages and Reboussin et al.
  // 2000 print them to four digits.
  const auto five = boundaries({0.2, 0.4, 0.6, 0.8, 1}, 0.025);
  CHECK(five[0] == Approx(4.8769).margin(2e-3));
  CHECK(five[1] == Approx(3.3569).margin(2e-4));
  CHECK(five[2] == Approx(2.6803).margin(2e-4));
  CHECK(five[3] == Approx(2.2898).margin(2e-4));
  CHECK(five[4] == Approx(2.0310).margin(2e-4));
  const auto two = boundaries({0.5, 1}, 0.025);
  CHECK(two[0] == Approx(2.9626).margin(2e-4));
  CHECK(two[1] == Approx(1.9686).margin(2e-4));
  const auto three = boundaries({1.0 / 3, 2.0 / 3, 1}, 0.025);
  CHECK(three[0] == Approx(3.7103).margin(2e-4));
  CHECK(three[1] == Approx(2.5114).margin(2e-4));
  CHECK(three[2] == Approx(1.9930).margin(2e-4));
}

TEST_CASE("One look spends all of alpha") {
  CHECK(nominal_levels(std::vector{1.0}, 0.05)[0] == Approx(0.05).epsilon(1e-9));
  CHECK(spent_alpha(1, 0.05) == Approx(0.05).epsilon(1e-12));
  const SequentialTest thirty({.at_most = 30, .every = 1, .first = 4}, {});
  CHECK(thirty.level(3) < 1e-8);
  CHECK(thirty.level(30) < 0.05);
  CHECK_THROWS_AS(nominal_levels(std::vector{0.5, 0.5}, 0.05), virtrain::Error);
}

TEST_CASE("What is left of alpha is spent where the pairs end, also between two looks") {
  const SequentialTest rare({.at_most = 30, .every = 27, .first = 3}, {});
  CHECK(rare.level(29) == Approx(nominal_levels(std::vector{0.1, 29.0 / 30}, 0.05)[1]));
  CHECK(rare.level(29) > 0.04);  // one lost pair; at the look before it was 1e-9
  CHECK(rare.level(2) < 1e-8);
}

TEST_CASE("of many cases one is worse for sure only if it is after Holm's correction") {
  const SequentialTest sequential({.at_most = 20, .every = 1, .first = 3}, {});
  RatioTest test;
  test.p_lower = test.p_upper = test.p_worse = 0.4 * sequential.level(20);
  test.p_lower = 0.9;
  CHECK(sequential.look(test, 20) == Stop::verdict);
  CHECK(sequential.look(test, 20, 2) == Stop::verdict);
  CHECK(sequential.look(test, 20, 3) == Stop::at_most);
}

TEST_CASE("Looks come from the first on, each so many pairs, and at the end") {
  const Looks looks{.at_most = 10, .every = 4, .first = 4};
  const Settings settings;
  const auto at = [&](std::size_t n) {
    std::vector<double> logs;
    for (std::size_t i = 0; i < n; ++i) { logs.push_back(i % 2 == 0 ? 1e-7 : -1e-7); }
    const auto so_far = of_logs(logs, settings);
    return SequentialTest(looks, settings).look(so_far.test, so_far.n);
  };
  CHECK(at(3) == Stop::go_on);
  CHECK(at(4) == Stop::verdict);
  CHECK(at(5) == Stop::go_on);
  CHECK(at(8) == Stop::verdict);
  CHECK(at(10) == Stop::verdict);
}

TEST_CASE("Looking often makes no more false verdicts, and needs fewer pairs") {
  const Looks looks{.at_most = 20, .every = 1, .first = 4};
  const double theta = -std::log1p(-0.02);
  constexpr int runs = 1500;
  const double slack = 3 * std::sqrt(0.05 * 0.95 / runs);
  // On the margin: "equivalent" and "worse" would both be false.
  const Ends edge = simulate(-theta, 0.02, looks, runs);
  CHECK(edge.equivalent <= 0.05 + slack);
  CHECK(edge.worse <= 0.05 + slack);
  const Ends same = simulate(0, 0.01, looks, 300);
  CHECK(same.equivalent > 0.95);
  CHECK(same.mean_pairs < 10);
  const Ends slower = simulate(-0.05, 0.02, looks, 300);
  CHECK(slower.worse > 0.95);
  CHECK(slower.mean_pairs < 13);
}

// build/results_test "[table]" prints the table of docs/method.md.
TEST_CASE("Simulated ends of looking after each of at most 30 pairs", "[.table]") {
  const Looks looks{};
  const double theta = -std::log1p(-0.02);
  for (const double truth : {0.0, -theta, -0.5 * theta, -2 * theta}) {
    for (const double sigma : {0.01, 0.02, 0.03}) {
      const Ends ends = simulate(truth, sigma, looks, 20'000);
      const auto fixed = pairs_for_power(truth, sigma, theta, 0.05);
      std::printf("| %.4f | %.0f %% | %.3f | %.3f | %.3f | %.1f | %s |\n", std::exp(truth), 100 * sigma,
                  ends.equivalent, ends.worse, ends.futile, ends.mean_pairs,
                  fixed ? std::to_string(*fixed).c_str() : "none");
    }
  }
}
