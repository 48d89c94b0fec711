#pragma once

#include <nlohmann/json.hpp>

#include <vector>

#include "results/exchange/records/line_reader.h"
#include "results/exchange/records/record_importer.h"

namespace virtrain::results {

// One reader a format: lines in, exchange records out. What the file cannot say comes from the settings.
// Every refusal is an Error(bad_input) that starts with "file:line".

inline constexpr double bytes_per_gigabyte = 1e9;
inline constexpr double seconds_per_microsecond = 1e-6;

/// The format that the lines look like; nothing if they look like none. Rewinds.
std::optional<FileFormat> recognise_format(LineReader& lines);
/// A log of another tool in the same file, which its reader passes over.
struct OtherLog {
  FileFormat format;
  std::int64_t line = 0;
};
/// The first one in a log of this format; nothing if there is none. Rewinds.
std::optional<OtherLog> find_other_log(LineReader& lines, FileFormat format);
/// Whether nothing is on any of the lines. Rewinds.
bool is_empty(LineReader& lines);
/// Whether the first line with anything on it begins as a JSON object does. Rewinds.
bool is_json(LineReader& lines);
/// For files that lack what their reader looks for: refuses, with its place, a closing line behind text that
/// a launcher put in front. No reader skips such text: its form is the launcher's.
void refuse_disguised(LineReader& lines);

/// Exchange records, one JSON object a line.
void read_jsonl(LineReader& lines, RecordImporter& importer);
/// RFC 4180 with a header whose names are the keys of a trial record.
void read_csv(LineReader& lines, const ImportSettings& settings, RecordImporter& importer);
/// The log of one tenant of a trial.
struct TenantLog {
  LineReader* lines;
  std::int64_t tenant_index = 0;
};
/// Logs of tf_cnn_benchmarks that together are one trial: one file, or one for each tenant, by their indices.
void read_tf_cnn(const std::vector<TenantLog>& logs, const ImportSettings& settings,
                 RecordImporter& importer);
/// Output of nccl-tests: its table, the JSON document of its -J, or the rows of AMD's rccl-tests -Z json.
void read_nccl_tests(LineReader& lines, const ImportSettings& settings, RecordImporter& importer);
/// SuperBench's results-summary.jsonl.
void read_superbench(LineReader& lines, const ImportSettings& settings, RecordImporter& importer);

/// Horovod's and BytePS' synthetic benchmarks, "Total img/sec on 4 GPU(s): 404.0 +-7.8".
void read_horovod(LineReader& lines, const ImportSettings& settings, RecordImporter& importer);
/// NVIDIA's dllogger: JSON lines "DLLL {…}", or its lines for the terminal, of a run's training throughput.
void read_dllogger(LineReader& lines, const ImportSettings& settings, RecordImporter& importer);
/// Logs of torchvision's reference training, "Epoch: [0]  [10/5005]  …  img/s: 45.6".
void read_torchvision(LineReader& lines, const ImportSettings& settings, RecordImporter& importer);
/// MLPerf logging, ":::MLLOG {…}".
void read_mlperf(LineReader& lines, const ImportSettings& settings, RecordImporter& importer);
/// nvbandwidth's text, or the JSON document of --json.
void read_nvbandwidth(LineReader& lines, const ImportSettings& settings, RecordImporter& importer);
/// PerfKitBenchmarker's samples, a JSON object a line.
void read_perfkit(LineReader& lines, const ImportSettings& settings, RecordImporter& importer);
/// ReFrame's performance logs, and its report in JSON.
void read_reframe(LineReader& lines, const ImportSettings& settings, RecordImporter& importer);

/// "all_reduce" of "all_reduce_perf_mpi" and of "nccl_allreduce.log": a collective's name in one word or
/// several next to each other, the longest there is. Empty if there is none or more than one.
std::string collective_in_name(const std::string& name);
/// Whether it is a line that dllogger prints for people: "DLL 2020-06-24 00:27:06.1 - Summary: train.loss :
/// 7".
bool is_dllogger_of_terminal(std::string_view line);
/// Whether the line names the columns of a ReFrame log.
bool is_reframe_header(std::string_view line);

/// The JSON value of the present line; refuses a key given twice, and more than 64 levels of nesting.
nlohmann::json parse_record(const LineReader& lines);
/// A trial (or probe) record with what the settings say; the keys they leave open are absent. Refuses
/// settings without an experiment or an arm.
nlohmann::json record_of(const ImportSettings& settings, const LineReader& lines);

}  // namespace virtrain::results
