#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <string>

namespace virtrain::results {

/// The SQL that brings a database from schema `version` (0: empty) to the next.
std::string migration_from(std::int64_t version);

/// What about this database is not as migrations to `version` make it, in words; empty: nothing. Nothing may
/// be missing, changed or added: a trigger would run with what is stored, an index would grow with it, and a
/// table that is a view could go on for ever.
std::string foreign_schema(const SQLite::Database& database, std::int64_t version);

}  // namespace virtrain::results
