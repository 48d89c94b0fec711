#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "common/contains.h"
#include "common/text/text.h"
#include "results/store/connection.h"
#include "results/store/store.h"
#include "sql_embedded.h"

namespace virtrain::results {
namespace {

/// For select_sql: the rows of the table that belong to the experiment of an id.
std::string of_experiment(const std::string& table, const char* order) {
  return table + " WHERE experiment_number = (SELECT number FROM experiment WHERE id = ?) ORDER BY " + order;
}

template <typename Record>
std::vector<Record> read_rows_with_id(Query& query) {
  std::vector<Record> rows;
  while (query.next()) {
    auto& row = rows.emplace_back();
    query.row().read(row.id);
    query.read_columns(row);
  }
  return rows;
}

Fingerprint read_fingerprint(Query& query) {
  Fingerprint fingerprint;
  while (query.next()) {
    auto key = query.row().read<std::string>();
    fingerprint[std::move(key)] = query.read<std::string>();
  }
  return fingerprint;
}

std::string no_match_words(const Selection& selection, const std::filesystem::path& file) {
  std::string words = "no experiment ";
  if (!selection.experiments.empty()) { words += join(selection.experiments, ", ") + " "; }
  words += "with trials";
  if (!selection.scenario.empty()) { words += " of scenario " + selection.scenario; }
  if (!selection.label.empty()) { words += " with label " + selection.label; }
  return words + " in " + file.string() +
         " (virtrain list shows what there is, virtrain show --probes the probes)";
}

}  // namespace

std::vector<ExperimentSummary> Store::list_experiments() const {
  return connection_->guarded("list experiments", [&] {
    std::vector<ExperimentSummary> list;
    auto query = connection_->query(std::string(sql::list_experiments_sql));
    while (query.next()) {
      auto& [experiment, trials, finished, failed, interrupted, probes] = list.emplace_back();
      query.row().read(experiment.id);
      query.read(experiment.scenario);
      query.read(experiment.label);
      query.read(experiment.started_at);
      query.read(experiment.ended_at);
      query.read(experiment.status);
      query.read(experiment.host_name);
      query.read(experiment.virtrain_version);
      query.read(trials);
      query.read(finished);
      query.read(failed);
      query.read(interrupted);
      query.read(probes);
    }
    return list;
  });
}

std::optional<Experiment> Store::experiment(const std::string& id) const {
  return connection_->guarded("read experiment " + id, [&]() -> std::optional<Experiment> {
    auto query = connection_->query(select_sql<Experiment>("experiment WHERE id = ?"));
    if (!query.bind(id).next()) { return std::nullopt; }
    Experiment experiment;
    query.read_columns(experiment);
    auto facts = connection_->query(
        "SELECT key, value FROM fingerprint "
        "WHERE experiment_number = (SELECT number FROM experiment WHERE id = ?)");
    experiment.fingerprint = read_fingerprint(facts.bind(id));
    return experiment;
  });
}

Experiment Store::known_experiment(const std::string& verb, const std::string& id) const {
  if (auto found = experiment(id)) { return std::move(*found); }
  throw Error(verb + " experiment " + id, ErrorCode::not_found,
              "there is none of this id in " + file().string() + " (virtrain list shows them)");
}

std::string Store::full_id(const std::string& begin) const {
  return connection_->guarded("find experiment " + begin, [&] {
    constexpr std::size_t most_shown = 5;
    auto query =
        connection_->query("SELECT id FROM experiment WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id");
    query.bind(begin);
    std::vector<std::string> ids;
    while (query.next()) {
      ids.push_back(query.row().read<std::string>());
      if (ids.back() == begin) { return begin; }
    }
    if (ids.empty() || begin.empty()) { connection_->experiment_number(begin); }
    if (ids.size() == 1) { return ids.front(); }
    const bool more = ids.size() > most_shown;
    ids.resize(std::min(ids.size(), most_shown));
    throw Error("find experiment " + begin, ErrorCode::not_found,
                fmt::format("several ids begin so: {}{}", join(ids, ", "), more ? ", …" : ""));
  });
}

std::vector<std::string> Store::full_ids(const std::vector<std::string>& begins) const {
  std::vector<std::string> ids;
  ids.reserve(begins.size());
  for (const auto& begin : begins) { ids.push_back(full_id(begin)); }
  return ids;
}

std::vector<std::string> Store::select(const Selection& selection) const {
  const auto wanted = full_ids(selection.experiments);
  return connection_->guarded("select experiments", [&] {
    const bool latest_only = selection.experiments.empty() && selection.scenario.empty() &&
                             selection.label.empty() && !selection.all;
    auto query = connection_->query(std::string(sql::select_experiments_sql));
    query.bind(selection.scenario)
        .bind(selection.label)
        .bind(std::int64_t{latest_only})
        .bind(!selection.experiments.empty());
    std::vector<std::string> ids;
    while (query.next()) {
      auto id = query.row().read<std::string>();
      if (wanted.empty() || contains(wanted, id)) { ids.push_back(id); }
    }
    if (ids.empty()) {
      throw Error("select experiments", ErrorCode::not_found, no_match_words(selection, connection_->file));
    }
    if (latest_only) { ids.erase(ids.begin(), ids.end() - 1); }
    return ids;
  });
}

std::vector<Trial> Store::trials(const std::string& experiment) const {
  return connection_->guarded("read trials of " + experiment, [&] {
    auto query = connection_->query(select_sql<Trial>(of_experiment("trial", "id"), "id, "));
    auto trials = read_rows_with_id<Trial>(query.bind(experiment));
    for (auto& trial : trials) { trial.experiment = experiment; }
    return trials;
  });
}

std::vector<Tenant> Store::tenants(std::int64_t trial) const {
  return connection_->guarded("read tenants", [&] {
    auto query =
        connection_->query(select_sql<Tenant>("tenant WHERE trial_id = ? ORDER BY tenant_index", "id, "));
    return read_rows_with_id<Tenant>(query.bind(trial));
  });
}

std::vector<Node> Store::nodes(std::int64_t tenant) const {
  return connection_->guarded("read nodes", [&] {
    auto query = connection_->query(select_sql<Node>("node WHERE tenant_id = ? ORDER BY id", "id, "));
    auto nodes = read_rows_with_id<Node>(query.bind(tenant));
    for (auto& node : nodes) {
      auto facts = connection_->query("SELECT key, value FROM fingerprint WHERE node_id = ?");
      node.fingerprint = read_fingerprint(facts.bind(node.id));
    }
    return nodes;
  });
}

std::vector<Rank> Store::ranks(std::int64_t tenant) const {
  return connection_->guarded("read ranks", [&] {
    auto query = connection_->query(select_sql<Rank>("rank WHERE tenant_id = ? ORDER BY rank", "id, "));
    return read_rows_with_id<Rank>(query.bind(tenant));
  });
}

std::vector<RankWork> Store::work_on_hosts(const std::string& experiment) const {
  return connection_->guarded("read what ranks did on each host", [&] {
    return connection_->query(std::string(sql::host_readings_sql)).bind(experiment).rows<RankWork>();
  });
}

std::vector<Transport> Store::transports(std::int64_t tenant) const {
  return connection_->guarded("read transports", [&] {
    const auto sql = select_sql<Transport>("transport WHERE tenant_id = ? ORDER BY from_node, to_node");
    return connection_->query(sql).bind(tenant).rows<Transport>();
  });
}

std::vector<Sample> Store::samples(std::int64_t rank) const {
  return connection_->guarded("read samples", [&] {
    const auto sql = select_sql<Sample>("sample WHERE rank_id = ? ORDER BY rowid");
    return connection_->query(sql).bind(rank).rows<Sample>();
  });
}

std::vector<Telemetry> Store::telemetry(std::int64_t node) const {
  return connection_->guarded("read telemetry", [&] {
    const auto sql = select_sql<Telemetry>("telemetry WHERE node_id = ? ORDER BY rowid");
    return connection_->query(sql).bind(node).rows<Telemetry>();
  });
}

std::vector<Figure> Store::figures(std::int64_t tenant) const {
  return connection_->guarded("read figures", [&] {
    const auto sql = select_sql<Figure>("figure WHERE tenant_id = ? ORDER BY rowid");
    return connection_->query(sql).bind(tenant).rows<Figure>();
  });
}

std::vector<TrialFigure> Store::trial_figures(const std::string& experiment) const {
  return connection_->guarded("read the figures of " + experiment, [&] {
    return connection_->query(std::string(sql::trial_figures_sql)).bind(experiment).rows<TrialFigure>();
  });
}

std::vector<Event> Store::events(const std::string& experiment) const {
  return connection_->guarded("read events of " + experiment, [&] {
    auto query = connection_->query(select_sql<Event>(of_experiment("event", "rowid"), "trial_id, "));
    query.bind(experiment);
    std::vector<Event> events;
    while (query.next()) {
      auto& event = events.emplace_back();
      query.row().read(event.trial);
      query.read_columns(event);
    }
    return events;
  });
}

std::vector<Probe> Store::probes(const std::string& experiment) const {
  return connection_->guarded("read probes of " + experiment, [&] {
    const auto sql = select_sql<Probe>(of_experiment("probe", "rowid"));
    return connection_->query(sql).bind(experiment).rows<Probe>();
  });
}

std::int64_t Store::last_probe_run(const std::string& experiment) const {
  return connection_->guarded("read probes of " + experiment, [&] {
    auto query = connection_->query("SELECT coalesce(max(run), 0) FROM probe WHERE experiment_number = ?");
    query.bind(connection_->experiment_number(experiment)).next();
    return query.read<std::int64_t>();
  });
}

std::vector<LeakSearch> Store::leak_searches(const std::string& experiment) const {
  return connection_->guarded("read leak searches of " + experiment, [&] {
    const auto sql = select_sql<LeakSearch>(of_experiment("security_probe", "rowid"));
    return connection_->query(sql).bind(experiment).rows<LeakSearch>();
  });
}

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
