#include "results/report/charts/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/contains.h"

namespace virtrain::results {
namespace {

constexpr std::ptrdiff_t styles = 6;

}  // namespace

ArmOrder::ArmOrder(const ReportData& data) {
  const auto add = [this](const std::string& arm) { add_once(arms_, arm); };
  add(data.request.compare.baseline);
  add(data.request.compare.candidate);
  for (const auto& comparison : data.comparisons) {
    for (const auto& arm : comparison.arms) { add(arm.arm); }
  }
}

int ArmOrder::style(const std::string& arm) const {
  const auto position = std::ranges::find(arms_, arm) - arms_.begin();
  return static_cast<int>(std::min(position, styles - 1));
}

std::string arm_words(const std::string& arm) {
  if (arm == "vm" || arm.starts_with("vm+")) { return "VM" + arm.substr(2); }
  if (arm.starts_with("vm-") || arm.starts_with("vm_")) { return "VM, " + spaced(arm.substr(3)); }
  if (arm.starts_with("bare_metal-") || arm.starts_with("bare_metal_")) {
    return "bare metal, " + spaced(arm.substr(11));
  }
  return spaced(arm);
}

CaseComparison in_words(CaseComparison comparison) {
  comparison.baseline = arm_words(comparison.baseline);
  comparison.candidate = arm_words(comparison.candidate);
  for (auto& arm : comparison.arms) { arm.arm = arm_words(arm.arm); }
  return comparison;
}

KeyEntry arm_key(const ArmOrder& order, const std::string& arm) {
  return {"arm-" + std::to_string(order.style(arm)), arm_words(arm)};
}

bool needs_logarithm(double low, double high) {
  constexpr double most_of_linear = 10;  // high / low
  return low > 0 && high > most_of_linear * low;
}

void set_value_axis(Chart& chart, double low, double high, const std::string& unit) {
  if (unit != images_unit) { chart.signals["value_title"] = "Throughput, " + unit; }
  if (needs_logarithm(low, high)) {
    chart.signals["values"] = {low / 1.2, high * 1.2};
    chart.signals["value_title"] = "Throughput, " + unit + ", logarithmic axis";
    chart.scales["v"] = "log";
    return;
  }
  const double room = std::max((high - low) * 0.1, high * 0.01);
  chart.signals["values"] = {std::max(0.0, low - room), high + room};
}

void add_key(Chart& chart, const KeyEntry& entry) {
  const auto has_its_words = [&](const KeyEntry& one) { return one.words == entry.words; };
  if (std::ranges::none_of(chart.key, has_its_words)) { chart.key.push_back(entry); }
}

double rounded(double value, int significant_digits) {
  if (value == 0 || !std::isfinite(value)) { return value; }
  const double scale = std::pow(10, significant_digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace virtrain::results
