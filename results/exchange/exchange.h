#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

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
  std::int64_t probes = 0;
  std::int64_t wrong = 0;     ///< of the probes: those whose data came out wrong
  std::int64_t left_out = 0;  ///< metrics that are no throughput and no probe
};

/// "3 experiments, 120 trials (2 missing)".
std::string import_words(const ImportReport& report);

/// What `import` reads (docs/formats.md).
enum class FileFormat { jsonl, tf_cnn_benchmarks, nccl_tests, superbench, csv };
/// "jsonl", "tf_cnn_benchmarks", "nccl-tests", "superbench", "csv".
const char* format_name(FileFormat format);
std::optional<FileFormat> parse_file_format(std::string_view name);

/// Whose throughput a figure of a file is.
enum class Scope { rank, tenant, trial };
std::optional<Scope> parse_scope(std::string_view name);

/// What files of other tools cannot say about themselves; empty where the file, or its place in a folder,
/// says it. Of a CSV file these fill the columns that it lacks.
struct ImportSettings {
  std::optional<FileFormat> format = {};  ///< nothing: told by the content, file by file
  std::string experiment = {};
  std::string scenario = {};
  std::string label = {};
  std::string case_name = {};
  std::string arm = {};
  std::optional<std::int64_t> pair = {};
  std::optional<std::int64_t> nodes = {};
  std::optional<std::int64_t> gpus_per_node = {};
  std::optional<std::int64_t> ranks = {};  ///< of the whole trial
  std::optional<std::int64_t> batch_size = {};
  std::string precision = {};
  std::string virtualization = {};
  std::string started_at = {};
  std::optional<Scope> scope = {};
  std::string collective = {};  ///< of nccl-tests: one of collective_names()
};

/// "all_reduce", …: what nccl-tests measures.
std::vector<std::string> collective_names();

/// What became of one file.
struct FileReport {
  std::string name;
  std::optional<FileFormat> format;  ///< nothing: the file was skipped
  ImportReport report = {};
};

/// Imports files and folders in one transaction: all of it, or nothing and an Error(bad_input) with a line
/// "file:line: reason" for each file that was refused. Files of a folder whose format nobody knows are
/// skipped and reported so. "-" is `standard_input`.
std::vector<FileReport> import_paths(Store& store, const std::vector<std::string>& paths,
                                     const ImportSettings& settings, std::istream& standard_input);

/// Adds exchange JSON lines to the store: all of the file, or nothing and an Error(bad_input) that starts
/// with "name:line". The stream must be seekable.
ImportReport import_jsonl(Store& store, std::istream& in, const std::string& name);

/// As import_jsonl, and leaves no trace of when and from where, so that equal records make an equal database.
ImportReport copy_records(Store& store, std::istream& in, const std::string& name);

/// Writes the selected experiments as JSON lines: equal data, equal bytes.
void export_jsonl(const Store& store, const Selection& selection, std::ostream& out);

}  // namespace virtrain::results
