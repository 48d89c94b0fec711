// Known answers come from R 4.2.2 (t.test, quantile, pt/qt, integrate), not from this implementation.
#include "results/statistics/statistics.h"

#include <cmath>
#include <limits>
#include <random>

#include "results/statistics/power.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

using Runs = std::vector<double>;
using Pairs = std::vector<std::optional<double>>;

/// R's figures are printed to eight digits.
Approx r(double value) {
  return Approx(value).epsilon(1e-7).margin(0);
}
/// p values: relative 1e-6 or absolute 1e-12.
Approx p(double value) {
  return Approx(value).epsilon(1e-6).margin(1e-12);
}

PairedComparison paired(const Pairs& baseline, const Pairs& candidate, Settings settings = {}) {
  return compare_paired(baseline, candidate, settings);
}

void check(const std::optional<Interval>& interval, double low, double high) {
  REQUIRE(interval);
  CHECK(interval->low == r(low));
  CHECK(interval->high == r(high));
}

const Pairs k2_baseline{100, 101, 99.5, 100.5, 100.2};
const Pairs k2_candidate{98.9, 99.6, 98.7, 99.2, 99.1};
const Pairs e_baseline{1000, 1010, 990, 1005, 995, 1000};
const Pairs e4_candidate{975, 1012, 968, 998, 961, 1003};

}  // namespace

TEST_CASE("K1: R's sleep data by Welch's test and by raw TOST") {
  const Runs group_1{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
  const Runs group_2{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
  const auto welch = welch_test(group_2, group_1);
  CHECK(welch.t.value() == r(-1.8608135));
  CHECK(welch.df.value() == r(17.776474));
  CHECK(welch.p == p(0.079394140));
  CHECK(welch.ci.low == r(-3.3654832));
  CHECK(welch.ci.high == r(0.20548323));
  const auto [p_lower, p_upper] =
      two_one_sided(welch.difference, welch.difference / *welch.t, *welch.df, -0.5, 0.5);
  CHECK(p_lower == p(0.89010996));
  CHECK(p_upper == p(0.012451328));

  Runs differences;
  for (std::size_t i = 0; i < group_1.size(); ++i) { differences.push_back(group_1[i] - group_2[i]); }
  const double t = mean(differences) / std::sqrt(variance(differences) / 10);
  CHECK(t == r(-4.0621277));
  CHECK(2 * two_one_sided(t, 1, 9, 0, 0).p_upper == p(0.0028328902));
}

TEST_CASE("K2: a paired comparison in full") {
  const auto result = paired(k2_baseline, k2_candidate);
  CHECK(result.n == 5);
  CHECK(result.test.mean_log == r(-0.011430092));
  CHECK(result.sd_log == r(0.0022627699));
  CHECK(result.test.ratio == r(0.98863498));
  check(result.test.ci, 0.98586121, 0.99141656);
  check(result.test.ci_tost, 0.98650450, 0.99077007);
  CHECK(result.test.p_lower.value() == p(4.8713657e-4));
  CHECK(result.test.tost_p.value() == p(4.8713657e-4));
  CHECK(result.test.p_upper.value() == p(3.1205787e-6));
  CHECK(result.test.p_diff.value() == p(3.5011797e-4));
  CHECK(result.test.verdict == Verdict::equivalent);
  CHECK(result.further_pairs == 0);
}

TEST_CASE("K3: the same runs as independent ones") {
  const auto result =
      compare_unpaired(Runs{100, 101, 99.5, 100.5, 100.2}, Runs{98.9, 99.6, 98.7, 99.2, 99.1}, {});
  CHECK(result.test.df.value() == r(6.6331542));
  check(result.test.ci, 0.98173894, 0.99557946);
  check(result.test.ci_tost, 0.98312193, 0.99417895);
  CHECK(result.test.p_lower.value() == p(0.010674005));
  CHECK(result.test.p_upper.value() == p(9.3738122e-6));
  CHECK(result.test.p_diff.value() == p(0.0065156702));
  CHECK(result.test.verdict == Verdict::equivalent);
  CHECK(result.welch->t.value() == r(-3.8964398));
  CHECK(result.welch->df.value() == r(6.5897081));
  CHECK(result.welch->p == p(0.0066703763));
  CHECK(result.welch->difference == r(-1.14));
  check(result.welch->ci, -1.8406580, -0.43934197);
  CHECK(result.fieller->ratio == r(0.98862729));
  CHECK(result.fieller->df.value() == r(6.6349611));
  CHECK(result.fieller->g == r(3.5624089e-5));
  CHECK(result.fieller->kind == FiellerInterval::Kind::bounded);
  check(result.fieller->limits, 0.98174080, 0.99558423);
}

TEST_CASE("E1: non-inferior, and eight further pairs would show equivalence") {
  const auto result = paired(e_baseline, {1012, 1031, 992, 1030, 998, 1019});
  CHECK(result.test.mean_log == r(0.013488194));
  CHECK(result.sd_log == r(0.0094375234));
  CHECK(result.test.ratio == r(1.0135796));
  check(result.test.ci, 1.0035906, 1.0236680);
  check(result.test.ci_tost, 1.0057409, 1.0214793);
  CHECK(result.test.p_lower.value() == p(1.6203786e-4));
  CHECK(result.test.p_upper.value() == p(0.070921779));
  CHECK(result.test.p_diff.value() == p(0.017269040));
  CHECK(result.test.verdict == Verdict::non_inferior);
  CHECK(result.further_pairs == 8);
}

TEST_CASE("E2: worse") {
  const auto result = paired(e_baseline, {951, 963, 938, 957, 944, 955});
  CHECK(result.test.ratio == r(0.95131689));
  check(result.test.ci, 0.94833376, 0.95430940);
  check(result.test.ci_tost, 0.94897765, 0.95366189);
  CHECK(result.test.p_lower.value() == p(0.99999890));
  CHECK(result.test.p_upper.value() == p(1.5202858e-8));
  CHECK(result.test.verdict == Verdict::worse);
  CHECK(result.further_pairs == 0);
}

TEST_CASE("E3: better") {
  const auto result = paired(e_baseline, {1041, 1052, 1029, 1049, 1033, 1043});
  CHECK(result.test.ratio == r(1.0411566));
  check(result.test.ci, 1.0389376, 1.0433803);
  check(result.test.ci_tost, 1.0394167, 1.0428993);
  CHECK(result.test.p_lower.value() == p(4.5890789e-9));
  CHECK(result.test.p_upper.value() == p(0.99999889));
  CHECK(result.test.verdict == Verdict::better);
  CHECK(result.further_pairs == 0);
}

TEST_CASE("E4: inconclusive, and thirty-six further pairs would settle it") {
  const auto result = paired(e_baseline, e4_candidate);
  CHECK(result.test.mean_log == r(-0.014095798));
  CHECK(result.sd_log == r(0.015648952));
  CHECK(result.test.ratio == r(0.98600308));
  check(result.test.ci, 0.96994262, 1.0023295);
  check(result.test.ci_tost, 0.97339117, 0.99877840);
  CHECK(result.test.p_lower.value() == p(0.19151152));
  CHECK(result.test.p_upper.value() == p(0.0015090063));
  CHECK(result.test.p_diff.value() == p(0.078461254));
  CHECK(result.test.verdict == Verdict::inconclusive);
  CHECK(result.further_pairs == 36);
}

TEST_CASE("E5: the margin and alpha change the verdict's interval, never the reported one") {
  const auto wide = paired(e_baseline, e4_candidate, {0.05, 0.05});
  CHECK(wide.test.p_lower.value() == p(0.0010554514));
  CHECK(wide.test.p_upper.value() == p(7.6449200e-5));
  CHECK(wide.test.verdict == Verdict::equivalent);
  const auto strict = paired(e_baseline, e4_candidate, {0.05, 0.01});
  CHECK(strict.test.p_lower.value() == p(0.0010554514));
  check(strict.test.ci_tost, 0.96503280, 1.0074290);
  check(strict.test.ci, 0.96994262, 1.0023295);
  CHECK(strict.test.verdict == Verdict::equivalent);
}

TEST_CASE("E6: no spread at all is a flag, not an error") {
  const auto result = paired({100, 200, 400}, {99, 198, 396});
  CHECK(result.test.ratio == r(0.99));
  check(result.test.ci, 0.99, 0.99);
  check(result.test.ci_tost, 0.99, 0.99);
  CHECK(result.test.p_lower == 0.0);
  CHECK(result.test.p_upper == 0.0);
  CHECK(result.test.p_diff == 0.0);
  CHECK(result.test.zero_variance);
  CHECK(result.test.verdict == Verdict::equivalent);
  CHECK(paired({100, 200, 400}, {90, 180, 360}).test.verdict == Verdict::worse);
  CHECK(paired({100, 200, 400}, {110, 220, 440}).test.verdict == Verdict::better);
  const auto same = paired({100, 200, 400}, {100, 200, 400});
  CHECK(same.test.p_diff == 1.0);
  CHECK(same.further_pairs == 0);
  CHECK(compare_unpaired(Runs{100, 100, 100}, Runs{99, 99, 99}, {}).test.zero_variance);
  // Means of equal logarithms differ by their rounding, and so does the edge of the band.
  const auto equal = compare_unpaired(Runs{100, 100, 100}, Runs(6, 100.0), {}).test;
  CHECK(equal.p_diff == 1.0);
  CHECK(equal.ratio == 1.0);
  CHECK(paired({100, 200, 400}, {98, 196, 392}).test.verdict == Verdict::inconclusive);
}

TEST_CASE("a level that three pairs cannot bound gives no interval, and no number that is none") {
  const auto result = paired({1, 1, 1}, {.99, 1.08, .94}, {.alpha = 1e-9, .reporting_tail = 1e-9});
  CHECK_FALSE(result.test.ci);
  CHECK_FALSE(result.test.ci_tost);
  CHECK(result.test.verdict == Verdict::inconclusive);
  CHECK(result.test.p_lower);
}

TEST_CASE("E7: a missing run drops its pair, and two pairs give no interval") {
  const auto result = paired({100.4, 101.3, std::nullopt, 99.6}, {99.8, 100.7, 98, 99.1});
  CHECK(result.dropped_pairs == 1);
  CHECK(result.n == 3);
  CHECK(result.test.ratio == r(0.99436018));
  check(result.test.ci, 0.99302659, 0.99569556);
  CHECK(result.test.tost_p.value() == p(2.2971795e-4));
  CHECK(result.test.verdict == Verdict::equivalent);

  const auto two = paired({100, 102}, {99, 101});
  CHECK(two.test.ratio == r(0.99009803));
  CHECK_FALSE(two.test.ci);
  CHECK_FALSE(two.test.tost_p);
  CHECK_FALSE(two.further_pairs);
  CHECK(two.test.verdict == Verdict::inconclusive);
  CHECK(two.test.reason == "too_few_pairs");
}

TEST_CASE("E8: exact power of the paired test") {
  const double theta = -std::log(0.98);
  CHECK(power(5, 0.005, 0.012, theta, 0.05) == r(0.73672914));
  CHECK(power(6, 0.005, 0.012, theta, 0.05) == r(0.83973557));
  CHECK(power(12, 0.005, 0.012, theta, 0.05) == r(0.99294337));
  CHECK(pairs_for_power(0.005, 0.012, theta, 0.05) == 6);
  CHECK(power(5, 0, 0.01, theta, 0.05) == r(0.95386617));
  CHECK(pairs_for_power(0, 0.01, theta, 0.05) == 4);
  CHECK(pairs_for_power(0, 0.01, theta, 0.01) == 7);
  CHECK(power(6, -0.03, 0.012, theta, 0.05) == r(0.53140484));
  CHECK(power(10, -0.03, 0.012, theta, 0.05) == r(0.76917864));
  CHECK(power(11, -0.03, 0.012, theta, 0.05) == r(0.80875184));
  CHECK(pairs_for_power(-0.03, 0.012, theta, 0.05) == 11);
  CHECK_FALSE(pairs_for_power(theta, 0.01, theta, 0.05));
  CHECK_FALSE(pairs_for_power(0.01, 0, theta, 0.05));
  CHECK_FALSE(pairs_for_power(0.0201, 0.5, theta, 0.05));
}

TEST_CASE("the search for pairs finds what a step-by-step search finds") {
  const double theta = -std::log(0.98);
  for (const double delta : {0.0, 0.004, -0.012, 0.016, -0.026, 0.05}) {
    for (const double sigma : {0.003, 0.01, 0.03}) {
      CAPTURE(delta, sigma);
      std::int64_t pairs = 3;
      while (power(pairs, delta, sigma, theta, 0.05) < 0.8) { ++pairs; }
      CHECK(pairs_for_power(delta, sigma, theta, 0.05) == pairs);
    }
  }
}

TEST_CASE("E9: unpaired and inconclusive") {
  const auto result =
      compare_unpaired(Runs{812.5, 818.2, 809.9, 815.1}, Runs{801.3, 806.8, 797.2, 804.4, 799.9}, {});
  CHECK(result.test.df.value() == r(6.7716551));
  CHECK(result.test.ratio == r(0.98524884));
  check(result.test.ci, 0.97817029, 0.99237861);
  check(result.test.ci_tost, 0.97958332, 0.99094712);
  CHECK(result.test.p_lower.value() == p(0.061282837));
  CHECK(result.test.p_upper.value() == p(5.1925223e-6));
  CHECK(result.test.verdict == Verdict::inconclusive);
  CHECK(result.welch->t.value() == r(-4.9040083));
  CHECK(result.welch->df.value() == r(6.7343615));
  CHECK(result.welch->p == p(0.0019488584));
  check(result.welch->ci, -17.840205, -6.1697955);
  CHECK(result.fieller->ratio == r(0.98525048));
  CHECK(result.fieller->df.value() == r(6.7716662));
  CHECK(result.fieller->g == r(2.7016083e-5));
  check(result.fieller->limits, 0.97817155, 0.99238265);
}

TEST_CASE("E10: Fieller's interval may have no end, and that is no error") {
  const auto gap = compare_unpaired(Runs{2, 20, 5}, Runs{50, 52, 48, 51}, {}).fieller.value();
  CHECK(gap.ratio == r(5.5833333));
  CHECK(gap.df.value() == r(2.0030185));
  CHECK(gap.g == r(7.0647242));
  CHECK(gap.kind == FiellerInterval::Kind::unbounded_exclusive);
  CHECK_FALSE(gap.limits);
  const auto all = compare_unpaired(Runs{2, 20, 5}, Runs{1, 9, 4}, {}).fieller.value();
  CHECK(all.ratio == r(0.51851852));
  CHECK(all.df.value() == r(3.8314264));
  CHECK(all.g == r(3.0549433));
  CHECK(all.kind == FiellerInterval::Kind::unbounded_all);
}

TEST_CASE("too few independent runs give a ratio only") {
  const auto result = compare_unpaired(Runs{100, 101}, Runs{99, 98, 97}, {});
  CHECK(result.test.verdict == Verdict::inconclusive);
  CHECK(result.test.reason == "too_few_runs");
  CHECK_FALSE(result.test.ci);
  CHECK_FALSE(result.welch);
}

TEST_CASE("E11: weak scaling") {
  const Runs x1{1000, 1004, 996};
  const auto two = weak_scaling(x1, Runs{1960, 1975, 1950}, 2);
  CHECK(two.speedup == r(1.9616667));
  CHECK(two.df.value() == r(3.3511434));
  check(two.speedup_ci, 1.9361335, 1.9875366);
  CHECK(two.efficiency == r(0.98083333));
  check(two.efficiency_ci, 0.96806674, 0.99376829);
  const auto four = weak_scaling(x1, Runs{3800, 3840, 3790, 3825}, 4);
  CHECK(four.speedup == r(3.8137500));
  CHECK(four.df.value() == r(4.9841826));
  check(four.speedup_ci, 3.7767945, 3.8510671);
  CHECK(four.efficiency == r(0.95343750));
  check(four.efficiency_ci, 0.94419863, 0.96276677);
  const auto one = weak_scaling(x1, x1, 1);
  CHECK(one.speedup == 1);
  check(one.efficiency_ci, 1, 1);
  CHECK_FALSE(one.df);
  CHECK_FALSE(weak_scaling(Runs{1000, 1001}, Runs{1900, 1901, 1902}, 2).speedup_ci);
  check(weak_scaling(Runs{10, 10, 10}, Runs{19, 19, 19}, 2).speedup_ci, 1.9, 1.9);
}

TEST_CASE("tails come from the tail: tiny p values do not become zero") {
  Pairs baseline;
  Pairs candidate;
  for (int i = 0; i < 60; ++i) {
    baseline.emplace_back(1000);
    candidate.emplace_back(i % 2 == 0 ? 1000.5 : 999.5);
  }
  const auto result = paired(baseline, candidate);
  CHECK(result.test.tost_p.value() > 0);
  CHECK(result.test.tost_p.value() < 1e-60);
}

TEST_CASE("bad data are refused with value and position") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinity, -infinity, 0.0, -3.0}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH(paired({1, 2, 3}, {1, bad, 3}), Contains("candidate, pair 2"));
    CHECK_THROWS_WITH(compare_unpaired(Runs{1, 2, bad}, Runs{1, 2, 3}, {}), Contains("baseline, value 3"));
    CHECK_THROWS_WITH(weak_scaling(Runs{1, bad}, Runs{1}, 2), Contains("one node, value 2"));
  }
  // Also where the other half of the pair is missing.
  CHECK_THROWS_WITH(paired({std::nullopt, 2}, {nan, 2}), Contains("candidate, pair 1"));
  CHECK_THROWS_WITH(paired({1, 2}, {1}), Contains("2 baseline runs and 1 candidate runs"));
  CHECK_THROWS_AS(paired({}, {}), Error);
  CHECK_THROWS_AS(paired({std::nullopt}, {1}), Error);
  CHECK_THROWS_AS(compare_unpaired(Runs{}, Runs{1}, {}), Error);
  for (const double bad : {0.0, 1.0, -0.1, nan}) {
    CHECK_THROWS_WITH(paired({1}, {1}, {bad, 0.05}), Contains("margin"));
  }
  for (const double bad : {0.0, 0.5, nan}) {
    CHECK_THROWS_WITH(paired({1}, {1}, {0.02, bad}), Contains("alpha"));
  }
}

TEST_CASE("E13: quantiles of type 7") {
  const Runs values{12.1, 10.4, 15.9, 11.2, 30.5, 10.9, 11.7, 13.3, 10.8, 12.6};
  CHECK(quantile(values, 0.25) == r(10.975));
  CHECK(quantile(values, 0.5) == r(11.9));
  CHECK(quantile(values, 0.75) == r(13.125));
  CHECK(quantile(values, 0.95) == r(23.93));
  CHECK(quantile(values, 0.99) == r(29.186));
  CHECK(quantile({7}, 0.99) == 7);
}

TEST_CASE("Holm's correction gives what R's p.adjust gives") {
  // p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.9, 0.04), "holm")
  const std::vector<double> p_values = {0.01, 0.04, 0.03, 0.005, 0.9, 0.04};
  const std::vector<double> expected = {0.05, 0.12, 0.12, 0.03, 0.9, 0.12};
  const auto adjusted = holm(p_values);
  REQUIRE(adjusted.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(adjusted[i] == Approx(expected[i]).epsilon(1e-12));
  }
  CHECK(holm({}).empty());
  CHECK(holm(std::vector<double>{0.6, 0.7}) == std::vector<double>{1, 1});
  CHECK_THROWS_WITH(holm(std::vector<double>{0.5, 1.5}), Contains("value 2 is 1.5"));
  CHECK_THROWS_WITH(holm(std::vector<double>{std::nan("")}), Contains("value 1 is nan"));
}

TEST_CASE("pairs that follow each other are noticed, and independent ones seldom") {
  std::mt19937_64 random(5);
  std::normal_distribution<double> noise(0, 0.01);
  const auto share = [&](double autocorrelation, int pairs) {
    int noticed = 0;
    for (int i = 0; i < 400; ++i) {
      std::vector<std::optional<double>> ours, theirs;
      double state = noise(random);
      for (int pair = 0; pair < pairs; ++pair) {
        state = autocorrelation * state + std::sqrt(1 - autocorrelation * autocorrelation) * noise(random);
        ours.emplace_back(100);
        theirs.emplace_back(100 * std::exp(state));
      }
      noticed += compare_paired(ours, theirs, {}).follow_each_other ? 1 : 0;
    }
    return noticed / 400.0;
  };
  CHECK(share(0, 30) <= 0.07);
  CHECK(share(0, 10) <= 0.07);
  CHECK(share(0.5, 30) >= 0.7);
  const std::vector<std::optional<double>> few{100, 101, 102};
  CHECK_FALSE(compare_paired(few, few, {}).lag1);
}
