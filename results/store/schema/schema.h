#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <string>

namespace virtrain::results {

/// The oldest schema that is brought up to date: what virtrain 0.2.0 writes.
inline constexpr std::int64_t oldest_schema_version = 9;

/// Takes one step from schema `version` (0: an empty file) and gives the version that it leads to.
std::int64_t migrate_from(std::int64_t version, SQLite::Database& database);

/// First difference of this database's schema from what migrations to `version` make, for people; empty:
/// none. Nothing may be missing, changed or added: a trigger would run with what is stored, an index would
/// grow with it, and a table that is a view could go on for ever.
std::string foreign_schema(const SQLite::Database& database, std::int64_t version);

}  // namespace virtrain::results
