#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/text/units.h"
#include "results/comparison/verdict.h"
#include "results/report/page/page.h"
#include "results/tables/tables.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

std::string glyph_of(const CaseComparison& comparison) {
  if (!comparison.test) { return "–"; }
  switch (comparison.verdict) {
    case Verdict::equivalent:
      return "=";
    case Verdict::better:
      return "▲";
    case Verdict::worse:
      return "▼";
    case Verdict::non_inferior:
      return "≥";
    case Verdict::inconclusive:
      return "?";
    case Verdict::not_comparable:
      break;
  }
  return "≠";
}

/// Below a tenth it is a ratio that people read, not its distance from 1.
bool is_far(double ratio) {
  return ratio < 0.1;
}

/// "−1.32", "+0.40": the ratio's distance from 1 in percent.
std::string off_percent(double ratio) {
  const double off = (ratio - 1) * 100;
  if (std::abs(off) < 0.005) { return "0.00"; }
  return fmt::format("{}{:.2f}", off < 0 ? "−" : "+", std::abs(off));
}

/// "−1.32 %", "× 0.0093".
std::string difference_words(double ratio) {
  return is_far(ratio) ? fmt::format("× {:.3g}", ratio) : off_percent(ratio) + " %";
}

/// "−1.75 to −1.15 %", "× 0.009 to 0.01".
std::string interval_words(const Interval& interval) {
  return is_far(interval.low)
             ? fmt::format("× {:.3g} to {:.3g}", interval.low, interval.high)
             : fmt::format("{} to {} %", off_percent(interval.low), off_percent(interval.high));
}

std::string throughput_words(const CaseComparison& comparison, const std::string& arm) {
  for (const auto& one : comparison.arms) {
    if (one.arm != arm || !one.throughput) { continue; }
    return figure_words(*one.throughput) + (one.unit == images_unit ? "" : " " + one.unit);
  }
  return "";
}

/// Whether every row compares the same two arms, so that the table's head can name them.
bool have_one_pair(const ReportData& data) {
  const auto& all = data.comparisons;
  return std::ranges::all_of(all, [&](const CaseComparison& one) {
    return one.baseline == all.front().baseline && one.candidate == all.front().candidate;
  });
}

json row_of(const CaseComparison& comparison, bool one_pair) {
  const auto sides =
      fmt::format("{} against {}", arm_words(comparison.candidate), arm_words(comparison.baseline));
  // Without a verdict that counts, an interval would look like evidence.
  const bool interval = comparison.test && comparison.test->ci_tost &&
                        (comparison.forced || comparison.verdict != Verdict::not_comparable);
  const auto remark = verdict_remark(in_words(comparison));
  return {{"cases", json::array({{{"name", comparison.case_name}}})},
          {"has_sides", !one_pair},
          {"sides", sides},
          {"verdict_class", comparison.test ? to_string(comparison.verdict) : "no_data"},
          {"glyph", glyph_of(comparison)},
          {"word", verdict_word(comparison)},
          {"measured", comparison.test.has_value()},
          {"baseline", throughput_words(comparison, comparison.baseline)},
          {"candidate", throughput_words(comparison, comparison.candidate)},
          {"difference", comparison.test ? difference_words(comparison.test->ratio) : ""},
          {"interval", interval ? interval_words(*comparison.test->ci_tost) : ""},
          {"compared", comparison.test ? size_words(comparison) : ""},
          {"has_remark", !remark.empty()},
          {"remark", capitalised(remark)}};
}

}  // namespace

std::string capitalised(std::string sentence) {
  if (!sentence.empty() && sentence[0] >= 'a' && sentence[0] <= 'z') { sentence[0] -= 'a' - 'A'; }
  return sentence;
}

json verdicts_model(const ReportData& data) {
  if (data.comparisons.empty()) { return false; }
  const bool one_pair = have_one_pair(data);
  json rows = json::array();
  std::map<std::pair<json, json>, std::size_t>
      unmeasured;  // place of the row with this remark and these sides
  const bool of_isolation = !data.isolation.matrices.empty();  // its arms need not be bare metal and VM
  for (const auto& comparison : data.comparisons) {
    if (of_isolation && !comparison.test) { continue; }
    auto row = row_of(comparison, one_pair);
    if (!comparison.test) {
      const auto [same, is_first] = unmeasured.try_emplace({row["remark"], row["sides"]}, rows.size());
      if (!is_first) {
        rows[same->second]["cases"].push_back(row["cases"][0]);
        continue;
      }
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) { return false; }
  // Cases that could be compared stand first.
  std::stable_partition(rows.begin(), rows.end(), [](const json& row) { return row["measured"] == true; });
  const auto& first = data.comparisons.front();
  // Cells in another unit say it themselves.
  const bool any_images = std::ranges::any_of(
      data.comparisons, [](const CaseComparison& one) { return one.throughput_unit == images_unit; });
  const auto head = [&](const std::string& arm, const char* side) {
    return (one_pair ? capitalised(arm_words(arm)) : std::string(side)) + (any_images ? ", images/s" : "");
  };
  return {{"baseline_head", head(first.baseline, "Baseline")},
          {"candidate_head", head(first.candidate, "Candidate")},
          {"interval_head", capitalised(deciding_interval(data.comparisons))},
          {"rows", rows}};
}

}  // namespace virtrain::results
