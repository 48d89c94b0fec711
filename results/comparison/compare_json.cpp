#include "results/comparison/compare_json.h"

#include "common/text/json.h"
#include "results/comparison/compare.h"
#include "results/comparison/verdict.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

void put_interval(json& object, const char* low, const char* high, const std::optional<Interval>& interval) {
  object[low] = interval ? json(interval->low) : json();
  object[high] = interval ? json(interval->high) : json();
}

/// {"vm": {"speedup": …}, …}; null where the case is no step of a weak scaling.
json scaling_json(const CaseComparison& comparison) {
  json arms;
  for (const auto& arm : comparison.arms) {
    if (!arm.scaling) { continue; }
    json& object = arms[arm.arm];
    object["speedup"] = arm.scaling->speedup;
    object["efficiency"] = arm.scaling->efficiency;
    put_interval(object, "speedup_ci_low", "speedup_ci_high", arm.scaling->speedup_ci);
    put_interval(object, "efficiency_ci_low", "efficiency_ci_high", arm.scaling->efficiency_ci);
    object["ideal"] = arm.nodes;
    object["published_speedup"] = arm.published ? json(arm.published->speedup) : json();
    object["published_efficiency"] = arm.published ? json(arm.published->efficiency) : json();
    object["published_by"] = arm.published ? json(arm.published->experiment) : json();
  }
  return arms;
}

json alone_json(const TenantsAlone& alone) {
  json tenants = json::array();
  for (const auto& tenant : alone.tenants) {
    const auto& tail = tenant.tail;
    tenants.push_back(
        {{"tenant", tenant.tenant_index},
         {"name", text_or_null(tenant.name)},
         {"alone_case", tenant.alone_case},
         {"alone_images_per_second", or_null(in_images(tenant.alone_throughput, tenant.unit))},
         {"shared_images_per_second", or_null(in_images(tenant.shared_throughput, tenant.unit))},
         {"slowdown", tenant.slowdown},
         {"np", 1 / tenant.slowdown},
         {"alone_step_p99_seconds", tail ? json(tail->alone_p99_seconds) : json()},
         {"shared_step_p99_seconds", tail ? json(tail->shared_p99_seconds) : json()},
         {"p99_inflation", tail ? json(tail->inflation) : json()},
         {"p99_inflation_ci_low", tail && tail->ci ? json(tail->ci->low) : json()},
         {"p99_inflation_ci_high", tail && tail->ci ? json(tail->ci->high) : json()},
         {"few_samples", tail ? json(tail->few_samples) : json()}});
    if (tenant.unit == images_unit) { continue; }
    tenants.back().update({{"alone_throughput", tenant.alone_throughput},
                           {"shared_throughput", tenant.shared_throughput},
                           {"unit", tenant.unit}});
  }
  const auto& all = alone.isolation;
  return {{"tenants", tenants},
          {"stp", all ? json(all->system_throughput) : json()},
          {"antt", all ? json(all->mean_slowdown) : json()},
          {"jain", all ? json(all->jain_index) : json()},
          {"worst_slowdown", all ? json(all->worst_slowdown) : json()}};
}

/// Values by arm; null where no arm has one.
template <typename T, typename ToJson>
json by_arm(const CaseComparison& comparison, std::optional<T> ArmSummary::*member, ToJson&& shown) {
  json arms;
  for (const auto& arm : comparison.arms) {
    if (arm.*member) { arms[arm.arm] = shown(*(arm.*member)); }
  }
  return arms;
}

/// Adds a throughput that is not in images/s.
void put_other_unit(json& object, const ArmSummary& arm) {
  if (!arm.throughput || arm.unit == images_unit) { return; }
  object["throughput"] = *arm.throughput;
  object["unit"] = arm.unit;
}

/// The point of a sweep, and how each arm does at it; null where the case is none.
json sweep_json(const CaseComparison& comparison) {
  if (comparison.key.point.empty()) { return nullptr; }
  json at = json::object();
  for (const auto& [key, value] : comparison.key.point.values) { at[key] = value; }
  json arms = json::object();
  for (const auto& arm : comparison.arms) {
    if (!arm.sweep) { continue; }
    json& object = arms[arm.arm];
    object = {{"images_per_second", or_null(in_images(arm.throughput, arm.unit))},
              {"standing", to_string(arm.sweep->standing)},
              {"best", arm.sweep->best},
              {"images_per_joule", or_null(arm.images_per_joule)},
              {"cpu_images_per_joule", or_null(arm.cpu_images_per_joule)}};
    put_interval(object, "ci_low", "ci_high", arm.sweep->ci);
    put_other_unit(object, arm);
  }
  return {{"family", swept_name(comparison.key)}, {"at", at}, {"arms", arms}};
}

/// Images, or what else the throughput counts, for a unit of the currency, by arm; null where no arm has a
/// price.
json price_json(const CaseComparison& comparison) {
  json arms;
  for (const auto& arm : comparison.arms) {
    if (!arm.work_per_currency_unit) { continue; }
    json& object = arms[arm.arm];
    object = {{"images", or_null(in_images(arm.work_per_currency_unit, arm.unit))},
              {"currency", arm.currency}};
    if (arm.unit == images_unit) { continue; }
    object["work"] = *arm.work_per_currency_unit;
    object["unit"] = work_of(arm.unit);
  }
  return arms;
}

/// Mean and number of the runs that count, by arm.
json throughput_json(const CaseComparison& comparison) {
  json arms;
  for (const auto& arm : comparison.arms) {
    arms[arm.arm] = {{"images_per_second", or_null(in_images(arm.throughput, arm.unit))}, {"runs", arm.runs}};
    put_other_unit(arms[arm.arm], arm);
  }
  return arms;
}

json differences_json(const std::vector<FactDifference>& differences) {
  json list = json::array();
  for (const auto& difference : differences) {
    list.push_back({{"field", difference.field},
                    {"rule", to_string(difference.rule)},
                    {"baseline", difference.baseline},
                    {"candidate", difference.candidate},
                    {"detail", difference.detail.empty() ? json() : json(difference.detail)},
                    {"why", difference.why}});
  }
  return list;
}

/// Intervals and p values; all null where there is no test to rely on.
void put_test(json& object, const std::optional<RatioTest>& test, bool paired) {
  const RatioTest shown = test.value_or(RatioTest{});
  put_interval(object, "ci_low", "ci_high", shown.ci);
  put_interval(object, "ci_tost_low", "ci_tost_high", shown.ci_tost);
  object["p_lower"] = or_null(shown.p_lower);
  object["p_upper"] = or_null(shown.p_upper);
  object["tost_p"] = or_null(shown.tost_p);
  object["p_diff"] = or_null(shown.p_diff);
  object["p_worse"] = or_null(shown.p_worse);
  object["log_df"] = paired ? json() : or_null(shown.df);
}

void put_raw_scale(json& object, const std::optional<WelchTest>& welch,
                   const std::optional<FiellerInterval>& fieller) {
  object["welch_t"] = welch ? or_null(welch->t) : json();
  object["welch_df"] = welch ? or_null(welch->df) : json();
  object["welch_p"] = welch ? json(welch->p) : json();
  put_interval(object, "fieller_low", "fieller_high", fieller ? fieller->limits : std::nullopt);
  object["fieller_kind"] = fieller ? json(to_string(fieller->kind)) : json();
}

}  // namespace

json to_json(const CaseComparison& comparison) {
  const bool comparable = comparison.verdict != Verdict::not_comparable;
  json object = {{"case", comparison.case_name},
                 {"baseline", comparison.baseline},
                 {"candidate", comparison.candidate},
                 {"paired", comparison.paired},
                 {"n", or_null(comparison.n)},
                 {"n_baseline", or_null(comparison.n_baseline)},
                 {"n_candidate", or_null(comparison.n_candidate)},
                 {"dropped_pairs", or_null(comparison.dropped_pairs)},
                 {"unpaired_left_out", comparison.unpaired_left_out},
                 {"invalid_left_out", comparison.invalid_left_out},
                 {"ratio", comparison.test ? json(comparison.test->ratio) : json()},
                 {"ratio_of_means", or_null(comparison.ratio_of_means)},
                 {"verdict", to_string(comparison.verdict)},
                 {"reason", text_or_null(comparison.reason)},
                 {"flags", comparison.flags},
                 {"notes", comparison.notes},
                 {"further_pairs", comparable ? or_null(comparison.further_pairs) : json()},
                 {"lag1_autocorrelation", or_null(comparison.lag1)},
                 {"arms", scaling_json(comparison)},
                 {"throughput", throughput_json(comparison)},
                 {"arm", text_or_null(comparison.arm)},
                 {"unit", to_string(comparison.unit)},
                 {"sessions_baseline", or_null(comparison.sessions_baseline)},
                 {"sessions_candidate", or_null(comparison.sessions_candidate)},
                 {"margin", comparison.settings.margin},
                 {"alpha", comparison.settings.alpha},
                 {"p_worse_holm", or_null(comparison.p_worse_holm)},
                 {"worse_after_holm", worse_after_holm(comparison)},
                 {"forced", comparison.forced},
                 {"differences", differences_json(comparison.differences)},
                 {"sweep", sweep_json(comparison)},
                 {"images_per_currency_unit", price_json(comparison)},
                 {"tenants_vs_alone", by_arm(comparison, &ArmSummary::alone, alone_json)},
                 {"explanation", comparison.explanation ? to_json(*comparison.explanation) : json()},
                 {"prediction", by_arm(comparison, &ArmSummary::prediction,
                                       [](const Prediction& prediction) { return to_json(prediction); })}};
  put_test(object, comparable ? comparison.test : std::nullopt, comparison.paired);
  put_raw_scale(object, comparable ? comparison.welch : std::nullopt,
                comparable ? comparison.fieller : std::nullopt);
  return object;
}

json to_json(const std::vector<CaseComparison>& comparisons) {
  json list = json::array();
  for (const auto& comparison : comparisons) { list.push_back(to_json(comparison)); }
  return list;
}

}  // namespace virtrain::results
