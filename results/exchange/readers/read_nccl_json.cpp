// The format is that of NVIDIA/nccl-tests -J, src/util.cu; its GB are 10^9 bytes.

#include "common/text/json.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/readers/read_nccl_tests.h"
#include "results/exchange/records/json_lines.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// What all rows of one file share.
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
  const bool is_known = threads && gpus && *threads >= 1 && *gpus >= 1 && *threads * *gpus < most;
  NcclRanks ranks;
  if (devices.is_array() && !devices.empty()) {
    base["detail"]["device"] = text_in(devices[0], "device_info");
    for (const auto& device : devices) {
      // It lists the first device of each process alone.
      ranks.add(text_in(device, "hostname"), member(device, "group").dump(),
                is_known ? static_cast<std::int64_t>(*threads * *gpus) : 0);
    }
  }
  ranks.complete(base, settings);
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

}  // namespace virtrain::results
