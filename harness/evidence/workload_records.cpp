#include "harness/evidence/workload_records.h"

#include <fmt/format.h>

#include <utility>

#include "common/error.h"
#include "common/text/described_json.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr JsonLimits record_limits{.bytes = max_record_bytes, .depth = 16, .values = 1000};
constexpr JsonLimits probe_limits{.bytes = std::size_t{64} << 10, .depth = 16, .values = 10'000};

Error broken(const RankLine& line, const std::string& why,
             const char* operation = "read the trainer's output") {
  return Error(operation, ErrorCode::protocol,
               fmt::format("{}: {}", why, printable(std::string_view(line.text).substr(0, 200))));
}

/// Reads the record into the kind that has its name; other names leave nothing.
template <typename Record>
bool read_said(const RankLine& line, const std::string& name, const nlohmann::json& fields, Said& into) {
  if (name != Record::record) { return false; }
  if (const auto refusal = read_record(fields, into.emplace<Record>()); !refusal.empty()) {
    throw broken(line, refusal);
  }
  return true;
}

template <typename... Records>
Said read_said(const RankLine& line, const std::string& name, const nlohmann::json& fields,
               std::variant<std::monostate, Records...> said) {
  static_cast<void>((read_said<Records>(line, name, fields, said) || ...));
  const auto* const result = std::get_if<protocol::Result>(&said);
  if (result != nullptr && result->scope == "rank" && !result->parameters_hash) {
    throw broken(line, "'parameters_hash' must be text");
  }
  return said;
}

/// Reads a stressor's record if it is of that kind.
template <typename Record>
bool read_stressor(const RankLine& line, const nlohmann::json& fields, StressorSaid& into) {
  if (text_in(fields, "record") != Record::record) { return false; }
  if (const auto refusal = read_record(fields, into.emplace<Record>()); !refusal.empty()) {
    throw broken(line, refusal, "read the aggressor's output");
  }
  return true;
}

/// Why the database would refuse a figure whose fields fit; empty: it takes it.
std::string refusal_of(const protocol::ProbeFigure& said) {
  if (said.name.empty()) { return "'name' must be text"; }
  if (said.unit != "B/s" && said.unit != "FLOP/s" && said.unit != "s") {
    return "'unit' must be B/s, FLOP/s or s";
  }
  return "";
}

results::Probe figure(const nlohmann::json& record) {
  protocol::ProbeFigure said;
  auto refusal = read_record(record, said);
  if (refusal.empty()) { refusal = refusal_of(said); }
  if (!refusal.empty()) { throw Error("read a probe's figure", ErrorCode::trial_failed, refusal); }
  const auto text = [](const std::optional<std::string>& one) { return printable(one.value_or("")); };
  results::Probe probe;
  probe.name = printable(said.name);
  probe.data_type = text(said.data_type);
  probe.nodes = said.nodes;
  probe.ranks = said.ranks;
  probe.size_bytes = said.size_bytes;
  probe.seconds = said.seconds;
  probe.value = said.value;
  probe.unit = said.unit;
  probe.wrong = said.wrong;
  probe.transport = text(said.transport);
  probe.bus_bytes_per_second = said.bus_bytes_per_second;
  probe.measured_at = text(said.measured_at);
  if (const auto detail = record.find("detail"); detail != record.end()) { probe.detail = *detail; }
  return probe;
}

}  // namespace

bool is_half_a_record(const std::string& text) {
  return text.starts_with('{') && !parse_json_or_null(text, {.bytes = max_record_bytes}).is_object();
}

std::optional<RankRecord> decode_record(const RankLine& line) {
  if (line.text.empty() || line.text[0] != '{') { return std::nullopt; }
  if (line.text.size() > max_record_bytes) { throw broken(line, "a record is longer than 4,096 bytes"); }
  const auto fields = parse_json_or_null(line.text, record_limits);
  if (!fields.is_object()) { throw broken(line, "a record is not a JSON object"); }
  const auto record = fields.find("record");
  if (record == fields.end() || !record->is_string()) {
    throw broken(line, "a record does not say which it is");
  }
  const auto rank = fields.find("rank");
  if (rank == fields.end() || !rank->is_number_integer()) {
    throw broken(line, "a record does not say its rank");
  }

  RankRecord out;
  out.rank = rank->get<std::int64_t>();  // below 0 where it does not fit, which no job has
  if (line.rank && *line.rank != out.rank) {
    throw broken(line, fmt::format("rank {} sent a record of another rank", *line.rank));
  }
  out.said = read_said(line, record->get_ref<const std::string&>(), fields, Said());
  return out;
}

std::optional<StressorSaid> decode_stressor_record(const RankLine& line) {
  if (line.text.empty() || line.text[0] != '{') { return std::nullopt; }
  const auto fields = parse_json_or_null(line.text, record_limits);
  if (!fields.is_object()) {
    throw broken(line, "a record is not a JSON object", "read the aggressor's output");
  }
  StressorSaid said;
  static_cast<void>(read_stressor<protocol::StressorReady>(line, fields, said) ||
                    read_stressor<protocol::Progress>(line, fields, said) ||
                    read_stressor<protocol::Failure>(line, fields, said));
  return said;
}

std::vector<results::Probe> parse_probe_records(const std::string& lines, const std::string& arm,
                                                const std::string& node, std::int64_t run) {
  const std::string operation = "read what virtrain-probe has measured in " + node;
  std::vector<results::Probe> figures;
  for (const auto& line : split(lines, '\n')) {
    if (trim(line).empty()) { continue; }
    const auto record = parse_json(line, operation, ErrorCode::trial_failed, probe_limits);
    const auto kind = text_in(record, "record");
    if (kind.empty()) { throw Error(operation, ErrorCode::trial_failed, "a line is not a record"); }
    if (kind != protocol::ProbeFigure::record) { continue; }
    try {
      figures.push_back(figure(record));
    } catch (const Error& error) {
      throw Error(operation, ErrorCode::trial_failed, fmt::format("{}: {}", error.message(), excerpt(line)));
    }
    figures.back().arm = arm;
    figures.back().node = node;
    figures.back().run = run;
  }
  return figures;
}

}  // namespace virtrain::harness
