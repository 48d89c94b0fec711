// The formats are those of NVIDIA/nccl-tests -J, src/util.cu, and of ROCm/rccl-tests -Z json, src/common.cu;
// their GB are 10^9 bytes.

#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/readers/read_nccl_tests.h"
#include "results/exchange/records/json_lines.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// Half a unit of the last digit that both programs print.
constexpr double bandwidth_give = 0.005;

/// Values that all rows of one file share.
json nccl_base(const json& document, const std::string& collective, const ImportSettings& settings,
               const LineReader& lines) {
  json base = record_of(settings, lines);
  base.update({{"record", "probe"}, {"name", collective}, {"unit", "B/s"}});
  base["measured_at"] = value_json(settings.started_at);
  base["detail"] = {{"source", "nccl-tests"}};
  const auto& config = member(document, "config");
  const auto& devices = member(config, "devices");
  const auto threads = number_of(member(config, "nthreads")), gpus = number_of(member(config, "ngpus"));
  constexpr double most = 1e6;
  const auto count = [&](const char* key) {
    const auto& value = member(config, key);
    return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
  };
  if (const auto launch = launch_settings(count("agg_iters"), count("graph")); !launch.empty()) {
    base["detail"]["settings"] = launch;
  }
  const bool is_known = threads && gpus && *threads >= 1 && *gpus >= 1 && *threads * *gpus < most;
  NcclRanks ranks;
  if (devices.is_array() && !devices.empty()) {
    base["detail"]["device"] = text_in(devices[0], "device_info");
    for (const auto& device : devices) {
      // It lists the first device of each process alone.
      const auto of_process = is_known ? static_cast<std::int64_t>(*threads * *gpus) : 0;
      const auto& rank = member(device, "rank");
      const bool is_only = of_process == 1 && rank.is_number_integer();
      ranks.add(text_in(device, "hostname"), member(device, "group").dump(),
                is_only ? std::optional(rank.get<std::int64_t>()) : std::nullopt, of_process);
    }
  }
  ranks.refuse_other(settings, lines);
  if (const auto missing = ranks.missing()) {
    lines.refuse("rank {} is not listed, of {} that are: the file is damaged, get a fresh copy", *missing,
                 ranks.listed());
  }
  ranks.complete(base, settings);
  base["ranks_of_figures"] = value_json(ranks.of_figures(settings));
  return base;
}

/// One side of a row, "out_of_place" or "in_place".
void add_nccl_side(const json& row, const char* key, json probe, const LineReader& lines,
                   RecordImporter& importer) {
  const auto& side = member(row, key);
  if (side.is_null()) { return; }
  const auto need = [&](const char* name) {
    const auto value = number_of(member(side, name));
    if (!value || *value < 0) {
      lines.refuse("a row's {} has no {} that is a number of zero or more", key, name);
    }
    return *value;
  };
  const double microseconds = need(side.is_object() && side.contains("cpu_time") ? "cpu_time" : "time");
  if (microseconds > 0) { probe["seconds"] = microseconds * seconds_per_microsecond; }
  probe["value"] = need("alg_bw") * bytes_per_gigabyte;
  probe["bus_bytes_per_second"] = need("bus_bw") * bytes_per_gigabyte;
  constexpr double most_wrong_elements = 9e15;
  if (!member(side, "nwrong").is_null()) {
    const double wrong = need("nwrong");
    if (wrong > most_wrong_elements) { lines.refuse("nwrong is not a count of elements"); }
    probe["wrong"] = static_cast<std::int64_t>(wrong);
  }
  probe["detail"]["in_place"] = std::string_view(key) == "in_place";
  const auto ranks = probe["ranks_of_figures"];
  probe.erase("ranks_of_figures");
  if (ranks.is_number()) {
    const auto odd =
        contradiction(probe["name"], {need("alg_bw"), need("bus_bw"), bandwidth_give, bandwidth_give},
                      ranks.get<std::int64_t>());
    if (!odd.empty()) { lines.refuse("{}: a rank is missing, or --ranks is another number", odd); }
  }
  importer.add(probe, lines.position());
}

/// One row of rccl-tests, of one side of one size.
void add_rccl_row(const json& row, const ImportSettings& settings, const LineReader& lines,
                  RecordImporter& importer) {
  const auto need = [&](const char* name) {
    const auto value = number_of(member(row, name));
    if (!value || *value < 0) { lines.refuse("a row has no {} that is a number of zero or more", name); }
    return *value;
  };
  const auto count = [&](const char* name) {
    const auto& value = member(row, name);
    constexpr std::int64_t most = std::int64_t{1} << 62;
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{most}) {
      lines.refuse("a row has no {} that is a whole number", name);
    }
    return value.get<std::int64_t>();
  };
  const auto collective = nccl_collective(text_in(row, "name"), settings, lines);
  if (collective.empty()) {
    lines.refuse("\"{}\" names no collective: give --collective", excerpt(text_in(row, "name")));
  }
  auto probe = record_of(settings, lines);
  probe.update({{"record", "probe"}, {"name", collective}, {"unit", "B/s"}});
  const auto ranks = count("ranks"), nodes = count("nodes");
  if (ranks < 1 || nodes < 1) { lines.refuse("a row of {} ranks on {} nodes", ranks, nodes); }
  const auto refuse_other = [&](const char* option, const std::optional<std::int64_t>& said,
                                std::int64_t here) {
    if (said && *said != here) {
      lines.refuse("the file says {}, and {} says {}; leave {} out", here, option, *said, option);
    }
  };
  refuse_other("--ranks", settings.ranks, ranks);
  refuse_other("--nodes", settings.nodes, nodes);
  const double algorithm = need("algBw"), bus = need("busBw");
  const auto odd = contradiction(collective, {algorithm, bus, bandwidth_give, bandwidth_give}, ranks);
  if (!odd.empty()) { lines.refuse("{}: the file is damaged, get a fresh copy", odd); }
  probe["ranks"] = ranks;
  probe["nodes"] = nodes;
  probe["size_bytes"] = count("size");
  probe["data_type"] = value_json(text_in(row, "type"));
  if (const double time = need("time"); time > 0) { probe["seconds"] = time * seconds_per_microsecond; }
  probe["value"] = algorithm * bytes_per_gigabyte;
  probe["bus_bytes_per_second"] = bus * bytes_per_gigabyte;
  if (text_in(row, "wrong") != "N/A" && !member(row, "wrong").is_null()) {
    constexpr double most_wrong_elements = 9e15;
    const double wrong = need("wrong");
    if (wrong > most_wrong_elements) { lines.refuse("wrong is not a count of elements"); }
    probe["wrong"] = static_cast<std::int64_t>(wrong);
  }
  probe["measured_at"] = value_json(settings.started_at);
  probe["detail"] = {
      {"source", "rccl-tests"}, {"in_place", need("inPlace") > 0}, {"operation", text_in(row, "redop")}};
  importer.add(probe, lines.position());
}

}  // namespace

void read_nccl_json(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  const auto document = read_document(lines);
  const auto& rows = member(document, "results");
  if (!rows.is_array()) {
    lines.refuse("nccl-tests JSON without its list \"results\": the test did not finish");
  }
  // Until 2.17.8 its key was misspelt.
  if (member(document, "average_bus_bandwidth").is_null() &&
      member(document, "average_bus_bandwidith").is_null()) {
    lines.refuse("there is no average_bus_bandwidth: the test did not finish");
  }
  const auto& arguments = member(document, "args");
  const bool has_program = arguments.is_array() && !arguments.empty() && arguments[0].is_string();
  const auto program = has_program ? arguments[0].get<std::string>() : "";
  const auto collective = nccl_collective(program.substr(program.find_last_of("/\\") + 1), settings, lines);
  if (collective.empty()) { lines.refuse("\"args\" names no collective: give --collective"); }
  const auto base = nccl_base(document, collective, settings, lines);
  for (const auto& row : rows) {
    auto probe = base;
    const auto& size = member(row, "size");
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > std::uint64_t{1} << 62) {
      lines.refuse("a row without a size that is a whole number");
    }
    probe["size_bytes"] = size;
    probe["data_type"] = value_json(text_in(row, "type"));
    if (const auto& count = member(row, "count"); count.is_number_unsigned()) {
      probe["detail"]["count"] = count;
    }
    probe["detail"]["operation"] = text_in(row, "redop");
    if (const auto root = parse_integer(trim(text_in(row, "root")))) { probe["detail"]["root"] = *root; }
    add_nccl_side(row, "out_of_place", probe, lines, importer);
    add_nccl_side(row, "in_place", probe, lines, importer);
  }
  if (importer.report().probes == 0) { lines.refuse("there are no rows in \"results\""); }
}

void read_rccl_json(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  bool is_list = false;
  while (lines.next() && trim(lines.line()).empty()) {}
  is_list = trim(lines.line()).starts_with('[');
  lines.rewind();
  if (is_list) {
    for (const auto& row : read_document(lines)) { add_rccl_row(row, settings, lines, importer); }
  } else {
    while (lines.next()) {
      if (!trim(lines.line()).empty()) { add_rccl_row(parse_record(lines), settings, lines, importer); }
    }
  }
  if (importer.report().probes == 0) { lines.refuse("there are no rows in the list"); }
}

}  // namespace virtrain::results
