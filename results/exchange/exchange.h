#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "results/store/store.h"

namespace virtrain::results {

/// What an import added.
struct ImportReport {
  std::int64_t experiments = 0;
  std::int64_t trials = 0;
  std::int64_t missing = 0;  ///< of the trials: those without a throughput
  std::int64_t samples = 0;
  std::int64_t telemetry = 0;
  std::int64_t events = 0;
};

/// "3 experiments, 120 trials (2 missing)".
std::string to_string(const ImportReport& report);

/// Adds JSON lines (docs/formats.md) to the store: all of the file, or nothing and an Error(bad_input) that
/// starts with "name:line".
ImportReport import_jsonl(Store& store, std::istream& in, const std::string& name);

/// Writes the selected experiments as JSON lines: equal data, equal bytes.
void export_jsonl(const Store& store, const Selection& selection, std::ostream& out);

}  // namespace virtrain::results
