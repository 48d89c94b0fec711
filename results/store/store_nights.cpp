#include <algorithm>
#include <iterator>

#include "results/store/connection.h"
#include "results/store/store.h"
#include "sql_embedded.h"

namespace virtrain::results {
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
