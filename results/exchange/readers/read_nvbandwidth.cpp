// The format is that of NVIDIA/nvbandwidth --json, json_output.cpp; its GB are 10^9 bytes.
#include <fmt/format.h>

#include "common/text/json.h"
#include "common/text/printable.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/records/json_lines.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

std::string copy_name(const std::string& test) {
  if (test.starts_with("host_to_device_memcpy")) { return "host_to_device"; }
  if (test.starts_with("device_to_host_memcpy")) { return "device_to_host"; }
  return test;
}

json nvbandwidth_probe(const json& document, const json& test, double figure) {
  const auto name = text_in(test, "name");
  const bool is_latency = text_in(test, "bandwidth_description").find("(ns)") != std::string::npos ||
                          name.find("latency") != std::string::npos;
  json probe = {{"record", "probe"}, {"name", copy_name(name)}};
  probe["unit"] = is_latency ? "s" : "B/s";
  probe["value"] = figure * (is_latency ? 1e-9 : bytes_per_gigabyte);
  probe["detail"] = {{"source", "nvbandwidth"}, {"test", name}};
  for (const auto& [key, word] : {std::pair{"Driver Version", "driver"}, {"version", "version"}}) {
    if (const auto value = text_in(document, key); !value.empty()) { probe["detail"][word] = value; }
  }
  return probe;
}

}  // namespace

void read_nvbandwidth(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  const auto whole = read_document(lines);
  const auto& document = member(whole, "nvbandwidth");
  const auto& tests = member(document, "testcases");
  if (!tests.is_array()) { lines.refuse("nvbandwidth without a list \"testcases\""); }
  LeftOut left_out;
  for (const auto& test : tests) {
    const auto name = text_in(test, "name");
    const auto& matrix = member(test, "bandwidth_matrix");
    if (name.empty()) { lines.refuse("a test case without a name"); }
    if (text_in(test, "status") != "Passed" || !matrix.is_array()) {
      left_out.add(fmt::format("{}: {}", name, text_in(test, "status")));
      continue;
    }
    for (std::size_t row = 0; row < matrix.size(); ++row) {
      if (!matrix[row].is_array()) { lines.refuse("{}: a row that is not a list", excerpt(name)); }
      for (std::size_t column = 0; column < matrix[row].size(); ++column) {
        const auto figure = number_of(matrix[row][column]);
        if (!figure) { continue; }  // "N/A": a device and itself
        auto probe = nvbandwidth_probe(document, test, *figure);
        probe.update(record_of(settings, lines));
        probe["nodes"] = value_json(settings.nodes);
        probe["measured_at"] = value_json(settings.started_at);
        probe["detail"].update({{"row", row}, {"column", column}});
        importer.add(probe, lines.position());
      }
    }
  }
  if (importer.report().probes == 0) { lines.refuse("no test case of it passed"); }
  left_out.report(importer);
}

}  // namespace virtrain::results
