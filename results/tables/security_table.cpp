#include "results/tables/security_table.h"

#include <fmt/format.h>

#include <map>

#include "common/model/leak.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

/// 1234567 as "1 MiB": of a scan nobody needs the last byte.
std::string amount(double value, const std::string& unit) {
  if (unit != "B") { return fmt::format("{:.0f}", value); }
  constexpr double mib = 1 << 20;
  return value < mib ? format_size(static_cast<std::uint64_t>(value))
                     : format_size(static_cast<std::uint64_t>(value / mib) << 20);
}

Cell share_of(const SecurityProbe& probe) {
  if (!probe.scanned || !probe.total || *probe.total <= 0) { return {}; }
  const double share = *probe.scanned / *probe.total;
  const auto whole = amount(*probe.total, probe.unit);
  return {share,
          fmt::format("{:.0f} % of {}{}", share * 100, whole, probe.unit == "B" ? "" : " " + probe.unit)};
}

Cell control_of(const SecurityProbe& probe) {
  return probe.control ? Cell{*probe.control, *probe.control ? "found" : "not found"} : Cell{};
}

using P = SecurityProbe;
constexpr ColumnOf<P> security_columns[] = {
    {"arm", "arm", [](const P& of) { return cell(of.arm); }},
    {"name", "probe", [](const P& of) { return cell(of.name); }},
    {"tenants", "who looks at what", [](const P& of) { return cell(of.tenants); }, false, true, false, false,
     true},
    {"result", "result",
     [](const P& of) {
       return Cell{of.result, spaced(of.result)};
     }},
    {"control", "control", control_of},
    {"scanned", "", [](const P& of) { return silent_cell(of.scanned); }, true, true},
    {"total", "", [](const P& of) { return silent_cell(of.total); }, true, true},
    {"unit", "", [](const P& of) { return silent_cell(of.unit); }, false, true},
    {"scanned_share", "scanned", share_of, true, true},
    {"virtualization", "", [](const P& of) { return silent_cell(of.virtualization); }, false, true},
    {"found", "found", [](const P& of) { return cell(of.found); }, false, true, false, false, true},
    {"reason", "reason", [](const P& of) { return cell(of.reason); }, false, true, false, false, true}};

}  // namespace

Table security_table(const std::vector<SecurityProbe>& probes) {
  auto table = table_of(security_columns, probes);
  table.title = "Isolation: what was tried, what was found, what could not be told";
  if (!table.rows.empty()) {
    table.notes.emplace_back(
        "control: a canary planted for the probe, which it must find in the same session; \"not found\" "
        "needs it");
    table.notes.emplace_back(
        "docs/isolation-security.md says what each probe looks for, and what it does not");
  }
  return table;
}

Table narrow_security_table(const std::vector<SecurityProbe>& probes) {
  auto table = security_table(probes);
  std::vector<std::string> findings;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const auto& probe = probes[i];
    for (const auto& words : {probe.found, probe.reason}) {
      if (!words.empty()) { findings.push_back(fmt::format("{} {}: {}", probe.arm, probe.name, words)); }
    }
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const auto& key = table.columns[c].key;
      if (key == "tenants" || key == "found" || key == "reason") { table.rows[i][c].text.clear(); }
    }
  }
  table.notes.insert(table.notes.begin(), findings.begin(), findings.end());
  return table;
}

std::string security_summary(const std::vector<SecurityProbe>& probes) {
  std::map<std::string, std::vector<std::string>> by_result;
  for (const auto& one : probes) { by_result[one.result].push_back(one.arm + ": " + one.name); }
  std::vector<std::string> parts;
  for (const auto result :
       {LeakResult::leak, LeakResult::not_found, LeakResult::inconclusive, LeakResult::not_possible}) {
    const auto found = by_result.find(to_string(result));
    if (found == by_result.end()) { continue; }
    const auto count = found->second.size();
    parts.push_back(result == LeakResult::leak
                        ? fmt::format("{} ({})", counted(count, "leak"), join(found->second, "; "))
                        : fmt::format("{} {}", count, spaced(to_string(result))));
  }
  return join(parts, ", ");
}

}  // namespace virtrain::results
