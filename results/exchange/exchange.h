#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "results/exchange/records/import_settings.h"
#include "results/store/store.h"

namespace virtrain::results {

/// Outcome of one file.
struct FileReport {
  std::string name;
  std::optional<FileFormat> format;  ///< nothing: the file was skipped
  ImportReport report = {};
  std::string refusal = {};                         ///< why it was left out, where failed files are skipped
  std::optional<Store::ImportedFile> earlier = {};  ///< the same bytes, imported before: nothing was done
};

/// Imports files and folders in one transaction: all of it, or nothing and an Error(bad_input) with a line
/// "file:line: reason" for each file that was refused. Files of a folder whose format nobody knows are
/// skipped and reported so. "-" is `standard_input`. With `settings.skip_failed` each file is imported by
/// itself; what is refused is in its report, and an Error only if all are.
std::vector<FileReport> import_paths(Store& store, const std::vector<std::string>& paths,
                                     const ImportSettings& settings, std::istream& standard_input);

/// Adds exchange JSON lines to the store: all of the file, or nothing and an Error(bad_input) that starts
/// with "name:line". The stream must be seekable.
ImportReport import_jsonl(Store& store, std::istream& in, const std::string& name);

/// As import_jsonl, and leaves no trace of when and from where, so that equal records make an equal database.
ImportReport copy_records(Store& store, std::istream& in, const std::string& name);

/// Writes the selected experiments as JSON lines: equal data, equal bytes. Whoever owns the stream knows
/// where it leads and checks whether all went there.
void export_jsonl(const Store& store, const Selection& selection, std::ostream& out);

/// The same of one experiment without its samples and telemetry, of which there may be millions.
void export_records(const Store& store, const std::string& experiment, std::ostream& out);

}  // namespace virtrain::results
