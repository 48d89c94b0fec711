#pragma once

#include <filesystem>
#include <string>

#include "results/exchange/files/temporary_text.h"

namespace virtrain::results {

/// Whether the file starts as SQLite's do.
bool is_database(const std::filesystem::path& file);

/// All experiments of another results database as exchange records. It stays as it is: what is read, and
/// brought up to date where it is of an older version, is a copy. Error(bad_input) where it is no database of
/// virtrain's, or one of a newer version.
TemporaryText records_of_database(const std::filesystem::path& file);

}  // namespace virtrain::results
