#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "results/comparison/verdict.h"
#include "results/report/figures/figures.h"

namespace virtrain::results {
namespace {

struct Domain {
  double low = 0;
  double high = 0;
  bool logarithmic = false;
};

void widen(Domain& domain, double low, double high) {
  domain.low = std::min(domain.low, low);
  domain.high = std::max(domain.high, high);
}

/// A ratio of 1/4 is as far from 1 as one of 4: where ratios are that far off, the axis has to say so.
bool is_far_from_one(const Domain& domain) {
  return domain.low > 0 && (domain.low < 0.5 || domain.high > 2);
}

/// Room for the band and for every comparable ratio with its interval. One that is far off (an emulated
/// machine at a twentieth of the speed) would squeeze all others, so it is drawn at the edge unless there is
/// nothing else.
Domain domain_of(const std::vector<CaseComparison>& comparisons, const Settings& settings) {
  const double band = -std::log1p(-settings.margin);
  const Domain start{std::exp(-1.5 * band), std::exp(1.5 * band)};
  Domain comparable = start;
  Domain all = start;
  bool any = false;
  for (const auto& one : comparisons) {
    if (!one.test) { continue; }
    auto limits = one.test->ci.value_or(Interval{one.test->ratio, one.test->ratio});
    constexpr double widest = 100;  // an interval that bounds nothing leaves the others readable
    limits.low = std::max(limits.low, one.test->ratio / widest);
    limits.high = std::min(limits.high, one.test->ratio * widest);
    widen(all, std::min(limits.low, one.test->ratio), std::max(limits.high, one.test->ratio));
    if (one.verdict == Verdict::not_comparable) { continue; }
    any = true;
    widen(comparable, limits.low, limits.high);
  }
  Domain domain = any ? comparable : all;
  if (is_far_from_one(domain)) { return {domain.low / 1.1, domain.high * 1.1, true}; }
  const double room = 0.04 * (domain.high - domain.low);
  return {domain.low - room, domain.high + room};
}

/// The word beside the ratio: the verdict, or why there is none.
std::string verdict_words(const CaseComparison& comparison) {
  if (comparison.reason == "emulated") { return "emulated, not comparable"; }
  if (comparison.verdict == Verdict::not_comparable) { return "not comparable"; }
  const bool undecided = !comparison.test->ci_tost;
  if (undecided && comparison.published) { return "published, no interval"; }
  return spaced(undecided ? comparison.reason : to_string(comparison.verdict));
}

/// The case, and its arms where the chart has others too.
std::string row_name(const CaseComparison& comparison, bool with_arms) {
  return with_arms
             ? fmt::format("{}: {} / {}", comparison.case_name, comparison.candidate, comparison.baseline)
             : comparison.case_name;
}

nlohmann::json row_of(const CaseComparison& comparison, const Domain& domain, std::size_t position,
                      bool with_arms) {
  const auto& test = *comparison.test;
  // Without a verdict that counts, an interval would look like evidence.
  const bool interval = test.ci && test.ci_tost && comparison.verdict != Verdict::not_comparable;
  nlohmann::json row{{"case", row_name(comparison, with_arms)},
                     {"position", position},
                     {"ratio", test.ratio},
                     {"shown", std::clamp(test.ratio, domain.low, domain.high)},
                     {"off", test.ratio < domain.low    ? -1
                             : test.ratio > domain.high ? 1
                                                        : 0},
                     {"interval", interval},
                     {"verdict", to_string(comparison.verdict)},
                     {"words", fmt::format("{:.4f}  {}", test.ratio, verdict_words(comparison))}};
  std::string tip = fmt::format("{}\n{} / {}: {:.4f}", comparison.case_name, arm_words(comparison.candidate),
                                arm_words(comparison.baseline), test.ratio);
  if (interval) {
    const auto clamped = [&](double value) { return std::clamp(value, domain.low, domain.high); };
    row["low"] = clamped(test.ci->low);
    row["high"] = clamped(test.ci->high);
    row["tost_low"] = clamped(test.ci_tost->low);
    row["tost_high"] = clamped(test.ci_tost->high);
    tip += fmt::format("\n95 %: {:.4f} to {:.4f}", test.ci->low, test.ci->high);
    tip += fmt::format("\n{}: {:.4f} to {:.4f}", level_words(comparison.settings.alpha), test.ci_tost->low,
                       test.ci_tost->high);
  }
  row["tip"] = tip + "\n" + verdict_words(comparison);
  return row;
}

Table table_of(const std::vector<const CaseComparison*>& comparisons, bool with_arms) {
  Table table;
  table.columns = {{"case", "Case"},        {"ratio", "Ratio", true}, {"ci_low", "95 % from", true},
                   {"ci_high", "to", true}, {"runs", "Compared"},     {"p", "p (TOST)", true},
                   {"verdict", "Verdict"}};
  for (const auto* one : comparisons) {
    const bool interval = one->test->ci && one->verdict != Verdict::not_comparable;
    const auto limit = [&](double Interval::*side) {
      return cell(interval ? std::optional(*one->test->ci.*side) : std::nullopt, 4);
    };
    const auto tost_p = interval && one->test->tost_p ? fmt::format("{:.2g}", *one->test->tost_p) : "";
    table.rows.push_back({cell(row_name(*one, with_arms)), cell(one->test->ratio, 4), limit(&Interval::low),
                          limit(&Interval::high), cell(size_words(*one)), cell(tost_p),
                          cell(verdict_words(*one))});
  }
  return table;
}

bool have_several_sides(const std::vector<const CaseComparison*>& shown) {
  return std::ranges::any_of(shown, [&](const auto* one) {
    return one->baseline != shown.front()->baseline || one->candidate != shown.front()->candidate;
  });
}

std::string summary_of(const std::vector<const CaseComparison*>& shown, const Settings& settings) {
  const auto by_ratio = [](const auto* a, const auto* b) { return a->test->ratio < b->test->ratio; };
  const auto [low, high] = std::minmax_element(shown.begin(), shown.end(), by_ratio);
  const auto& one = *shown.front();
  const bool several = have_several_sides(shown);
  const std::string start = several ? "The ratio of throughputs"
                                    : fmt::format("Throughput of {} divided by that of {}",
                                                  arm_words(one.candidate), arm_words(one.baseline));
  const std::string band =
      fmt::format("the shaded band from {:.4g} to {:.4g} counts as no difference that matters",
                  1 - settings.margin, 1 / (1 - settings.margin));
  if (shown.size() == 1) { return fmt::format("{} is {:.4f}; {}.", start, one.test->ratio, band); }
  return fmt::format("{} lies between {:.4f} ({}) and {:.4f} ({}) over {} {}; {}.", start,
                     (*low)->test->ratio, row_name(**low, several), (*high)->test->ratio,
                     row_name(**high, several), shown.size(), several ? "comparisons" : "cases", band);
}

}  // namespace

std::vector<Chart> forest_charts(const ReportData& data) {
  std::vector<const CaseComparison*> shown;
  for (const auto& one : data.comparisons) {
    if (one.test) { shown.push_back(&one); }
  }
  if (shown.empty()) { return {}; }
  const auto& settings = data.request.compare.settings;
  const auto domain = domain_of(data.comparisons, settings);
  Chart chart;
  chart.id = "forest";
  chart.spec = "forest";
  const auto& compare = data.request.compare;
  const bool several = have_several_sides(shown);
  const auto candidate = several ? std::string("candidate") : arm_words(compare.candidate);
  const auto baseline = several ? std::string("baseline") : arm_words(compare.baseline);
  chart.title = several ? "Each arm against the one it is compared with"
                        : fmt::format("{} against {}, case by case", candidate, baseline);
  chart.summary = summary_of(shown, settings);
  chart.data["rows"] = nlohmann::json::array();
  for (std::size_t i = 0; i < shown.size(); ++i) {
    chart.data["rows"].push_back(row_of(*shown[i], domain, i, several));
  }
  chart.signals = {{"count", shown.size()},
                   {"domain", {domain.low, domain.high}},
                   {"band", {1 - settings.margin, 1 / (1 - settings.margin)}},
                   {"axis_title", fmt::format("throughput of {} ÷ {}{}", candidate, baseline,
                                              domain.logarithmic ? ", logarithmic axis" : "")},
                   {"slower", fmt::format("◂ {} slower", candidate)},
                   {"faster", fmt::format("{} faster ▸", candidate)}};
  if (domain.logarithmic) { chart.scales["x"] = "log"; }
  const auto drawn_with_interval = [&](bool wanted) {
    return std::ranges::any_of(chart.data["rows"],
                               [&](const nlohmann::json& row) { return row["interval"] == wanted; });
  };
  chart.key = {{"band", fmt::format("equivalence band, ±{:.4g} %", settings.margin * 100)}};
  if (drawn_with_interval(true)) {
    chart.key.push_back({"interval-tost", deciding_interval(data.comparisons) + ", which decides"});
    chart.key.push_back({"interval-95", "95 % interval"});
  }
  if (drawn_with_interval(false)) {
    chart.key.push_back({"hollow", "no interval: too few runs, or not comparable"});
  }
  chart.table = table_of(shown, several);
  return {chart};
}

}  // namespace virtrain::results
