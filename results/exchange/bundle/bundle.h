#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "results/store/store.h"

namespace virtrain::results {

/// Contents of an evidence bundle that was written.
struct BundleReport {
  std::int64_t files = 0;
  std::vector<std::string> missing;  ///< logs that the database names and that are not there any more
};

/// Writes everything that backs the experiments' figures into one archive (docs/formats.md: "Evidence
/// bundle"): their rows as a database of their own and as exchange records, the scenario, the plan, each VM's
/// domain XML, the logs, hashes of all of it, and how to check them. Equal data gives an equal archive.
/// `file` ends in
/// ".tar.gz" or ".tar.zst", anything else is Error(usage); it appears whole or not at all. Logs are taken
/// only from LOGS/EXPERIMENT/, whatever path an imported record may name.
BundleReport write_bundle(const Store& store, const std::vector<std::string>& experiments,
                          const std::filesystem::path& file, const std::filesystem::path& logs);

}  // namespace virtrain::results
