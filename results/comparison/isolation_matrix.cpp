#include "results/comparison/isolation_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "common/contains.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/data_index.h"

namespace virtrain::results {
namespace {

constexpr double default_margin = 0.05;

Isolated isolated_by(Verdict verdict) {
  switch (verdict) {
    case Verdict::equivalent:
      return Isolated::isolated;
    case Verdict::worse:
      return Isolated::disturbed;
    case Verdict::better:
      return Isolated::faster;
    case Verdict::not_comparable:
      return Isolated::not_comparable;
    case Verdict::non_inferior:
    case Verdict::inconclusive:
      break;
  }
  return Isolated::inconclusive;
}

/// Empty: it idles, or nobody is there.
std::string aggressor_of(const ArmKey& key) {
  return key.neighbour == idle_neighbour ? "" : key.neighbour;
}

/// Builds the matrix of one victim in one arm.
class MatrixBuilder {
 public:
  MatrixBuilder(const DataIndex& index, const CaseRows& victim, const std::string& arm,
                const Settings& settings)
      : index_(index), victim_(victim) {
    matrix_.case_name = victim.name;
    matrix_.unit = victim.unit;
    matrix_.arm = arm;
    matrix_.settings = settings;
    for (const auto* row : victim.rows) {
      if (victim_arm(*row) != arm) { continue; }
      rows_[row->arm].push_back(row);
      if (!contains(arms_, row->arm)) { arms_.push_back(row->arm); }
      if (usable(*row)) { matrix_.virtualization.insert(row->virtualization); }
      if (!matrix_.seed) { matrix_.seed = experiment_of(index.data(), *row).isolation_seed; }
    }
    std::ranges::sort(arms_, {}, [this](const std::string& one) { return rank_of(one); });
  }

  IsolationMatrix build() {
    for (const auto& arm : arms_) { matrix_.cells.push_back(cell_of(arm)); }
    correct_for_all_tests();
    add_doses();
    return std::move(matrix_);
  }

 private:
  /// Alone, idle, then by aggressor and level.
  std::tuple<int, std::string, double> rank_of(const std::string& arm) const {
    const auto& key = key_of(arm);
    const int group = !key.is_beside() ? 0 : key.neighbour == idle_neighbour ? 1 : 2;
    return {group, aggressor_of(key), key.level.value_or(0)};
  }

  /// Key of one of `arms_`: all of its trials have the same.
  const ArmKey& key_of(const std::string& arm) const { return rows_.at(arm).front()->arm_key; }

  std::string alone_arm() const { return matrix_.arm; }
  std::string idle_arm() const { return printed(ArmKey{matrix_.arm, idle_neighbour, {}}); }

  NeighbourCell cell_of(const std::string& arm) const {
    const auto& key = key_of(arm);
    NeighbourCell cell;
    cell.neighbour = key.is_beside() ? printed_neighbour(key) : "alone";
    cell.aggressor = aggressor_of(key);
    cell.level = key.level;
    std::vector<double> runs;
    for (const auto* row : rows_.at(arm)) {
      cell.failed += row->status == Status::failed ? 1 : 0;
      cell.invalid += row->status == Status::finished && !row->valid ? 1 : 0;
      if (usable(*row)) { runs.push_back(*row->throughput); }
    }
    cell.trials = std::ssize(runs);
    if (!runs.empty()) { cell.throughput = mean(runs); }
    if (arm != alone_arm()) { cell.against_alone = disturbance(alone_arm(), arm); }
    if (arm != alone_arm() && arm != idle_arm()) { cell.against_idle = disturbance(idle_arm(), arm); }
    if (arm != alone_arm()) { cell.tail = tail(arm); }
    add_aggressor(arm, cell);
    cell.recovery = recovery(arm);
    return cell;
  }

  std::optional<Disturbance> disturbance(const std::string& baseline, const std::string& candidate) const {
    if (!rows_.contains(baseline)) { return std::nullopt; }
    const auto found =
        compare_rounds(rounds_of(rows_.at(baseline)), rounds_of(rows_.at(candidate)), matrix_.settings);
    if (!found) { return std::nullopt; }
    Disturbance result;
    result.comparison = *found;
    const auto& test = result.comparison.test;
    result.verdict = isolated_by(test.verdict);
    result.reason = test.reason;
    result.loss = 1 - test.ratio;
    if (test.ci_tost) { result.loss_ci = Interval{1 - test.ci_tost->high, 1 - test.ci_tost->low}; }
    if (auto words = what_differs(baseline, candidate); !words.empty()) {
      result.verdict = Isolated::not_comparable;
      result.reason = std::move(words);
    }
    return result;
  }

  /// Among many neighbours that do nothing some would be called disturbing by chance.
  void correct_for_all_tests() {
    std::vector<Disturbance*> tests;
    std::vector<double> worse, better;
    for (auto& cell : matrix_.cells) {
      for (auto* one : {&cell.against_alone, &cell.against_idle}) {
        if (!*one || !(*one)->comparison.test.p_worse || !(*one)->comparison.test.p_upper) { continue; }
        tests.push_back(&**one);
        worse.push_back(*(*one)->comparison.test.p_worse);
        better.push_back(1 - *(*one)->comparison.test.p_upper);
      }
    }
    const auto worse_of_all = holm(worse), better_of_all = holm(better);
    for (std::size_t i = 0; i < tests.size(); ++i) {
      auto& one = *tests[i];
      one.p_worse_holm = worse_of_all[i];
      const bool by_chance =
          (one.verdict == Isolated::disturbed && worse_of_all[i] >= matrix_.settings.alpha) ||
          (one.verdict == Isolated::faster && better_of_all[i] >= matrix_.settings.alpha);
      if (!by_chance) { continue; }
      one.verdict = Isolated::inconclusive;
      one.reason = "not_after_holm";
    }
  }

  std::set<std::string> virtualization(const std::string& arm) const {
    std::set<std::string> kinds;
    for (const auto* row : rows_.at(arm)) {
      if (usable(*row)) { kinds.insert(row->virtualization); }
    }
    return kinds;
  }

  /// A sentence for what was virtual, and for each fact that must be equal; empty: nothing does. That all of
  /// them were emulated alike is no difference: tenants contend for the host all the same.
  std::string what_differs(const std::string& baseline, const std::string& candidate) const {
    auto found = differences(index_.facts_of(pairs_of(rows_.at(baseline), rows_.at(candidate))), true);
    const auto ours = virtualization(baseline), theirs = virtualization(candidate);
    if (ours != theirs) {
      found.insert(found.begin(), {"virtualization", FactRule::must_be_equal, ours, theirs,
                                   "victims of two kinds differ by more than their neighbours"});
    }
    return join(what_forbids(found, baseline, candidate), "; ");
  }

  /// Whether it is of the victim's trials in the arm.
  template <typename Row>
  bool is_of(const Row& row, const std::string& arm) const {
    return row.case_name == victim_.name && row.unit == victim_.unit && row.arm == arm;
  }

  std::vector<double> steps(const std::string& arm) const {
    std::vector<double> seconds;
    for (const auto& one : index_.data().step_times) {
      if (!is_of(one, arm) || one.tenant_index != 0) { continue; }
      seconds.insert(seconds.end(), one.seconds.begin(), one.seconds.end());
    }
    return seconds;
  }

  std::optional<TailInflation> tail(const std::string& arm) const {
    const auto alone = steps(alone_arm());
    const auto beside = steps(arm);
    return alone.empty() || beside.empty() ? std::nullopt : std::optional(tail_inflation(alone, beside));
  }

  void add_aggressor(const std::string& arm, NeighbourCell& cell) const {
    double slowest = 0, busy = 0;
    int stressors = 0;
    for (const auto& one : index_.data().neighbours) {
      if (!is_of(one, arm)) { continue; }
      busy += one.busy.value_or(0);
      stressors += one.busy ? 1 : 0;
      if (one.rate.value_or(0) > 0 && one.rate_before.value_or(0) > 0) {
        slowest = std::max(slowest, *one.rate_before / *one.rate);
      }
    }
    if (stressors > 0) { cell.busy = busy / stressors; }
    if (slowest <= 0 || !cell.against_alone) { return; }
    cell.fairness = isolation_of({1 / (1 - cell.against_alone->loss), slowest}).jain_index;
  }

  std::optional<Recovery> recovery(const std::string& arm) const {
    if (arm == alone_arm() || !rows_.contains(alone_arm())) { return std::nullopt; }
    const auto alone = rounds_of(rows_.at(alone_arm()));
    std::map<PairKey, std::vector<LaterStep>> rounds;
    for (const auto& one : index_.data().later_steps) {
      if (!is_of(one, arm)) { continue; }
      rounds[{one.experiment, one.pair}].push_back({one.end, one.seconds, one.work});
    }
    Recovery found;
    std::vector<double> seconds;
    for (const auto& [round, steps] : rounds) {
      const auto before = alone.find(round);
      if (before == alone.end() || !before->second) { continue; }
      const double looked = std::max(0.0, steps.back().end);
      found.looked_seconds = found.rounds == 0 ? looked : std::min(found.looked_seconds, looked);
      ++found.rounds;
      const auto took = recovery_seconds(steps, *before->second, matrix_.settings.margin);
      found.missed += took ? 0 : 1;
      // One that was not seen took longer than all that were, for the median.
      seconds.push_back(took.value_or(std::numeric_limits<double>::infinity()));
    }
    if (found.rounds == 0) { return std::nullopt; }
    std::sort(seconds.begin(), seconds.end());
    const auto middle = (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
    if (std::isfinite(middle)) { found.seconds = middle; }
    if (found.missed == 0) { found.longest = seconds.back(); }
    return found;
  }

  void add_doses() {
    const auto measured = [&](const std::string& arm) {
      return rows_.contains(arm) && std::any_of(rows_.at(arm).begin(), rows_.at(arm).end(),
                                                [](const auto* row) { return usable(*row); });
    };
    const auto baseline = measured(idle_arm()) ? idle_arm() : alone_arm();
    if (!measured(baseline)) { return; }
    std::vector<std::string> aggressors;
    std::map<std::string, std::set<double>> levels;
    for (const auto& cell : matrix_.cells) {
      if (cell.aggressor.empty() || !cell.level || cell.trials == 0) { continue; }
      if (!levels.contains(cell.aggressor)) { aggressors.push_back(cell.aggressor); }
      levels[cell.aggressor].insert(*cell.level);
    }
    const auto before = rounds_of(rows_.at(baseline));
    for (const auto& aggressor : aggressors) {
      if (levels[aggressor].size() > 1) { add_dose(aggressor, levels[aggressor].size(), before); }
    }
  }

  /// Uses rounds with all `levels` that were measured: in one that lacks some, a line through the others
  /// would stand for a level that nobody saw.
  void add_dose(const std::string& aggressor, std::size_t levels, const Rounds& before) {
    struct Sums {
      double products = 0, squares = 0;
      std::size_t levels = 0;
      double highest = 0, at_highest = 0;  ///< level and logarithm of the ratio
    };
    std::map<PairKey, Sums> sums;
    for (const auto& arm : arms_) {
      const auto& key = key_of(arm);
      if (aggressor_of(key) != aggressor) { continue; }
      const double level = key.level.value_or(0);
      for (const auto& [round, value] : rounds_of(rows_.at(arm))) {
        const auto found = before.find(round);
        if (!value || found == before.end() || !found->second) { continue; }
        auto& sum = sums[round];
        const double log_ratio = std::log(*value / *found->second);
        sum.products += level * log_ratio;
        sum.squares += level * level;
        ++sum.levels;
        if (level > sum.highest) { std::tie(sum.highest, sum.at_highest) = std::pair(level, log_ratio); }
      }
    }
    std::erase_if(sums, [&](const auto& round) { return round.second.levels < levels; });
    if (sums.empty()) { return; }
    std::vector<std::optional<double>> full, off, ones;
    for (const auto& [round, sum] : sums) {
      const double slope = sum.products / sum.squares;
      full.emplace_back(std::exp(slope));
      off.emplace_back(std::exp(sum.at_highest - slope * sum.highest));
      ones.emplace_back(1.0);
    }
    const auto test = compare_paired(ones, full, matrix_.settings).test;
    const auto lack_of_fit = compare_paired(ones, off, matrix_.settings).test.ci;
    DoseResponse dose{aggressor, std::ssize(full), 1 - test.ratio, {}};
    dose.on_a_line = !lack_of_fit || (lack_of_fit->low <= 1 && 1 <= lack_of_fit->high);
    if (test.ci && dose.on_a_line) { dose.ci = Interval{1 - test.ci->high, 1 - test.ci->low}; }
    matrix_.doses.push_back(std::move(dose));
  }

  const DataIndex& index_;
  const CaseRows& victim_;
  std::map<std::string, Rows> rows_;  ///< by whole arm
  std::vector<std::string> arms_;
  IsolationMatrix matrix_;
};

double margin_of(const ComparisonData& data, std::optional<double> asked) {
  if (asked) { return *asked; }
  for (auto one = data.experiments.rbegin(); one != data.experiments.rend(); ++one) {
    const auto margin = one->isolation_margin.value_or(0);
    if (margin > 0 && margin < 1) { return margin; }
  }
  return default_margin;
}

}  // namespace

Rounds rounds_of(const Rows& rows) {
  Rounds rounds;
  for (const auto* row : rows) {
    if (!row->pair) { continue; }
    auto& value = rounds[{row->experiment, *row->pair}];
    if (usable(*row)) { value = row->throughput; }
  }
  return rounds;
}

std::optional<PairedComparison> compare_rounds(const Rounds& before, const Rounds& after,
                                               const Settings& settings) {
  std::vector<std::optional<double>> ours, theirs;
  bool any = false;
  for (const auto& [round, value] : before) {
    const auto found = after.find(round);
    ours.push_back(value);
    theirs.push_back(found == after.end() ? std::nullopt : found->second);
    any = any || (ours.back() && theirs.back());
  }
  return any ? std::optional(compare_paired(ours, theirs, settings)) : std::nullopt;
}

std::string whole_percents(double share) {
  const auto text = fmt::format("{:.0f}", share * 100);
  return text == "-0" ? "0" : text;
}

std::string to_text(const Disturbance& disturbance, bool with_verdict) {
  auto text = whole_percents(disturbance.loss) + " %";
  if (const auto& ci = disturbance.loss_ci) {
    text += fmt::format(" ({} to {})", whole_percents(ci->low), whole_percents(ci->high));
  }
  return with_verdict ? to_string(disturbance.verdict) + (" " + text) : text;
}

const NeighbourCell* worst_cell(const IsolationMatrix& matrix) {
  const NeighbourCell* worst = nullptr;
  for (const auto& cell : matrix.cells) {
    if (!cell.against_alone) { continue; }
    if (worst == nullptr || cell.against_alone->loss > worst->against_alone->loss) { worst = &cell; }
  }
  return worst;
}

std::string to_text(const Recovery& recovery) {
  return recovery.seconds ? fmt::format("{:.1f} s", *recovery.seconds)
                          : fmt::format("not in {} s", figure_words(recovery.looked_seconds));
}

std::vector<IsolationMatrix> isolation_matrices(const ComparisonData& data, std::optional<double> margin,
                                                double alpha) {
  const Settings settings{margin_of(data, margin), alpha};
  require_settings(settings);
  const DataIndex index(data);
  std::vector<IsolationMatrix> matrices;
  for (const auto& victim : index.cases()) {
    std::vector<std::string> arms;
    std::set<std::string> beside;
    for (const auto* row : victim.rows) {
      if (row->arm_key.is_beside()) { beside.insert(victim_arm(*row)); }
      add_once(arms, victim_arm(*row));
    }
    for (const auto& arm : arms) {
      if (beside.contains(arm)) { matrices.push_back(MatrixBuilder(index, victim, arm, settings).build()); }
    }
  }
  return matrices;
}

}  // namespace virtrain::results
