#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "common/text/cpu_list.h"
#include "results/store/connection.h"
#include "results/store/store.h"
#include "sql_embedded.h"

namespace virtrain::results {
namespace {

template <typename Row>
void read_rows_of(Query& query, std::int64_t experiment, std::vector<Row>& rows) {
  while (query.next()) {
    query.row().read_columns(rows.emplace_back());
    rows.back().experiment = experiment;
  }
}

/// Those of one rank follow each other; a tenant may come several times.
void read_step_times(Query& query, std::int64_t experiment, std::vector<StepTimes>& step_times) {
  while (query.next()) {
    StepTimes here;
    here.experiment = experiment;
    query.row().read(here.case_name);
    query.read(here.arm);
    query.read(here.tenant_index);
    query.read(here.unit);
    const auto whose = [](const StepTimes& one) {
      return std::tie(one.experiment, one.case_name, one.arm, one.tenant_index, one.unit);
    };
    if (step_times.empty() || whose(step_times.back()) != whose(here)) {
      step_times.push_back(std::move(here));
    }
    step_times.back().seconds.push_back(query.read<double>());
  }
}

void read_cores(Query& query, std::int64_t experiment, std::vector<ArmNumber>& numbers) {
  while (query.next()) {
    ArmNumber number;
    number.experiment = experiment;
    number.name = "cores";
    query.row().read(number.case_name);
    query.read(number.arm);
    const auto cores = query.read<std::string>();
    query.read(number.count);
    query.read(number.unit);
    try {
      number.value = static_cast<double>(parse_cpu_list(cores).size());
    } catch (const Error&) {
      continue;  // an imported record may say anything
    }
    numbers.push_back(std::move(number));
  }
}

/// Appends what `read` makes of the query's rows for each experiment, which it gets with the experiment's
/// position in the list; the first parameter is the experiment's number, `more` are those after it.
template <typename Connection, typename Row, typename... More>
void read_each(Connection& connection, const std::vector<std::string>& experiments, std::string_view sql,
               void (*read)(Query&, std::int64_t, std::vector<Row>&), std::vector<Row>& into,
               const More&... more) {
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    auto query = connection.query(std::string(sql));
    query.bind(connection.experiment_number(experiments[i]));
    (query.bind(more), ...);
    read(query, static_cast<std::int64_t>(i), into);
  }
}

}  // namespace

std::vector<ComparisonExperiment> Store::comparison_experiments(
    const std::vector<std::string>& experiments) const {
  return connection_->guarded("read experiments to compare", [&] {
    std::vector<ComparisonExperiment> list;
    for (const auto& id : experiments) {
      auto query = connection_->query(std::string(sql::comparison_experiment_sql));
      if (!query.bind(connection_->experiment_number(id)).next()) { continue; }
      query.row().read_columns(list.emplace_back());
    }
    return list;
  });
}

std::set<std::string> Store::comparison_starts(const std::string& experiment) const {
  return connection_->guarded("read when trials began", [&] {
    std::set<std::string> starts;
    auto query = connection_->query(std::string(sql::comparison_starts_sql));
    query.bind(connection_->experiment_number(experiment));
    while (query.next()) { starts.insert(query.row().read<std::string>()); }
    return starts;
  });
}

ComparisonData Store::comparison_data(const std::vector<std::string>& experiments,
                                      const std::vector<std::string>& environment_fields) const {
  return connection_->guarded("read trials to compare", [&] {
    ComparisonData data;
    data.experiments = comparison_experiments(experiments);
    std::set<std::string> scenarios;
    for (const auto& experiment : data.experiments) { scenarios.insert(experiment.scenario); }
    auto& connection = *connection_;
    read_each(connection, experiments, sql::comparison_rows_sql, read_rows_of<ComparisonRow>, data.rows);
    read_each(connection, experiments, sql::comparison_tenants_sql, read_rows_of<TenantMean>, data.tenants);
    read_each(connection, experiments, sql::comparison_facts_sql, read_rows_of<ArmFact>, data.facts,
              nlohmann::json(environment_fields));
    if (std::ranges::any_of(data.tenants, [](const auto& t) { return t.tenant_index > 0; })) {
      read_each(connection, experiments, sql::comparison_steps_sql, read_step_times, data.step_times);
    }
    data.published = connection_->query(std::string(sql::comparison_published_sql))
                         .bind(nlohmann::json(scenarios))
                         .bind(nlohmann::json(experiments))
                         .rows<PublishedMean>();
    return data;
  });
}

std::vector<ArmNumber> Store::comparison_numbers(const std::vector<std::string>& experiments) const {
  return connection_->guarded("read what may explain a gap", [&] {
    std::vector<ArmNumber> numbers;
    auto& connection = *connection_;
    read_each(connection, experiments, sql::comparison_ranks_sql, read_rows_of<ArmNumber>, numbers);
    read_each(connection, experiments, sql::comparison_telemetry_sql, read_rows_of<ArmNumber>, numbers);
    read_each(connection, experiments, sql::comparison_cores_sql, read_cores, numbers);
    return numbers;
  });
}

template <typename Row>
std::vector<Row> Store::rows_of_each(const std::string& operation,
                                     const std::vector<std::string>& experiments,
                                     std::string_view sql) const {
  return connection_->guarded(operation, [&] {
    std::vector<Row> rows;
    read_each(*connection_, experiments, sql, read_rows_of<Row>, rows);
    return rows;
  });
}

std::vector<NeighbourMean> Store::comparison_neighbours(const std::vector<std::string>& experiments) const {
  return rows_of_each<NeighbourMean>("read what stressors did", experiments, sql::comparison_neighbours_sql);
}

std::vector<NeighbourRate> Store::comparison_neighbour_rates(
    const std::vector<std::string>& experiments) const {
  return rows_of_each<NeighbourRate>("read how fast stressors worked", experiments,
                                     sql::comparison_neighbour_rates_sql);
}

std::vector<LaterStepRow> Store::comparison_later_steps(const std::vector<std::string>& experiments) const {
  return rows_of_each<LaterStepRow>("read how victims went on", experiments, sql::comparison_later_steps_sql);
}

std::vector<ExperimentProbe> Store::comparison_probes(const std::vector<std::string>& experiments) const {
  std::vector<ExperimentProbe> all;
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    for (auto& probe : probes(experiments[i])) {
      all.push_back({static_cast<std::int64_t>(i), std::move(probe)});
    }
  }
  return all;
}

namespace {

/// The rows that the statement removed.
template <typename Connection>
std::int64_t removed_by(Connection& connection, const char* sql, std::int64_t night) {
  connection.query(sql).bind(night).run();
  auto changes = connection.query("SELECT changes()");
  changes.next();
  std::int64_t rows = 0;
  changes.row().read(rows);
  return rows;
}

constexpr const char* remove_samples_sql =
    "DELETE FROM sample WHERE rank_id IN (SELECT r.id FROM trial t JOIN tenant w ON w.trial_id = t.id "
    "JOIN rank r ON r.tenant_id = w.id WHERE t.experiment_number = ?)";
constexpr const char* remove_telemetry_sql =
    "DELETE FROM telemetry WHERE node_id IN (SELECT n.id FROM trial t JOIN tenant w ON w.trial_id = t.id "
    "JOIN node n ON n.tenant_id = w.id WHERE t.experiment_number = ?)";
constexpr const char* remove_figure_readings_sql =
    "DELETE FROM figure WHERE t_ns IS NOT NULL AND tenant_id IN (SELECT w.id FROM trial t "
    "JOIN tenant w ON w.trial_id = t.id WHERE t.experiment_number = ?)";

}  // namespace

Thinned Store::thin_nights(const std::string& scenario, const std::string& before) {
  const std::string operation = "thin the runs of " + scenario;
  return connection_->guarded(operation, [&] {
    std::vector<std::int64_t> old;
    {
      auto query = connection_->query(std::string(sql::nights_to_thin_sql));
      query.bind(scenario).bind(before);
      while (query.next()) { old.push_back(query.row().read<std::int64_t>()); }
    }
    const auto bytes = [&] { return connection_->pragma("page_count") * connection_->pragma("page_size"); };
    const auto bytes_before = bytes();
    Thinned thinned;
    for (const auto night : old) {
      connection_->in_transaction(operation, [&] {
        thinned.samples += removed_by(*connection_, remove_samples_sql, night);
        thinned.readings += removed_by(*connection_, remove_telemetry_sql, night);
        thinned.readings += removed_by(*connection_, remove_figure_readings_sql, night);
      });
      ++thinned.nights;
    }
    if (!old.empty()) { connection_->give_room_back(); }
    thinned.freed_bytes = bytes_before - bytes();
    return thinned;
  });
}

std::vector<Night> Store::nights() const {
  return connection_->guarded("read the runs",
                              [&] { return connection_->query(std::string(sql::nights_sql)).rows<Night>(); });
}

std::vector<NightFigure> Store::night_figures() const {
  return connection_->guarded("read the figures of runs", [&] {
    return connection_->query(std::string(sql::night_figures_sql)).rows<NightFigure>();
  });
}

std::vector<ArmFact> Store::night_facts(std::int64_t night) const {
  return connection_->guarded("read the properties of a run", [&] {
    auto facts = connection_->query(std::string(sql::comparison_facts_sql))
                     .bind(night)
                     .bind(nlohmann::json())
                     .rows<ArmFact>();
    std::ranges::move(connection_->query(std::string(sql::night_settings_sql)).bind(night).rows<ArmFact>(),
                      std::back_inserter(facts));
    return facts;
  });
}

StoredReadings Store::stored_readings(std::int64_t night) const {
  return connection_->guarded("count the readings of a run", [&] {
    return connection_->query(std::string(sql::stored_readings_sql))
        .bind(night)
        .bind(night)
        .rows<StoredReadings>()
        .front();
  });
}

void Store::acknowledge(const Acknowledgement& acknowledgement) {
  connection_->in_transaction("acknowledge change " + acknowledgement.change, [&] {
    connection_
        ->query(
            "INSERT INTO acknowledgement (change, why, acknowledged_at) VALUES (?, ?, ?) "
            "ON CONFLICT (change) DO UPDATE SET why = excluded.why, acknowledged_at = "
            "excluded.acknowledged_at")
        .bind_columns(acknowledgement)
        .run();
  });
}

std::vector<Acknowledgement> Store::acknowledgements() const {
  return connection_->guarded("read what was acknowledged", [&] {
    return connection_->query(select_sql<Acknowledgement>("acknowledgement")).rows<Acknowledgement>();
  });
}

}  // namespace virtrain::results
