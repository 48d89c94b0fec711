// The isolation matrix: cells, verdicts against both baselines, and that neither A/A neighbours are called
// disturbed nor planted interference isolated.

#include "results/comparison/isolation_matrix.h"

#include <cmath>
#include <random>

#include "common/text/text.h"
#include "common/text/units.h"
#include "results/reading/reading.h"
#include "results/tables/isolation_table.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

/// Of "", "idle" and "cpu@25%".
ArmKey beside(const std::string& condition) {
  if (condition.empty()) { return {}; }
  const auto parts = split(condition, '@');
  return {"vm", parts[0], parts.size() > 1 ? parse_share(parts[1]) : std::nullopt};
}

/// Trials of one victim; `losses` by condition, noise of 1.5 % a trial and 3 % a round.
ComparisonData simulate(std::uint64_t seed, const std::map<std::string, double>& losses, int rounds) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> of_trial(0, 0.015), of_round(0, 0.03);
  ComparisonData data;
  data.experiments.push_back({"e", "isolated", "", "", "", "", "", 0.05, 7});
  for (int round = 1; round <= rounds; ++round) {
    const double drift = of_round(random);
    for (const auto& [condition, loss] : losses) {
      ComparisonRow row;
      row.case_name = "trainer";
      row.arm_key = beside(condition);
      row.arm = condition.empty() ? "vm" : printed(row.arm_key);
      row.pair = round;
      row.order = std::ssize(data.rows) + 1;
      row.virtualization = "tcg";
      row.throughput = 10 * (1 - loss) * std::exp(drift + of_trial(random));
      data.rows.push_back(row);
    }
  }
  return data;
}

const NeighbourCell& cell(const IsolationMatrix& matrix, const std::string& neighbour) {
  for (const auto& one : matrix.cells) {
    if (one.neighbour == neighbour) { return one; }
  }
  FAIL("no cell " << neighbour);
  return matrix.cells.front();
}

IsolationMatrix matrix_of(const ComparisonData& data) {
  const auto all = isolation_matrices(data);
  REQUIRE(all.size() == 1);
  return all[0];
}

}  // namespace

TEST_CASE("an arm whose name looks like one next to a neighbour is an arm") {
  auto data = simulate(1, {{"", 0}, {"cpu@100%", 0.4}}, 4);
  for (auto& row : data.rows) { row.arm_key = {}; }
  CHECK(isolation_matrices(data).empty());
}

TEST_CASE("at most one in twenty A/A neighbours is called disturbed") {
  int disturbed = 0, isolated = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const auto matrix = matrix_of(simulate(seed, {{"", 0}, {"idle", 0}}, 5));
    const auto& verdict = cell(matrix, "idle").against_alone.value();
    disturbed += verdict.verdict == Isolated::disturbed ? 1 : 0;
    isolated += verdict.verdict == Isolated::isolated ? 1 : 0;
  }
  CHECK(disturbed <= 5);
  CHECK(isolated >= 90);
}

TEST_CASE(
    "of a matrix of twenty neighbours that do what the margin allows hardly ever one is called disturbing") {
  int called = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    std::map<std::string, double> losses{{"", 0}};
    for (int level = 1; level <= 20; ++level) { losses["cpu@" + std::to_string(level) + "%"] = 0.05; }
    const auto matrix = matrix_of(simulate(seed, losses, 5));
    called += std::ranges::any_of(matrix.cells, [](const NeighbourCell& one) {
      return one.against_alone && one.against_alone->verdict == Isolated::disturbed;
    });
  }
  CHECK(called <= 8);  // about half of the matrices by the tests of the single cells
}

TEST_CASE("planted slowdowns are found at their size, and never called isolated") {
  int covered = 0, cells = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto matrix =
        matrix_of(simulate(seed, {{"", 0}, {"idle", 0.01}, {"cpu@25%", 0.12}, {"cpu@100%", 0.5}}, 5));
    for (const auto& [neighbour, loss] : {std::pair("cpu@25%", 0.12), std::pair("cpu@100%", 0.5)}) {
      const auto& against = cell(matrix, neighbour).against_alone.value();
      CHECK(against.verdict == Isolated::disturbed);
      CHECK(cell(matrix, neighbour).against_idle->verdict == Isolated::disturbed);
      ++cells;
      covered += against.loss_ci->low <= loss && loss <= against.loss_ci->high ? 1 : 0;
    }
  }
  CHECK(covered >= 0.8 * cells);  // the interval is of 90 %
}

TEST_CASE("the dose is a line over the levels, from the idle neighbour") {
  // On logarithms linear: 0.5 at full level is sqrt(0.5) at half.
  const auto matrix =
      matrix_of(simulate(3, {{"", 0}, {"idle", 0}, {"cpu@50%", 1 - std::sqrt(0.5)}, {"cpu@100%", 0.5}}, 20));
  REQUIRE(matrix.doses.size() == 1);
  CHECK(matrix.doses[0].loss_at_full_level == Approx(0.5).margin(0.02));
  CHECK(matrix.doses[0].ci->low < 0.5);
  CHECK(matrix.doses[0].ci->high > 0.5);
  CHECK(matrix.doses[0].rounds == 20);
  CHECK(matrix.doses[0].on_a_line);
  const auto bent = matrix_of(
      simulate(3, {{"", 0}, {"idle", 0}, {"cpu@25%", 0.05}, {"cpu@50%", 0.1}, {"cpu@100%", 0.4}}, 10));
  REQUIRE(bent.doses.size() == 1);
  CHECK_FALSE(bent.doses[0].on_a_line);
  CHECK_FALSE(bent.doses[0].ci);  // it would not hold what was measured at full level
  CHECK_THAT(render(isolation_table({bent}), Format::markdown), Contains("do not lie on a line"));
}

TEST_CASE("emulated victims have verdicts among themselves, and none against other kinds of VM") {
  auto data = simulate(1, {{"", 0}, {"idle", 0}}, 4);
  CHECK(cell(matrix_of(data), "idle").against_alone->verdict == Isolated::isolated);
  CompareRequest request;
  request.baseline = "vm";
  request.candidate = "vm+idle";
  CHECK(compare(data, request).at(0).verdict != Verdict::not_comparable);
  for (auto& row : data.rows) {
    if (row.arm == "vm") { row.virtualization = "kvm"; }
  }
  CHECK(cell(matrix_of(data), "idle").against_alone->verdict == Isolated::not_comparable);
  CHECK(compare(data, request).at(0).verdict == Verdict::not_comparable);
}

TEST_CASE("what may not differ next to a neighbour is named, with its values and the reason") {
  auto data = simulate(1, {{"", 0}, {"idle", 0}, {"cpu@100%", 0.4}}, 4);
  for (const auto& [arm, driver] : {std::pair("vm", "470"), {"vm+idle", "470"}, {"vm+cpu@100%", "580"}}) {
    data.facts.push_back({.case_name = "trainer", .arm = arm, .key = "driver", .value = driver});
  }
  for (auto& row : data.rows) {
    if (row.arm == "vm+cpu@100%") { row.virtualization = "kvm"; }
  }
  const auto rows = nlohmann::json::parse(render(isolation_table(isolation_matrices(data)), Format::json));
  CHECK(rows.at(1)["reason"].is_null());
  const auto words = rows.at(2)["reason"].get<std::string>();
  CHECK_THAT(words, Contains("virtualization differs: tcg in vm, kvm in vm+cpu@100% (it must be equal"));
  CHECK_THAT(words, Contains("; driver differs: 470 in vm, 580 in vm+cpu@100% (it must be equal: the GPU"));
  CHECK_THAT(rows.at(2)["reason_idle"].get<std::string>(), Contains("driver differs: 470 in vm+idle, 580"));
}

TEST_CASE("failed and invalid trials are counted, and their rounds are left out") {
  auto data = simulate(1, {{"", 0}, {"cpu@100%", 0.4}}, 5);
  int spoilt = 0;
  for (auto& row : data.rows) {
    if (row.arm == "vm" || spoilt == 2) { continue; }
    if (++spoilt == 1) {
      row.valid = false;
    } else {
      row.status = Status::failed;
      row.throughput.reset();
    }
  }
  const auto matrix = matrix_of(data);
  const auto& one = cell(matrix, "cpu@100%");
  CHECK(one.trials == 3);
  CHECK(one.failed == 1);
  CHECK(one.invalid == 1);
  CHECK(one.against_alone->comparison.n == 3);
  CHECK_FALSE(one.against_idle);
}

TEST_CASE("fairness is of what victim and aggressor keep of their speeds") {
  auto data = simulate(1, {{"", 0}, {"cpu@100%", 0.5}}, 5);
  data.neighbours.push_back({0, "trainer", "vm+cpu@100%", "cpu", 1.0, 500.0, 1000.0, "operations", 5});
  data.neighbours.push_back({0, "trainer", "vm+cpu@100%", "memory", 0.5, {}, {}, "bytes", 5});
  const auto matrix = matrix_of(data);
  CHECK(*cell(matrix, "cpu@100%").fairness == Approx(1).margin(0.01));  // both keep half
  CHECK(cell(matrix, "cpu@100%").busy == 0.75);
}

TEST_CASE("recovery is the median of rounds, and of those in which the victim was not seen back none") {
  auto data = simulate(1, {{"", 0}, {"cpu@100%", 0.5}}, 3);
  for (auto& row : data.rows) {
    if (row.arm == "vm") { row.throughput = 10; }
  }
  // Slow steps of 0.2 s, then five of 0.1 s: back after as many times 0.2 s.
  const auto add_round = [&](std::int64_t pair, int slow, bool comes_back) {
    double end = 0;
    for (int k = 0; k < slow + 5; ++k) {
      const double seconds = k < slow || !comes_back ? 0.2 : 0.1;
      data.later_steps.push_back({0, "trainer", "vm+cpu@100%", pair, end += seconds, seconds, 1});
    }
  };
  add_round(1, 1, true);
  add_round(2, 3, true);
  const auto two = *cell(matrix_of(data), "cpu@100%").recovery;
  CHECK(two.rounds == 2);
  CHECK(two.seconds == Approx(0.4));
  CHECK(two.longest == Approx(0.6));
  add_round(3, 0, false);
  const auto three = *cell(matrix_of(data), "cpu@100%").recovery;
  CHECK((three.rounds == 3 && three.missed == 1));
  CHECK(three.seconds == Approx(0.6));  // the unseen one is longer than both
  CHECK_FALSE(three.longest);
  CHECK(three.looked_seconds == Approx(0.7));
  CHECK_FALSE(cell(matrix_of(data), "alone").recovery);
  const auto table = isolation_table(isolation_matrices(data));
  CHECK_THAT(render(table, Format::table), Contains("back in") && Contains("0.6 s"));
  CHECK(nlohmann::json::parse(render(table, Format::json)).at(1)["recovery_missed"] == 1);
}

TEST_CASE("the table fits a terminal of eighty columns, and programs get every figure") {
  auto data = simulate(
      2, {{"", 0}, {"idle", 0.01}, {"allreduce@25%", 0.12}, {"allreduce@100%", 0.5}, {"membw@100%", 0.03}},
      5);
  for (const auto& row : data.rows) {
    if (row.pair == 1) { data.step_times.push_back({0, "trainer", row.arm, 0, {1, 1.1, 1.2}}); }
  }
  const auto table = isolation_table(isolation_matrices(data));
  const auto text = render(table, Format::table);
  INFO(text);
  CHECK_THAT(text, Contains("allreduce@100%") && Contains("disturbed 5") && Contains("isolated "));
  CHECK_THAT(text, Contains("emulated") && Contains("seed 7"));
  for (const auto& line : split(text.substr(0, text.find("\n\n")), '\n')) { CHECK(line.size() <= 80); }
  const auto json = nlohmann::json::parse(render(table, Format::json));
  CHECK(json.size() == 5);
  CHECK(json.at(2)["aggressor"] == "allreduce");
  CHECK(json.at(2)["level"] == 0.25);
  CHECK(json.at(3)["verdict"] == "disturbed");
  CHECK(json.at(3)["loss_low"].get<double>() < json.at(3)["loss"].get<double>());
}

TEST_CASE("a dose needs two measured levels, and comes from rounds that have them all") {
  auto data = simulate(5, {{"", 0}, {"idle", 0}, {"cpu@25%", 0.03}, {"cpu@100%", 0.2}}, 10);
  int full = 0;
  for (auto& row : data.rows) {
    if (row.arm.ends_with("+cpu@100%") && ++full > 2) { row.valid = false; }
  }
  const auto partly = matrix_of(data);
  REQUIRE(partly.doses.size() == 1);
  CHECK(partly.doses[0].rounds == 2);
  CHECK(partly.doses[0].loss_at_full_level == Approx(0.2).margin(0.03));
  for (auto& row : data.rows) {
    if (row.arm.ends_with("+cpu@100%")) { row.valid = false; }
  }
  CHECK(matrix_of(data).doses.empty());
  auto no_idle = simulate(5, {{"", 0}, {"idle", 0}, {"cpu@50%", 0.1}, {"cpu@100%", 0.2}}, 5);
  for (auto& row : no_idle.rows) { row.valid = !row.arm.ends_with("+idle"); }
  CHECK(matrix_of(no_idle).doses.size() == 1);  // against the victim alone
}

TEST_CASE("an interrupted trial has not failed") {
  auto data = simulate(1, {{"", 0}, {"cpu@100%", 0.4}}, 3);
  data.rows.back().status = Status::interrupted;
  data.rows.back().throughput.reset();
  std::int64_t failed = 0;
  for (const auto& one : matrix_of(data).cells) { failed += one.failed; }
  CHECK(failed == 0);
}
