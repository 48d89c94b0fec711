#include "harness/job/job_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/tool_output.h"
#include "results/store/probe_settings.h"

namespace virtrain::harness {
namespace {

using results::Figure;
using results::Probe;

/// A line's way from the job to its agent.
constexpr double most_table_delay_seconds = 0.25;

/// All that tells a value of a row from others.
using RowKey = std::pair<std::string, results::ProbeSettings>;

RowKey key_of(const Probe& probe, const char* bandwidth) {
  RowKey key{probe.name, results::settings_of(probe)};
  auto& settings = key.second;
  if (probe.size_bytes) { settings["size_bytes"] = std::to_string(*probe.size_bytes); }
  if (!probe.data_type.empty()) { settings["data_type"] = probe.data_type; }
  if (const auto side = results::side_of(probe); !side.empty()) { settings["side"] = side; }
  settings["bandwidth"] = bandwidth;
  return key;
}

/// Rows of equal settings, such as those of several cycles, are one figure: their mean.
std::vector<Figure> figures_of(const std::vector<Probe>& probes) {
  struct KnownRow {
    std::size_t index = 0;
    double count = 0;
  };
  std::vector<Figure> figures;
  std::map<RowKey, KnownRow> known;
  const auto add = [&](const RowKey& key, double value) {
    auto& row = known.try_emplace(key, KnownRow{figures.size(), 0}).first->second;
    if (row.count == 0) {
      figures.emplace_back();
      figures.back().name = key.first;
      figures.back().unit = "B/s";
      figures.back().settings = key.second;
    }
    row.count += 1;
    auto& mean = figures[row.index].value;
    mean += (value - mean) / row.count;
  };
  for (const auto& probe : probes) {
    add(key_of(probe, "algorithm"), probe.value);
    if (probe.bus_bytes_per_second) { add(key_of(probe, "bus"), *probe.bus_bytes_per_second); }
  }
  return figures;
}

/// The rows that decide: those of the size, out of place where there are any.
std::vector<const Probe*> deciding_rows(const std::vector<Probe>& probes, std::int64_t size) {
  std::vector<const Probe*> rows;
  for (const auto* side : {"out of place", "in place", ""}) {
    for (const auto& probe : probes) {
      if (probe.size_bytes == size && probe.bus_bytes_per_second && results::side_of(probe) == side) {
        rows.push_back(&probe);
      }
    }
    if (!rows.empty()) { return rows; }
  }
  return rows;
}

std::string sizes_text(const std::set<std::int64_t>& sizes) {
  constexpr std::size_t most_shown = 40;
  std::vector<std::string> words;
  for (const auto size : sizes) {
    if (words.size() == most_shown) { return join(words, ", ") + ", …"; }
    words.push_back(format_size(static_cast<std::uint64_t>(size)));
  }
  return join(words, ", ");
}

void decide(const std::vector<Probe>& probes, const JobThroughput& how, JobResult& result) {
  std::set<std::int64_t> sizes;
  std::set<std::string> names;
  for (const auto& probe : probes) {
    names.insert(probe.name);
    if (probe.size_bytes && probe.bus_bytes_per_second) { sizes.insert(*probe.size_bytes); }
  }
  if (names.size() > 1) {
    result.doubts.push_back(fmt::format("its output has {} ({}), and one of them must decide (run one)",
                                        counted(names.size(), "collective"),
                                        join({names.begin(), names.end()}, ", ")));
    return;
  }
  if (sizes.empty()) {
    result.doubts.emplace_back("its table has no bus bandwidth");
    return;
  }
  const auto size = how.size ? static_cast<std::int64_t>(*how.size) : *sizes.rbegin();
  const auto rows = deciding_rows(probes, size);
  if (rows.empty()) {
    result.doubts.push_back(fmt::format("its table has no row of {} (throughput.size; there are {})",
                                        format_size(static_cast<std::uint64_t>(size)), sizes_text(sizes)));
    return;
  }
  double sum = 0;
  for (const auto* row : rows) { sum += *row->bus_bytes_per_second; }
  result.throughput = sum / static_cast<double>(rows.size());
  if (result.throughput == 0) {
    result.doubts.push_back(
        fmt::format("the bus bandwidth at {} is 0: one rank alone has none, and few bytes "
                    "have less than the table prints",
                    format_size(static_cast<std::uint64_t>(size))));
  }
}

}  // namespace

bool is_table(const JobThroughput& throughput) {
  return throughput.format == LineFormat::nccl_tests;
}

void JobTable::add(std::string_view line, std::int64_t t_ns) {
  if (text_.empty()) { first_ns_ = t_ns; }
  text_.append(line).push_back('\n');
  const auto words = virtrain::words_of(line);
  if (results::is_nccl_row(line)) {
    ++rows_;
    last_row_ns_ = t_ns;
  }
  for (std::size_t i = 1; i + 1 < words.size() && words[0] == "#"; ++i) {
    const auto count = words[i] == "iters:" && words[i - 1] != "agg" && words[i - 1] != "warmup"
                           ? parse_integer(words[i + 1])
                           : std::nullopt;
    if (count && *count > 0) { iterations_ = static_cast<double>(*count); }
  }
}

JobResult JobTable::judge(const JobThroughput& how, const std::string& program) const {
  JobResult result;
  result.begin_ns = first_ns_;
  result.end_ns = last_row_ns_;
  if (!has_rows()) {
    result.doubts.emplace_back("the command printed no row of figures");
    return result;
  }
  std::vector<Probe> probes;
  try {
    probes = results::read_nccl_output(text_, program);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) { throw; }
    result.doubts.emplace_back(error.what());
    return result;
  }
  result.others = figures_of(probes);
  result.figures = probes.size();
  double claimed = 0;
  std::int64_t wrong = 0;
  for (const auto& probe : probes) {
    claimed += probe.seconds.value_or(0) * iterations_;
    wrong += probe.wrong.value_or(0);
  }
  if (wrong > 0) {
    result.doubts.push_back(fmt::format("{} of its data came out wrong", counted(wrong, "element")));
  }
  const double elapsed = static_cast<double>(last_row_ns_ - first_ns_) * 1e-9;
  if (claimed > elapsed + most_table_delay_seconds) {
    result.doubts.push_back(
        fmt::format("its table says {} of operations and came within {}, so no clock checks it (let it print "
                    "each line at "
                    "once: stdbuf -oL)",
                    format_seconds(claimed), format_seconds(elapsed)));
  }
  decide(probes, how, result);
  return result;
}

}  // namespace virtrain::harness
