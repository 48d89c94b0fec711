#include "results/comparison/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "common/error.h"

namespace virtrain::results {
namespace {

using Rows = std::vector<const ComparisonRow*>;

/// The rows of one case, and where it stands in the plan.
struct CaseRows {
  std::string name;
  Rows rows;
};

/// A trial counts if it finished, is valid and has a throughput.
bool usable(const ComparisonRow& row) {
  return row.status == Status::finished && row.valid && row.images_per_second;
}

bool emulated(const std::string& virtualization) {
  return virtualization == "tcg" || virtualization == "kvm_on_emulated";
}

/// Position of a trial in its plan; imported trials without one stand behind, in file order.
auto plan_position(const ComparisonRow& row) {
  return std::tuple(row.experiment, row.order.value_or(std::numeric_limits<std::int64_t>::max()));
}

/// Cases in plan order, the rows of each in plan order.
std::vector<CaseRows> by_case(const ComparisonData& data) {
  Rows ordered;
  for (const auto& row : data.rows) ordered.push_back(&row);
  std::stable_sort(ordered.begin(), ordered.end(), [](const ComparisonRow* a, const ComparisonRow* b) {
    return plan_position(*a) < plan_position(*b);
  });
  std::vector<CaseRows> cases;
  std::map<std::string, std::size_t> index;
  for (const auto* row : ordered) {
    const auto [found, fresh] = index.try_emplace(row->case_name, cases.size());
    if (fresh) cases.push_back({row->case_name, {}});
    cases[found->second].rows.push_back(row);
  }
  return cases;
}

/// FAMILY of a case named FAMILY/NODES; empty for any other.
std::string scaling_family(const std::string& case_name, std::int64_t nodes) {
  const std::string ending = fmt::format("/{}", nodes);
  if (case_name.size() <= ending.size() || !case_name.ends_with(ending)) return {};
  return case_name.substr(0, case_name.size() - ending.size());
}

/// Usable rows of an arm; its unpaired rows only where it has no pairs.
Rows runs_of(const Rows& rows, const std::string& arm) {
  Rows runs;
  bool has_pairs = false;
  for (const auto* row : rows) {
    if (row->arm != arm || !usable(*row)) continue;
    runs.push_back(row);
    has_pairs = has_pairs || row->pair;
  }
  if (has_pairs) std::erase_if(runs, [](const ComparisonRow* row) { return !row->pair; });
  return runs;
}

std::vector<double> throughputs(const Rows& rows) {
  std::vector<double> values;
  for (const auto* row : rows) values.push_back(*row->images_per_second);
  return values;
}

class Comparer {
 public:
  Comparer(const ComparisonData& data, const CompareRequest& request)
      : request_(request), cases_(by_case(data)) {
    for (const auto& fact : data.facts) facts_[{fact.case_name, fact.arm}][fact.key].insert(fact.value);
    for (const auto& row : data.rows) add_row_facts(row);
    for (const auto& tenant : data.tenants) tenants_[{tenant.case_name, tenant.arm}].push_back(tenant);
    for (const auto& one : cases_) rows_of_case_[one.name] = &one.rows;
  }

  std::vector<CaseComparison> run() const {
    std::vector<CaseComparison> results;
    for (const auto& one : cases_) {
      if (request_.case_name.empty() || request_.case_name == one.name) results.push_back(compare_case(one));
    }
    return results;
  }

 private:
  /// The trial's own columns are facts too.
  void add_row_facts(const ComparisonRow& row) {
    if (!usable(row)) return;
    auto& facts = facts_[{row.case_name, row.arm}];
    facts["nodes"].insert(std::to_string(row.nodes));
    facts["gpus_per_node"].insert(std::to_string(row.gpus_per_node));
    if (row.batch_size) facts["batch_size"].insert(std::to_string(*row.batch_size));
    if (!row.precision.empty()) facts["precision"].insert(row.precision);
    if (!row.backend.empty()) facts["backend"].insert(row.backend);
  }

  CaseComparison compare_case(const CaseRows& one) const {
    CaseComparison result;
    result.case_name = one.name;
    result.baseline = request_.baseline;
    result.candidate = request_.candidate;
    result.settings = request_.settings;
    Rows sides;
    for (const auto* row : one.rows) {
      if (row->arm == request_.baseline || row->arm == request_.candidate) sides.push_back(row);
    }
    result.paired =
        std::any_of(sides.begin(), sides.end(), [](const auto* row) { return row->pair.has_value(); });
    result.invalid_left_out =
        std::count_if(sides.begin(), sides.end(), [](const auto* row) { return !row->valid; });
    if (result.paired) {
      compare_pairs(sides, result);
    } else {
      compare_runs(sides, result);
    }
    summarise_arms(one, result);
    judge_comparability(sides, result);
    flag(result);
    return result;
  }

  void compare_pairs(const Rows& sides, CaseComparison& result) const {
    using Side = std::optional<double>;
    std::map<std::pair<std::int64_t, std::int64_t>, std::pair<Side, Side>> pairs;
    for (const auto* row : sides) {
      if (!row->pair) {
        result.unpaired_left_out += usable(*row) ? 1 : 0;
        continue;
      }
      auto& [baseline, candidate] = pairs[{row->experiment, *row->pair}];
      if (usable(*row)) (row->arm == request_.baseline ? baseline : candidate) = row->images_per_second;
    }
    std::vector<Side> baseline;
    std::vector<Side> candidate;
    std::int64_t complete = 0;
    for (const auto& [key, pair] : pairs) {
      baseline.push_back(pair.first);
      candidate.push_back(pair.second);
      complete += pair.first && pair.second ? 1 : 0;
    }
    result.n = complete;
    result.dropped_pairs = std::ssize(baseline) - complete;
    if (complete == 0) {
      result.reason = has_runs(sides) ? "too_few_pairs" : "no_data";
      return;
    }
    const auto paired = compare_paired(baseline, candidate, request_.settings);
    result.test = paired.test;
    result.further_pairs = paired.further_pairs;
  }

  void compare_runs(const Rows& sides, CaseComparison& result) const {
    const auto baseline = throughputs(runs_of(sides, request_.baseline));
    const auto candidate = throughputs(runs_of(sides, request_.candidate));
    result.n_baseline = std::ssize(baseline);
    result.n_candidate = std::ssize(candidate);
    if (baseline.empty() || candidate.empty()) {
      result.reason = "no_data";
      return;
    }
    const auto unpaired = compare_unpaired(baseline, candidate, request_.settings);
    result.test = unpaired.test;
    result.welch = unpaired.welch;
    result.fieller = unpaired.fieller;
    result.ratio_of_means = mean(candidate) / mean(baseline);
  }

  /// Whether both arms have a usable trial at all.
  bool has_runs(const Rows& sides) const {
    return !runs_of(sides, request_.baseline).empty() && !runs_of(sides, request_.candidate).empty();
  }

  void summarise_arms(const CaseRows& one, CaseComparison& result) const {
    std::vector<std::string> names;
    for (const auto* row : one.rows) {
      if (std::find(names.begin(), names.end(), row->arm) == names.end()) names.push_back(row->arm);
    }
    for (const auto& name : names) {
      const auto runs = runs_of(one.rows, name);
      auto& arm = result.arms.emplace_back();
      arm.arm = name;
      arm.runs = std::ssize(runs);
      arm.nodes = runs.empty() ? one.rows.front()->nodes : runs.front()->nodes;
      for (const auto* row : runs) {
        arm.virtualization.insert(row->virtualization);
        arm.oversubscribed = arm.oversubscribed || row->oversubscribed;
      }
      if (!runs.empty()) {
        arm.images_per_second = mean(throughputs(runs));
        arm.scaling = scaling_of(one.name, arm, runs);
      }
      const auto tenants = tenants_.find({one.name, name});
      if (tenants != tenants_.end()) arm.tenants = tenants->second;
    }
  }

  std::optional<Scaling> scaling_of(const std::string& case_name, const ArmSummary& arm,
                                    const Rows& runs) const {
    const std::string family = scaling_family(case_name, arm.nodes);
    if (family.empty()) return std::nullopt;
    const auto base = rows_of_case_.find(family + "/1");
    if (base == rows_of_case_.end()) return std::nullopt;
    const auto one_node = throughputs(runs_of(*base->second, arm.arm));
    if (one_node.empty()) return std::nullopt;
    return weak_scaling(one_node, throughputs(runs), arm.nodes);
  }

  /// The guard: emulation, or facts that differ and must not, forbid a verdict.
  void judge_comparability(const Rows& sides, CaseComparison& result) const {
    bool is_emulated = false;
    for (const auto* row : sides) {
      if (!usable(*row)) continue;
      is_emulated = is_emulated || emulated(row->virtualization);
      result.published = result.published || row->virtualization.empty();
    }
    const auto baseline = facts_.find({result.case_name, request_.baseline});
    const auto candidate = facts_.find({result.case_name, request_.candidate});
    if (baseline != facts_.end() && candidate != facts_.end()) {
      result.differences = differences(baseline->second, candidate->second);
    }
    if (!result.test) return;
    result.verdict = result.test->verdict;
    result.reason = result.test->reason;
    const bool differ = std::any_of(result.differences.begin(), result.differences.end(), forbids);
    if (!is_emulated && !differ) return;
    result.verdict = Verdict::not_comparable;
    result.reason = is_emulated ? "emulated" : "differs";
  }

  void flag(CaseComparison& result) const {
    const auto add = [&](bool holds, const std::string& word, const std::string& sentence) {
      if (!holds) return;
      result.flags.push_back(word);
      result.notes.push_back(sentence);
    };
    add(result.test && result.test->zero_variance, "zero_variance",
        "all runs show the same ratio: the interval is a point");
    add(result.unpaired_left_out > 0, "unpaired_left_out",
        fmt::format("{} unpaired trials left out, because this case has pairs", result.unpaired_left_out));
    add(result.invalid_left_out > 0, "invalid_left_out",
        fmt::format("{} invalid trials left out", result.invalid_left_out));
    add(result.reason == "emulated", "emulated", "a virtual machine was emulated, not run by the processor");
    const auto any_arm = [&](auto&& holds) {
      return std::any_of(result.arms.begin(), result.arms.end(), holds);
    };
    add(any_arm([](const auto& arm) { return arm.virtualization.contains("kvm_nested"); }), "nested",
        "KVM ran inside another virtual machine");
    add(any_arm([](const auto& arm) { return arm.oversubscribed; }), "oversubscribed",
        "more ranks than cores");
    for (const auto& difference : result.differences) {
      if (!forbids(difference)) continue;
      result.flags.push_back("differs:" + difference.field);
      result.notes.push_back(fmt::format("{} differs: {} in {}, {} in {}", difference.field,
                                         fmt::join(difference.baseline, ", "), request_.baseline,
                                         fmt::join(difference.candidate, ", "), request_.candidate));
    }
    if (result.published)
      result.notes.emplace_back("compared as published data: the source does not say what was virtual");
  }

  const CompareRequest& request_;
  std::vector<CaseRows> cases_;
  // By case and arm.
  std::map<std::pair<std::string, std::string>, Facts> facts_;
  std::map<std::pair<std::string, std::string>, std::vector<TenantMean>> tenants_;
  std::map<std::string, const Rows*> rows_of_case_;
};

}  // namespace

std::vector<CaseComparison> compare(const ComparisonData& data, const CompareRequest& request) {
  require_settings(request.settings);
  return Comparer(data, request).run();
}

std::vector<CaseComparison> compare(const Store& store, const CompareRequest& request) {
  const auto experiments = store.select(request.selection);
  std::vector<std::string> fields;
  for (const auto& rule : field_rules()) fields.emplace_back(rule.field);
  auto result = compare(store.comparison_data(experiments, fields), request);
  if (result.empty()) {
    throw Error("compare", ErrorCode::not_found,
                fmt::format("experiment {} has no case {}", fmt::join(experiments, ", "), request.case_name));
  }
  return result;
}

}  // namespace virtrain::results
