#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "common/text/text.h"
#include "results/store/connection.h"
#include "results/store/store.h"

namespace virtrain::results {

std::size_t ViewRows::column(std::string_view name) const {
  const auto found = std::ranges::find(columns, name);
  if (found == columns.end()) {
    throw Error("read a view", ErrorCode::not_found, fmt::format("there is no column {}", name));
  }
  return static_cast<std::size_t>(found - columns.begin());
}

const std::vector<std::string>& view_names() {
  static const std::vector<std::string> names = {
      "v_trial",     "v_trial_detail", "v_tenant",     "v_node", "v_rank",  "v_speedup", "v_vm_vs_bare_metal",
      "v_telemetry", "v_probe",        "v_experiment", "v_fact", "v_event", "v_sample",  "v_security",
      "v_figure",    "v_setting"};
  return names;
}

ViewRows Store::view(std::string_view name, const std::vector<std::string>& experiments) const {
  const auto& known = view_names();
  if (std::ranges::find(known, name) == known.end()) {
    throw Error("read a view", ErrorCode::usage,
                fmt::format("there is no view {} (allowed: {})", name, join(known, ", ")));
  }
  return connection_->guarded(fmt::format("read {}", name), [&] {
    // All at once: many views read every trial to answer for one experiment.
    auto query = connection_->query(
        fmt::format("SELECT * FROM {} WHERE experiment IN (SELECT value FROM json_each(?))", name));
    ViewRows view;
    view.columns = query.column_names();
    const auto of = view.column("experiment");
    std::unordered_map<std::string, std::vector<std::vector<nlohmann::json>>> rows;
    query.bind(nlohmann::json(experiments));
    while (query.next()) {
      auto row = query.read_row();
      const auto experiment = row[of].get<std::string>();
      rows[experiment].push_back(std::move(row));
    }
    for (const auto& experiment : experiments) {
      auto& its = rows[experiment];
      std::ranges::move(its, std::back_inserter(view.rows));
      its.clear();
    }
    return view;
  });
}

}  // namespace virtrain::results
