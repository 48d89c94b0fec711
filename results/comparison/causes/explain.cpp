#include "results/comparison/causes/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/text/json.h"
#include "results/comparison/causes/cause_models.h"

namespace virtrain::results {
namespace {

constexpr double negligible = 0.0005;  // of the throughput, and of the logarithm of the ratio

struct Weighed {
  Finding finding;
  double log_factor = 0;
};

/// Bounds an upper bound by the part that the measured causes leave, in the same direction.
double limited(double log_factor, double rest) {
  if (log_factor < 0 && rest < 0) { return std::max(log_factor, rest); }
  if (log_factor > 0 && rest > 0) { return std::min(log_factor, rest); }
  return 0;
}

std::string evidence_words(const Estimate& estimate, const Evidence& baseline, const Evidence& candidate) {
  return fmt::format("{} in {}, {} in {}{}", estimate.baseline,
                     baseline.name.empty() ? "the baseline" : baseline.name, estimate.candidate,
                     candidate.name.empty() ? "the candidate" : candidate.name, estimate.of);
}

}  // namespace

Explanation explain(double ratio, const Evidence& baseline, const Evidence& candidate) {
  Explanation result;
  result.ratio = ratio;
  result.gap = 1 - ratio;
  const double log_ratio = std::log(ratio);
  const bool has_gap = std::abs(log_ratio) >= negligible;
  std::vector<Weighed> weighed;
  double explained = 0;
  for (const auto& row : cause_rows()) {
    const auto estimate = row.estimate(baseline, candidate);
    if (!estimate) { continue; }
    if (estimate->factor && std::abs(*estimate->factor - 1) < negligible) { continue; }
    Weighed one;
    one.finding = {.cause = std::string(row.cause),
                   .name = std::string(row.name),
                   .meaning = std::string(row.meaning),
                   .baseline = estimate->baseline,
                   .candidate = estimate->candidate,
                   .evidence = evidence_words(*estimate, baseline, candidate),
                   .model = std::string(row.model),
                   .next = std::string(row.next),
                   .at_most = estimate->at_most};
    if (estimate->factor) {
      one.log_factor = std::log(*estimate->factor);
      one.finding.cost = 0;
      if (!estimate->at_most) { explained += one.log_factor; }
    }
    weighed.push_back(std::move(one));
  }
  for (auto& [finding, log_factor] : weighed) {
    if (!finding.cost) { continue; }
    if (finding.at_most) { log_factor = limited(log_factor, log_ratio - explained); }
    finding.cost = 1 - std::exp(log_factor);
    if (has_gap) { finding.share_of_gap = log_factor / log_ratio; }
  }
  // An upper bound that nothing is left for says nothing.
  std::erase_if(weighed, [](const Weighed& one) {
    return one.finding.at_most && one.finding.cost && std::abs(*one.finding.cost) < negligible;
  });
  const double direction = log_ratio > 0 ? -1 : 1;
  std::ranges::stable_sort(weighed, [&](const Weighed& a, const Weighed& b) {
    if (a.finding.cost.has_value() != b.finding.cost.has_value()) { return a.finding.cost.has_value(); }
    return a.log_factor * direction < b.log_factor * direction;
  });
  for (auto& one : weighed) { result.findings.push_back(std::move(one.finding)); }
  if (has_gap) { result.unexplained = 1 - explained / log_ratio; }
  return result;
}

nlohmann::json to_json(const Explanation& explanation) {
  auto findings = nlohmann::json::array();
  for (const auto& finding : explanation.findings) {
    findings.push_back({{"cause", finding.cause},
                        {"words", finding.name + ": " + finding.meaning},
                        {"evidence", finding.evidence},
                        {"model", finding.model},
                        {"cost", or_null(finding.cost)},
                        {"share_of_gap", or_null(finding.share_of_gap)},
                        {"at_most", finding.at_most}});
  }
  return {{"ratio", explanation.ratio},
          {"gap", explanation.gap},
          {"findings", findings},
          {"unexplained", or_null(explanation.unexplained)}};
}

}  // namespace virtrain::results
