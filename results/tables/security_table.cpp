#include "results/tables/security_table.h"

#include <fmt/format.h>

#include <map>

#include "common/model/check.h"
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

Cell share_of(const LeakSearch& search) {
  if (!search.scanned || !search.total || *search.total <= 0) { return {}; }
  const double share = *search.scanned / *search.total;
  const auto whole = amount(*search.total, search.unit);
  return {share,
          fmt::format("{:.0f} % of {}{}", share * 100, whole, search.unit == "B" ? "" : " " + search.unit)};
}

Cell control_of(const LeakSearch& search) {
  return search.control ? Cell{*search.control, *search.control ? "found" : "not found"} : Cell{};
}

using P = LeakSearch;
constexpr ColumnOf<P> security_columns[] = {
    {"arm", "arm", [](const P& of) { return cell(of.arm); }},
    {"name", "search", [](const P& of) { return cell(of.name); }},
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

Table security_table(const std::vector<LeakSearch>& searches) {
  auto table = table_of(security_columns, searches);
  table.title = "Isolation: what was tried, what was found, what could not be told";
  if (!table.rows.empty()) {
    table.notes.emplace_back(
        "control: a canary planted for the search, which it must find in the same session; \"not found\" "
        "needs it");
    table.notes.emplace_back(
        "docs/isolation-security.md says what each search looks for, and what it does not");
  }
  return table;
}

Table narrow_security_table(const std::vector<LeakSearch>& searches) {
  auto table = security_table(searches);
  std::vector<std::string> findings;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    const auto& search = searches[i];
    for (const auto& words : {search.found, search.reason}) {
      if (!words.empty()) { findings.push_back(fmt::format("{} {}: {}", search.arm, search.name, words)); }
    }
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const auto& key = table.columns[c].key;
      if (key == "tenants" || key == "found" || key == "reason") { table.rows[i][c].text.clear(); }
    }
  }
  table.notes.insert(table.notes.begin(), findings.begin(), findings.end());
  return table;
}

std::string security_summary(const std::vector<LeakSearch>& searches) {
  std::map<std::string, std::vector<std::string>> by_result;
  for (const auto& one : searches) { by_result[one.result].push_back(one.arm + ": " + one.name); }
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
