#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "results/exchange/records/import_settings.h"

namespace virtrain::results {

/// A file to import.
struct UnitFile {
  std::filesystem::path path;
  std::int64_t tenant_index = 0;  ///< whose log it is, where each tenant of a trial has one
};

/// Files that are imported together, with what their place says: one, or the tenants of one trial.
struct ImportUnit {
  std::vector<UnitFile> files;
  ImportSettings settings;
  bool found_in_folder = false;  ///< a file of an unknown format may be passed over
};

/// Units to import of a file or "-", or of a folder: every file below it, sorted, tenants of one trial
/// together; of an unpacked bundle its records.
std::vector<ImportUnit> units_of(const std::string& path, const ImportSettings& settings);

}  // namespace virtrain::results
