#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/enum_text.h"

namespace virtrain::results {

/// Records that an import added.
struct ImportReport {
  std::int64_t experiments = 0;
  std::int64_t trials = 0;
  std::int64_t missing = 0;  ///< of the trials: those without a throughput
  std::int64_t samples = 0;
  std::int64_t telemetry = 0;
  std::int64_t figures = 0;  ///< of jobs, and their readings
  std::int64_t events = 0;
  std::int64_t probes = 0;
  std::int64_t security = 0;
  std::int64_t wrong = 0;               ///< of the probes: those whose data came out wrong
  std::int64_t left_out = 0;            ///< metrics that are no throughput and no probe
  std::vector<std::string> notes = {};  ///< what the user should know of it, safe to show
};

/// "3 experiments, 120 trials (2 missing)".
std::string import_words(const ImportReport& report);

/// Formats that `import` reads (docs/formats.md).
VIRTRAIN_ENUM_CLASS(FileFormat, jsonl, tf_cnn_benchmarks, nccl_tests, superbench, csv, dllogger, torchvision,
                    mlperf, nvbandwidth, perfkit, reframe, horovod)
/// "jsonl", "tf_cnn_benchmarks", "nccl-tests", ….
const char* format_name(FileFormat format);
/// All of them.
std::vector<std::string> format_names();
std::optional<FileFormat> parse_file_format(std::string_view name);

/// Whose throughput a figure of a file is.
VIRTRAIN_ENUM_CLASS(Scope, rank, tenant, trial)

/// Facts that files of other tools lack; empty where the file, or its place in a folder, gives them. In a CSV
/// file they fill the columns that it lacks.
struct ImportSettings {
  bool skip_failed = false;               ///< import what is good and report what is not
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
  std::map<std::string, std::string> columns = {};  ///< of a CSV file: its column, the key that it fills
  std::string collective = {};                      ///< of nccl-tests: one of collective_names()
};

/// The options that files of the format are read with: "--experiment", …; none for exchange records.
std::vector<std::string> options_of(FileFormat format);
/// Options that were given and that none of the formats takes.
std::vector<std::string> idle_options(const ImportSettings& settings, const std::vector<FileFormat>& formats);

/// "all_reduce", …: what nccl-tests measures.
std::vector<std::string> collective_names();

}  // namespace virtrain::results
