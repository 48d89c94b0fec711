#include <fmt/format.h>

#include "results/store/connection.h"
#include "results/store/store.h"
#include "sql_embedded.h"

namespace virtrain::results {
namespace {

template <typename Row>
std::vector<Row> all_rows(Query query) {
  std::vector<Row> rows;
  while (query.next()) { query.row().read_columns(rows.emplace_back()); }
  return rows;
}

}  // namespace

std::vector<Night> Store::nights() const {
  return connection_->guarded(
      "read the nights", [&] { return all_rows<Night>(connection_->query(std::string(sql::nights_sql))); });
}

std::vector<NightFigure> Store::night_figures() const {
  return connection_->guarded("read the figures of nights", [&] {
    return all_rows<NightFigure>(connection_->query(std::string(sql::night_figures_sql)));
  });
}

std::vector<ArmFact> Store::night_facts(std::int64_t night) const {
  return connection_->guarded("read the facts of a night", [&] {
    auto query = connection_->query(std::string(sql::comparison_facts_sql));
    query.bind(night).bind(nlohmann::json());
    std::vector<ArmFact> facts;
    while (query.next()) { query.row().read_columns(facts.emplace_back()); }
    return facts;
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
    return all_rows<Acknowledgement>(
        connection_->query("SELECT " + column_list<Acknowledgement>() + " FROM acknowledgement"));
  });
}

}  // namespace virtrain::results
