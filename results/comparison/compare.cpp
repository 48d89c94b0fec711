#include "results/comparison/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "common/contains.h"
#include "common/error.h"
#include "common/model/trial_key.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/data_index.h"
#include "results/comparison/guard/comparability.h"
#include "results/comparison/verdict.h"
#include "results/statistics/sequential.h"
#include "results/store/comparison_data.h"

namespace virtrain::results {
namespace {

/// The levels of looks at pairs, which all cases of a comparison share.
class LookLevels {
 public:
  LookLevels(const Looks& looks, const Settings& settings);

  /// Settings of the look after so many pairs: levels of the tests, and of the interval that is reported.
  Settings settings_after(std::int64_t pairs) const;

 private:
  Settings settings_;
  SequentialTest tests_, reporting_;
};

Settings at_reporting_tail(Settings settings) {
  settings.alpha = settings.reporting_tail;
  return settings;
}

LookLevels::LookLevels(const Looks& looks, const Settings& settings)
    : settings_(settings), tests_(looks, settings), reporting_(looks, at_reporting_tail(settings)) {}

Settings LookLevels::settings_after(std::int64_t pairs) const {
  Settings now = settings_;
  now.alpha = tests_.level(pairs);
  now.reporting_tail = reporting_.level(pairs);
  return now;
}

/// When the pairs of an experiment were looked at as it ran; nothing where they were not. A plan that was
/// imported may say anything.
std::optional<Looks> looks_of(const ComparisonExperiment& experiment) {
  if (experiment.looks.empty()) { return std::nullopt; }
  const auto said = parse_json_or_null(experiment.looks);
  const auto number = [&](const char* key) -> std::int64_t {
    return said.is_object() && said.contains(key) && said[key].is_number_integer()
               ? said[key].get<std::int64_t>()
               : 0;
  };
  const Looks looks{number("at_most"), number("every"), number("first")};
  const bool possible =
      looks.first >= 1 && looks.every >= 1 && looks.at_most >= looks.first && looks.at_most <= most_looks;
  return possible ? std::optional(looks) : std::nullopt;
}

constexpr double seconds_per_hour = 3600;

bool has_pair_numbers(const Side& side) {
  return std::ranges::any_of(side.rows, [](const auto* row) { return row->pair.has_value(); });
}

bool is_beside(const Side& side) {
  return !side.rows.empty() && side.rows.front()->arm_key.is_beside();
}

std::string victim_arm_of(const Side& side) {
  return side.rows.empty() ? side.selector.arm : victim_arm(*side.rows.front());
}

bool any_complete(const RowPairs& pairs) {
  return std::ranges::any_of(pairs, [](const auto& pair) { return pair.second.is_complete(); });
}

class Comparer {
 public:
  Comparer(const DataIndex& index, const CompareRequest& request)
      : index_(index),
        request_(request),
        baseline_(selector_of(request.baseline)),
        candidate_(selector_of(request.candidate)),
        has_other_units_(
            std::ranges::any_of(index.cases(), [](const CaseRows& one) { return one.unit != images_unit; })),
        by_arm_(!baseline_.beyond_arms() && !candidate_.beyond_arms()),
        arms_(arm_records(index.data())) {
    if (by_arm_) {
      require_arm("baseline", baseline_.arm);
      require_arm("candidate", candidate_.arm);
      return;
    }
    if (baseline_.arm.empty()) { baseline_.arm = candidate_.arm; }
    if (candidate_.arm.empty()) { candidate_.arm = baseline_.arm; }
  }

  std::vector<CaseComparison> run() const {
    std::vector<CaseComparison> results;
    for (const auto& one : index_.cases()) {
      if (!request_.case_name.empty() && request_.case_name != one.name) { continue; }
      if (by_arm_) {
        compare_arms(one, results);
        continue;
      }
      if (!baseline_.arm.empty()) {
        results.push_back(compare_case(one, baseline_, candidate_, ""));
        continue;
      }
      for (const auto& arm : arms_of(one)) {
        auto [ours, theirs] = std::pair(baseline_, candidate_);
        ours.arm = theirs.arm = arm;
        results.push_back(compare_case(one, ours, theirs, arm));
      }
    }
    note_gpus_of_one_node(results);
    for (const bool of_virtualization : {true, false}) { correct_for_family(results, of_virtualization); }
    judge_sweeps(results, request_.settings);
    return results;
  }

 private:
  /// Speedups are over nodes. Of data that varies the GPUs of one node alone there are none, which is said.
  void note_gpus_of_one_node(std::vector<CaseComparison>& results) const {
    std::set<std::int64_t> nodes, gpus;
    for (const auto& row : index_.data().rows) {
      nodes.insert(row.nodes);
      gpus.insert(row.gpus_per_node);
    }
    if (results.empty() || nodes != std::set<std::int64_t>{1} || gpus.size() < 2) { return; }
    results.front().notes.push_back(fmt::format(
        "no speedup: it is over nodes (cases named FAMILY/NODES), and these cases differ in the GPUs "
        "of one node; compare their {}",
        results.front().throughput_unit));
  }

  /// An arm that somebody asked for is in the data, or at least in a plan.
  void require_arm(const char* side, const std::string& name) const {
    if (name.empty() || name == arm_bare_metal || name == arm_vm || arms_.contains(name)) { return; }
    std::vector<std::string> known;
    for (const auto& row : index_.data().rows) { add_once(known, row.arm); }
    if (contains(known, name)) { return; }
    auto near = nearest_word(name, known);
    for (const std::string kind : {"label", "experiment", "host", "scenario", "date", "arm"}) {
      if (name.starts_with(kind + "=")) { near = kind + ":" + name.substr(kind.size() + 1); }
    }
    throw Error("compare", ErrorCode::not_found,
                fmt::format("{}: no trial ran in an arm {} (allowed: {}{})", side, printable(name),
                            join(known, ", "), near ? "; did you mean " + printable(*near) + "?" : ""));
  }

  /// The pairs of arms that were asked for, or that make sense for the case.
  std::vector<ArmPair> pairs_of_arms(const CaseRows& one) const {
    if (baseline_.arm.empty() && candidate_.arm.empty()) { return default_pairs(arms_of(one), arms_); }
    if (candidate_.arm.empty()) { return {{baseline_.arm, arm_vm}}; }
    if (!baseline_.arm.empty()) { return {{baseline_.arm, candidate_.arm}}; }
    const auto ran = arms_of(one);
    const bool on_metal = std::ranges::find(ran, arm_bare_metal) != ran.end();
    for (const auto& [baseline, candidate] : default_pairs(ran, arms_)) {
      if (!on_metal && candidate == candidate_.arm) { return {{baseline, candidate}}; }
    }
    return {{arm_bare_metal, candidate_.arm}};
  }

  void compare_arms(const CaseRows& one, std::vector<CaseComparison>& results) const {
    bool first = true;
    for (const auto& [baseline, candidate] : pairs_of_arms(one)) {
      Selector ours;
      Selector theirs;
      ours.arm = ours.text = baseline;
      theirs.arm = theirs.text = candidate;
      results.push_back(compare_case(one, ours, theirs, ""));
      results.back().first_of_case = first;
      first = false;
    }
  }

  /// Arms in which a side has trials, in the order they were first run.
  std::vector<std::string> arms_of(const CaseRows& one) const {
    std::vector<std::string> arms;
    for (const auto* row : one.rows) {
      const auto& where = experiment_of(index_.data(), *row);
      if (!selects(baseline_, where, *row) && !selects(candidate_, where, *row)) { continue; }
      add_once(arms, row->arm);
    }
    return arms;
  }

  Side side_of(const CaseRows& one, const std::string& name, const Selector& selector) const {
    return {name, selector, false, rows_of(index_.data(), one.rows, selector)};
  }

  CaseComparison compare_case(const CaseRows& one, const Selector& ours, const Selector& theirs,
                              const std::string& arm) const {
    Side baseline = side_of(one, by_arm_ ? ours.arm : ours.text, ours);
    Side candidate = side_of(one, by_arm_ ? theirs.arm : theirs.text, theirs);
    refuse_overlap(one, baseline, candidate);
    CaseComparison result;
    result.case_name = one.name;
    result.key = one.key;
    result.throughput_unit = one.unit;
    result.is_beside = is_beside(candidate);
    result.baseline = baseline.name;
    result.candidate = candidate.name;
    result.arm = arm;
    result.settings = request_.settings;
    const auto pairs = pairs_of(baseline.rows, candidate.rows);
    // Trials of two experiments or dates have pair numbers that mean nothing to each other.
    result.paired = by_arm_ ? has_pair_numbers(baseline) || has_pair_numbers(candidate) : any_complete(pairs);
    baseline.pooled = candidate.pooled = !by_arm_ && !result.paired;
    for (const auto* side : {&baseline, &candidate}) {
      result.invalid_left_out +=
          std::ranges::count_if(side->rows, [](const auto* row) { return !row->valid; });
    }
    if (result.paired) {
      compare_pairs(baseline, candidate, pairs, result);
    } else {
      compare_runs(baseline, candidate, result);
    }
    summarise_arms(one, baseline, candidate, result);
    judge_comparability(baseline, candidate, pairs, result);
    add_flags(result, !request_.predict.empty());
    if (!result.test && has_other_units_) { note_other_unit(one, result); }
    if (request_.explain && result.test) {
      const auto [ours, theirs] = index_.evidence(one, baseline, candidate);
      result.explanation = explain(result.test->ratio, ours, theirs);
    }
    return result;
  }

  /// Why a side has no data here: it was measured in something else.
  void note_other_unit(const CaseRows& one, CaseComparison& result) const {
    for (const auto& other : index_.cases()) {
      if (other.name != one.name || other.unit == one.unit) { continue; }
      std::vector<std::string> arms;
      for (const auto* row : other.rows) {
        if (usable(*row)) { add_once(arms, row->arm); }
      }
      if (arms.empty()) { continue; }
      result.notes.push_back(fmt::format(
          "no ratio: {} {} measured in {}, and this is in {} (units are not compared)", join(arms, ", "),
          arms.size() == 1 ? "was" : "were", printable(other.unit), printable(one.unit)));
    }
  }

  void refuse_overlap(const CaseRows& one, const Side& baseline, const Side& candidate) const {
    const bool both = std::ranges::any_of(baseline.rows, [&](const auto* row) {
      return selects(candidate.selector, experiment_of(index_.data(), *row), *row);
    });
    if (!both) { return; }
    throw Error("compare", ErrorCode::usage,
                fmt::format("trials of {} belong to both sides, {} and {} (say more about one of them: "
                            "label:, experiment:, host:, date: or arm:)",
                            one.name, baseline.name, candidate.name));
  }

  void compare_pairs(const Side& baseline, const Side& candidate, const RowPairs& pairs,
                     CaseComparison& result) const {
    result.unit = Unit::pair;
    for (const auto* side : {&baseline, &candidate}) {
      result.unpaired_left_out +=
          std::ranges::count_if(side->rows, [](const auto* row) { return !row->pair && usable(*row); });
    }
    std::vector<std::optional<double>> ours;
    std::vector<std::optional<double>> theirs;
    std::int64_t complete = 0;
    for (const auto& [key, pair] : pairs) {
      ours.push_back(pair.baseline ? pair.baseline->throughput : std::nullopt);
      theirs.push_back(pair.candidate ? pair.candidate->throughput : std::nullopt);
      complete += pair.is_complete() ? 1 : 0;
    }
    result.n = complete;
    result.dropped_pairs = std::ssize(ours) - complete;
    if (complete == 0) {
      const bool both_ran = !runs_of(baseline.rows, false).empty() && !runs_of(candidate.rows, false).empty();
      result.reason = both_ran ? "too_few_pairs" : "no_data";
      return;
    }
    std::set<std::int64_t> experiments;
    for (const auto* row : baseline.rows) {
      if (!row->pair || !experiments.insert(row->experiment).second) { continue; }
      if (const auto looks = looks_of(experiment_of(index_.data(), *row))) { result.looks = looks; }
    }
    const bool pooled = experiments.size() > 1;
    if (result.looks && !pooled) { result.settings = levels_of(*result.looks).settings_after(complete); }
    const auto paired = compare_paired(ours, theirs, result.settings);
    result.test = paired.test;
    result.further_pairs = paired.further_pairs;
    result.lag1 = paired.lag1;
    result.pairs_follow_each_other = paired.follow_each_other;
    if (!result.looks) { return; }
    if (result.further_pairs.value_or(0) > 0) { result.further_pairs.reset(); }  // none can be added to it
    if (!pooled) { return; }
    // Each stopped when it had the verdict it was looking for, so nothing from all of them has a level.
    result.looks.reset();
    result.further_pairs.reset();
    RatioTest ratio_only;
    ratio_only.mean_log = result.test->mean_log;
    ratio_only.ratio = result.test->ratio;
    ratio_only.reason = "pooled_looks";
    result.test = ratio_only;
  }

  /// The levels take a while, and cases and experiments of one scenario share them.
  const LookLevels& levels_of(const Looks& looks) const {
    const auto key = std::tuple(looks.at_most, looks.every, looks.first);
    return levels_.try_emplace(key, looks, request_.settings).first->second;
  }

  void compare_runs(const Side& baseline, const Side& candidate, CaseComparison& result) const {
    const auto ours = runs_of(baseline.rows, baseline.pooled);
    const auto theirs = runs_of(candidate.rows, candidate.pooled);
    result.n_baseline = std::ssize(ours);
    result.n_candidate = std::ssize(theirs);
    if (ours.empty() || theirs.empty()) {
      result.reason = "no_data";
      return;
    }
    const auto units = units_of(index_.data(), ours, theirs);
    const auto unpaired = compare_unpaired(units.baseline, units.candidate, request_.settings);
    result.test = unpaired.test;
    result.welch = unpaired.welch;
    result.fieller = unpaired.fieller;
    result.ratio_of_means = mean(units.candidate) / mean(units.baseline);
    if (!units.sessions) { return; }
    result.unit = Unit::boot_session;
    result.sessions_baseline = std::ssize(units.baseline);
    result.sessions_candidate = std::ssize(units.candidate);
    if (!result.test->reason.empty()) { result.test->reason = "too_few_sessions"; }
  }

  /// All arms of the case where arms are compared, else the two sides.
  void summarise_arms(const CaseRows& one, const Side& baseline, const Side& candidate,
                      CaseComparison& result) const {
    if (!by_arm_) {
      result.arms = {summarise(one, baseline), summarise(one, candidate)};
      return;
    }
    std::vector<std::string> names;
    for (const auto* row : one.rows) { add_once(names, row->arm); }
    for (const auto& name : names) {
      Selector selector;
      selector.arm = name;
      result.arms.push_back(summarise(one, side_of(one, name, selector)));
    }
  }

  ArmSummary summarise(const CaseRows& one, const Side& side) const {
    const auto runs = runs_of(side.rows, side.pooled);
    ArmSummary arm;
    arm.arm = side.name;
    arm.runs = std::ssize(runs);
    arm.nodes = runs.empty() ? one.rows.front()->nodes : runs.front()->nodes;
    for (const auto* row : runs) {
      arm.virtualization.insert(row->virtualization);
      arm.oversubscribed = arm.oversubscribed || row->oversubscribed;
    }
    if (runs.empty()) { return arm; }
    arm.throughputs = throughputs(runs);
    arm.boots = boots_of(index_.data(), runs);
    arm.throughput = mean(arm.throughputs);
    arm.unit = one.unit;
    if (sweeps_power(one.key)) {
      const auto numbers = index_.evidence(one, side).numbers;
      const auto number = [&](const char* name) {
        const auto found = numbers.find(name);
        return found != numbers.end() ? std::optional(found->second) : std::nullopt;
      };
      arm.images_per_joule = number("mean.gpu_images_per_joule");
      arm.cpu_images_per_joule = number("mean.cpu_images_per_joule");
    }
    if (const auto record = arms_.find(side.selector.arm); record != arms_.end() && record->second.price) {
      const auto& price = *record->second.price;
      arm.work_per_currency_unit =
          *arm.throughput * seconds_per_hour / (price.amount * static_cast<double>(arm.nodes));
      arm.currency = price.currency;
    }
    arm.tenants = index_.tenants(one.name, one.unit, side.selector);
    arm.alone = index_.tenants_alone(arm.tenants, side.selector);
    if (one.key.scale != arm.nodes) { return arm; }
    const auto name_of_one = printed(resized(one.key, 1));
    arm.published = index_.published(one, name_of_one, arm.nodes, side);
    const auto one_node = runs_of(index_.rows(name_of_one, one.unit, side.selector), side.pooled);
    if (one_node.empty()) { return arm; }
    arm.scaling = weak_scaling(throughputs(of_shared_experiments(one_node, runs)),
                               throughputs(of_shared_experiments(runs, one_node)), arm.nodes);
    if (!request_.predict.empty()) { arm.prediction = prediction_of(resized(one.key, {}), one.unit, side); }
    return arm;
  }

  /// The same for all sizes of a weak scaling.
  const Prediction& prediction_of(const CaseKey& family, const std::string& unit, const Side& side) const {
    const auto key = std::tuple(printed(family), unit, side.selector.text, side.selector.arm, side.pooled);
    const auto known = predictions_.find(key);
    if (known != predictions_.end()) { return known->second; }
    const auto evidence = index_.scaling(family, unit, side);
    std::set<std::int64_t> sizes;
    for (const auto& run : evidence.runs) { sizes.insert(run.nodes); }
    Prediction prediction;
    if (sizes.size() <= most_predicted_sizes) {
      prediction = predict(evidence, request_.predict);
    } else {
      prediction.too_many_sizes = sizes.size();
    }
    return predictions_.emplace(key, std::move(prediction)).first->second;
  }

  /// The guard: emulation, or facts that differ and must not, forbid a verdict.
  void judge_comparability(const Side& baseline, const Side& candidate, const RowPairs& pairs,
                           CaseComparison& result) const {
    bool is_emulated = false;
    std::set<std::string> kinds;
    for (const auto* side : {&baseline, &candidate}) {
      for (const auto* row : side->rows) {
        if (!usable(*row)) { continue; }
        kinds.insert(row->virtualization);
        is_emulated = is_emulated || is_emulation(row->virtualization);
        // An attached machine may have a hypervisor that has no word here.
        const bool is_unknown = row->virtualization.empty() && !is_attached(arms_, row->arm);
        result.published = result.published || is_unknown;
      }
    }
    const auto& [ours, theirs] = std::pair(baseline.selector.arm, candidate.selector.arm);
    // Neighbours of a kind contend for the host, whoever emulates their processors.
    if (ours != theirs && victim_arm_of(baseline) == victim_arm_of(candidate) && kinds.size() == 1) {
      is_emulated = false;
    }
    const auto facts = result.paired ? index_.facts_of(pairs)
                                     : index_.facts_of(runs_of(baseline.rows, baseline.pooled),
                                                       runs_of(candidate.rows, candidate.pooled));
    for (const auto& [sides, count] : facts) {
      for (const auto* side : {sides.first, sides.second}) {
        if (side == nullptr) { continue; }
        result.told_from_inside = result.told_from_inside || side->contains("told_from_inside");
        const auto differ = side->find("host.hosts_differ");
        if (differ != side->end()) {
          result.hosts_differ.insert(differ->second.begin(), differ->second.end());
        }
      }
    }
    result.differences =
        differences(facts, same_base(arms_, ours, theirs), changed_keys(arms_, ours, theirs));
    result.between_machines = are_of_other_machines(arms_, ours, theirs);
    if (result.between_machines || (!by_arm_ && ours == theirs)) {
      read_as_change(result.differences, request_.changed);
    }
    if (!result.test) { return; }
    result.verdict = result.test->verdict;
    result.reason = result.test->reason;
    if (request_.by_test) { return; }
    const bool differ = std::ranges::any_of(result.differences, forbids);
    // Nobody can force a statement about virtualization out of emulation.
    result.forced = request_.force && differ && !is_emulated;
    if (!is_emulated && (!differ || result.forced)) { return; }
    result.verdict = Verdict::not_comparable;
    result.reason = is_emulated ? "emulated" : "differs";
  }

  /// Holm's correction over all that have a verdict to give: what VMs cost is one question, what variants and
  /// neighbours do to each other another.
  static void correct_for_family(std::vector<CaseComparison>& results, bool of_virtualization) {
    std::vector<double> p_values;
    std::vector<CaseComparison*> members;
    for (auto& result : results) {
      if (is_of_virtualization(result) != of_virtualization) { continue; }
      if (!result.test || !result.test->p_worse || result.verdict == Verdict::not_comparable) { continue; }
      p_values.push_back(*result.test->p_worse);
      members.push_back(&result);
    }
    const auto adjusted = holm(p_values);
    for (std::size_t i = 0; i < members.size(); ++i) { members[i]->p_worse_holm = adjusted[i]; }
  }

  const DataIndex& index_;
  const CompareRequest& request_;
  Selector baseline_;
  Selector candidate_;
  bool has_other_units_;  ///< than images/s
  bool by_arm_;           ///< the sides are arms of the selected experiments
  ArmRecords arms_;
  mutable std::map<std::tuple<std::string, std::string, std::string, std::string, bool>, Prediction>
      predictions_;
  mutable std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, LookLevels> levels_ = {};
};

}  // namespace

std::vector<CaseComparison> compare(const ComparisonData& data, const CompareRequest& request) {
  require_settings(request.settings);
  return Comparer(DataIndex(data), request).run();
}

void add_flags(CaseComparison& result, bool predicts) {
  const auto add = [&](bool holds, const std::string& word, const std::string& sentence) {
    if (!holds) { return; }
    result.flags.push_back(word);
    result.notes.push_back(sentence);
  };
  add(result.looks.has_value(), "looked_early",
      result.looks
          ? fmt::format("sequential test of at most {} pairs: after {} pairs each test has level {:.2g}, and "
                        "the intervals match that level",
                        result.looks->at_most, result.n.value_or(0), result.settings.alpha)
          : "");
  add(result.test && result.test->zero_variance, "zero_variance",
      "all runs show the same ratio: the interval is a point");
  add(result.pairs_follow_each_other, "pairs_follow_each_other",
      fmt::format(
          "neighbouring pairs resemble each other (autocorrelation {:.2f}), so the interval may be too "
          "narrow: let more time pass between pairs, or reboot",
          result.lag1.value_or(0)));
  add(result.unpaired_left_out > 0, "unpaired_left_out",
      fmt::format("{} left out, because this case has pairs",
                  counted(result.unpaired_left_out, "unpaired trial")));
  add(result.invalid_left_out > 0, "invalid_left_out",
      counted(result.invalid_left_out, "invalid trial") + " left out");
  add(result.reason == "emulated", "emulated", emulated_note);
  const auto any_arm = [&](auto&& holds) { return std::ranges::any_of(result.arms, holds); };
  add(any_arm([](const auto& arm) { return arm.virtualization.contains("kvm_nested"); }), "nested",
      "KVM ran inside another virtual machine");
  add(any_arm([](const auto& arm) { return arm.oversubscribed; }), "oversubscribed", "more ranks than cores");
  add(result.unit == Unit::boot_session, "boot_sessions",
      fmt::format("the unit is the boot session, because trials of one boot are correlated: {} and {} "
                  "sessions of {} and {} trials",
                  result.sessions_baseline.value_or(0), result.sessions_candidate.value_or(0),
                  result.n_baseline.value_or(0), result.n_candidate.value_or(0)));
  add(!result.hosts_differ.empty(), "hosts_differ",
      fmt::format(
          "the hosts of its runs are not alike: {}; both arms had the same hosts, but what the slowest "
          "of them does all wait for",
          join(std::vector<std::string>(result.hosts_differ.begin(), result.hosts_differ.end()), ", ")));
  add(result.between_machines, "between_machines",
      "the arms ran on different machines: the ratio is of these machines, and virtualization is only one of "
      "the things in which they may differ");
  add(result.told_from_inside, "told_from_inside",
      "attached machines said themselves what is virtual there; it was not seen from their hosts");
  add(result.forced, "forced",
      "the verdict was forced (--force) although properties differ that must be equal");
  std::vector<std::string> changed;
  for (const auto& difference : result.differences) {
    if (difference.rule == FactRule::part_of_the_change) {
      result.flags.push_back("changed:" + difference.field);
      changed.push_back(fmt::format("{} ({} → {})", difference.field, words_of_values(difference.baseline),
                                    words_of_values(difference.candidate)));
      continue;
    }
    if (forbids(difference)) { result.flags.push_back("differs:" + difference.field); }
    result.notes.push_back(to_sentence(difference, result.baseline, result.candidate));
  }
  if (!changed.empty()) {
    result.notes.push_back(fmt::format("also changed, and part of the figure: {}", join(changed, ", ")));
  }
  const auto unpredicted = [](const ArmSummary& arm) { return arm.runs > 0 && !arm.prediction; };
  if (predicts && any_arm(unpredicted)) {
    result.notes.emplace_back(
        "no prediction: it needs a weak scaling, cases named FAMILY/NODES, with runs of FAMILY/1 in the same "
        "arm");
  }
  if (result.published) {
    result.notes.emplace_back("compared as published data: the source does not state the virtualization");
  }
}

}  // namespace virtrain::results
