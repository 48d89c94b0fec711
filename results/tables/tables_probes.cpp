#include "common/error.h"
#include "results/tables/probe_figures.h"
#include "results/tables/tables.h"

namespace virtrain::results {
namespace {

/// Absent for no values.
std::optional<double> median_of(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(quantile(values, 0.5));
}

Cell figure_cell(const std::optional<double>& value, const std::string& unit) {
  return value ? Cell{*value, figure_with_unit(*value, unit)} : Cell{};
}

std::optional<std::int64_t> known(std::int64_t value) {
  return value < 0 ? std::nullopt : std::optional(value);
}

/// Whether a collective is much slower in an arm than on bare metal.
bool has_slow_collective(const std::vector<Probe>& probes) {
  constexpr double much = 0.9;
  for (const auto& [key, arms] : probe_figures(probes)) {
    const auto base = arms.find("bare_metal");
    if (base == arms.end() || base->second.bus.empty()) { continue; }
    for (const auto& [arm, readings] : arms) {
      if (!readings.bus.empty() && *median_of(readings.bus) < much * *median_of(base->second.bus)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

Table probes_without_trials(const std::vector<Probe>& probes) {
  auto table = probes_table(probes);
  table.title = "no trials to compare; probes by arm, as virtrain show --probes prints them";
  table.notes.emplace_back(
      "probes get no verdict: that takes pairs of trials (virtrain run, or imported throughputs)");
  if (has_slow_collective(probes)) {
    table.notes.emplace_back(
        "a collective is slower than on bare metal by more than 10 %: look at ATS in the adapter, ACS with "
        "DirectTrans on its path, relaxed ordering, and an adapter below the same switch as its GPU "
        "(docs/gpu-host.md; virtrain doctor)");
  }
  return table;
}

Table probes_table(const std::vector<Probe>& probes) {
  Table table;
  table.columns = {{"name", "probe"},
                   {"data_type", "type", false, true},
                   {"side", "side", false, true},
                   {"size_bytes", "size (B)", true, true},
                   {"nodes", "nodes", true, true},
                   {"ranks", "ranks", true, true},
                   {"arm", "arm"},
                   {"n", "n", true},
                   {"value", "median", true},
                   {"bus_bytes_per_second", "bus", true, true},
                   {"of_bare_metal", "of bare metal", true, true},
                   {"wrong", "wrong", true, true}};
  for (const auto& [key, arms] : probe_figures(probes)) {
    const auto base = arms.find("bare_metal");
    const double base_value = base == arms.end() ? 0 : median_of(base->second.values).value_or(0);
    for (const auto& [arm, readings] : arms) {
      const auto value = median_of(readings.values);
      const bool is_compared = value && base_value > 0 && arm != "bare_metal";
      table.rows.push_back({cell(key.name), cell(key.data_type), cell(side_words(key)),
                            cell(known(key.size_bytes)), cell(known(key.nodes)), cell(known(key.ranks)),
                            cell(arm), cell(static_cast<std::int64_t>(readings.values.size())),
                            figure_cell(value, key.unit), figure_cell(median_of(readings.bus), "B/s"),
                            share_cell(is_compared ? std::optional(*value / base_value) : std::nullopt),
                            cell(readings.wrong > 0 ? std::optional(readings.wrong) : std::nullopt)});
    }
  }
  return table;
}

Table probes_table(const Store& store, const std::string& id) {
  if (!store.experiment(id)) {
    throw Error("show experiment " + id, ErrorCode::not_found,
                "there is none of this id in " + store.file().string() + " (virtrain list shows them)");
  }
  auto table = probes_table(store.probes(id));
  table.title = "probes of experiment " + id;
  if (table.rows.empty()) { table.notes.push_back("this experiment has no probes"); }
  return table;
}

}  // namespace virtrain::results
