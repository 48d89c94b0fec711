#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <map>

#include "common/error.h"
#include "results/tables/tables.h"

namespace virtrain::results {
namespace {

/// What tells one figure from another but the arm; in_place only where the source says it.
struct ProbeKey {
  std::string name, data_type, side, unit;
  std::int64_t size_bytes = -1, ranks = -1;

  auto operator<=>(const ProbeKey&) const = default;
};

struct ProbeGroup {
  std::vector<double> values, bus;
  std::int64_t wrong = 0;
};

ProbeKey key_of(const Probe& probe) {
  ProbeKey key{
      probe.name, probe.data_type, "", probe.unit, probe.size_bytes.value_or(-1), probe.ranks.value_or(-1)};
  if (probe.detail.is_object() && probe.detail.contains("in_place") &&
      probe.detail["in_place"].is_boolean()) {
    key.side = probe.detail["in_place"].get<bool>() ? "in place" : "out of place";
  }
  return key;
}

std::optional<double> median_of(std::vector<double> values) {
  if (values.empty()) { return std::nullopt; }
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// "11.7 GB/s" of 11.7e9 B/s; the number itself for programs.
Cell figure_cell(const std::optional<double>& value, const std::string& unit) {
  Cell result;
  if (!value) { return result; }
  result.value = *value;
  static constexpr std::array<std::pair<double, const char*>, 8> scales = {
      {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}}};
  const auto fits = [&](const auto& scale) { return *value >= scale.first; };
  const auto found = std::find_if(scales.begin(), scales.end(), fits);
  const auto& [factor, prefix] = *value <= 0 ? scales[4] : found == scales.end() ? scales.back() : *found;
  result.text = fmt::format("{:.4g} {}{}", *value / factor, prefix, unit);
  return result;
}

std::optional<std::int64_t> known(std::int64_t value) {
  return value < 0 ? std::nullopt : std::optional(value);
}

}  // namespace

Table probes_table(const Store& store, const std::string& id) {
  if (!store.experiment(id)) {
    throw Error("show experiment " + id, ErrorCode::not_found,
                "there is none of this id in " + store.file().string() + " (virtrain list shows them)");
  }
  std::map<ProbeKey, std::map<std::string, ProbeGroup>> by_key;
  for (const auto& probe : store.probes(id)) {
    auto& group = by_key[key_of(probe)][probe.arm];
    group.values.push_back(probe.value);
    if (probe.bus_bytes_per_second) { group.bus.push_back(*probe.bus_bytes_per_second); }
    group.wrong += probe.wrong.value_or(0);
  }
  Table table;
  table.title = "probes of experiment " + id;
  table.columns = {{"name", "probe"},
                   {"data_type", "type", false, true},
                   {"side", "side", false, true},
                   {"size_bytes", "size (B)", true, true},
                   {"ranks", "ranks", true, true},
                   {"arm", "arm"},
                   {"n", "n", true},
                   {"value", "median", true},
                   {"bus_bytes_per_second", "bus", true, true},
                   {"of_bare_metal", "of bare metal", true, true},
                   {"wrong", "wrong", true, true}};
  for (const auto& [key, arms] : by_key) {
    const auto base = arms.find("bare_metal");
    const auto base_value = base == arms.end() ? std::nullopt : median_of(base->second.values);
    for (const auto& [arm, group] : arms) {
      const auto value = median_of(group.values);
      const bool is_compared = base_value && *base_value > 0 && arm != "bare_metal";
      table.rows.push_back({cell(key.name), cell(key.data_type), cell(key.side), cell(known(key.size_bytes)),
                            cell(known(key.ranks)), cell(arm),
                            cell(static_cast<std::int64_t>(group.values.size())),
                            figure_cell(value, key.unit), figure_cell(median_of(group.bus), "B/s"),
                            share_cell(is_compared ? std::optional(*value / *base_value) : std::nullopt),
                            cell(group.wrong > 0 ? std::optional(group.wrong) : std::nullopt)});
    }
  }
  if (table.rows.empty()) { table.notes.push_back("this experiment has no probes"); }
  return table;
}

}  // namespace virtrain::results
