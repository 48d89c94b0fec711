#include "results/store/schema/schema.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "common/text/printable.h"
#include "sql_embedded.h"

namespace virtrain::results {
namespace {

/// A function: the texts of another file may not be there yet where this file begins.
std::string_view migration(std::size_t version) {
  const std::array all = {sql::migration_001_base_sql,         sql::migration_002_exchange_sql,
                          sql::migration_003_probe_sql,        sql::migration_004_evidence_sql,
                          sql::migration_005_changes_sql,      sql::migration_006_views_sql,
                          sql::migration_007_security_sql,     sql::migration_008_case_names_sql,
                          sql::migration_009_paired_trials_sql};
  return all.at(version);
}

struct SchemaObject {
  std::string type, table, text;
  bool operator==(const SchemaObject&) const = default;
};

/// By name: a trigger may have that of a table.
using SchemaObjects = std::multimap<std::string, SchemaObject>;

SchemaObjects objects_of(const SQLite::Database& database) {
  SchemaObjects objects;
  SQLite::Statement row(database, "SELECT name, type, tbl_name, coalesce(sql, '') FROM sqlite_schema");
  while (row.executeStep()) {
    objects.emplace(row.getColumn(0).getString(),
                    SchemaObject{row.getColumn(1).getString(), row.getColumn(2).getString(),
                                 row.getColumn(3).getString()});
  }
  return objects;
}

SchemaObjects objects_of_version(std::int64_t version) {
  SQLite::Database fresh(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  for (std::int64_t from = 0; from < version; ++from) { fresh.exec(migration_from(from)); }
  return objects_of(fresh);
}

}  // namespace

std::string migration_from(std::int64_t version) {
  return std::string(migration(static_cast<std::size_t>(version)));
}

std::string foreign_schema(const SQLite::Database& database, std::int64_t version) {
  const auto found = objects_of(database);
  for (const auto& [name, object] : found) {
    if (object.type == "trigger") {
      return fmt::format("it has a trigger {}, and virtrain makes none (DROP TRIGGER takes it away)",
                         excerpt(name));
    }
  }
  for (const auto& [name, expected] : objects_of_version(version)) {
    const auto here = found.find(name);
    if (here == found.end()) { return fmt::format("its {} {} is not there", expected.type, name); }
    if (here->second != expected) {
      return fmt::format("its {} {} is not virtrain's {}", excerpt(here->second.type), name, expected.type);
    }
  }
  return "";
}

}  // namespace virtrain::results
