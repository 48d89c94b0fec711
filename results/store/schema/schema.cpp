#include "results/store/schema/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/text/printable.h"
#include "sql_embedded.h"

namespace virtrain::results {
namespace {

/// As a row of sqlite_schema has it.
struct SchemaObject {
  std::string name, type, table, text;
  auto operator<=>(const SchemaObject&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// With repetition: the file may have a row twice.
using SchemaObjects = std::multiset<SchemaObject>;

SchemaObjects objects_of(const SQLite::Database& database) {
  SchemaObjects objects;
  SQLite::Statement row(database, "SELECT name, type, tbl_name, coalesce(sql, '') FROM sqlite_schema");
  while (row.executeStep()) {
    objects.insert({row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString(),
                    row.getColumn(3).getString()});
  }
  return objects;
}

SchemaObjects objects_of_version(std::int64_t version) {
  SQLite::Database fresh(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  for (std::int64_t at = 0; at < version;) { at = migrate_from(at, fresh); }
  return objects_of(fresh);
}

}  // namespace

std::int64_t migrate_from(std::int64_t version, SQLite::Database& database) {
  if (version == 0) {
    database.exec(std::string(sql::version_009_sql));
    return oldest_schema_version;
  }
  if (version == 9) {
    database.exec(std::string(sql::migration_010_key_sql));
    database.exec(std::string(sql::migration_010_imported_sql));
    SQLite::Statement(database, std::string(sql::names_of_version_9_sql))
        .exec();  // without a parameter: of all
  } else if (version == 10) {
    database.exec(std::string(sql::migration_011_host_sql));
    database.exec(std::string(sql::migration_011_run_sql));
  } else if (version == 11) {
    database.exec(std::string(sql::migration_012_figure_sql));
  } else {
    throw Error("bring a results database up to date", ErrorCode::bad_input,
                fmt::format("no step begins at schema {}", version));
  }
  return version + 1;
}

std::string foreign_schema(const SQLite::Database& database, std::int64_t version) {
  const auto found = objects_of(database);
  const auto wanted = objects_of_version(version);
  const auto has_name = [](const SchemaObjects& objects, const std::string& name) {
    return std::ranges::any_of(objects, [&](const auto& one) { return one.name == name; });
  };
  SchemaObjects missing, added;
  std::ranges::set_difference(wanted, found, std::inserter(missing, missing.end()));
  std::ranges::set_difference(found, wanted, std::inserter(added, added.end()));
  if (!missing.empty()) {
    const auto& first = *missing.begin();
    const auto here = std::ranges::find(found, first.name, &SchemaObject::name);
    if (here == found.end()) { return fmt::format("its {} {} is not there", first.type, first.name); }
    return fmt::format("its {} {} is not virtrain's {}", excerpt(here->type), first.name, first.type);
  }
  if (added.empty()) { return ""; }
  const auto& first = *added.begin();
  const bool is_double = has_name(wanted, first.name);
  return fmt::format("it has {} {} {}, which virtrain does not make{}", is_double ? "another" : "a",
                     excerpt(first.type), excerpt(first.name),
                     is_double ? "" : "; DROP it, and keep what is yours in a file of its own (ATTACH)");
}

}  // namespace virtrain::results
