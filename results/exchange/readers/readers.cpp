#include "results/exchange/readers/readers.h"

#include <algorithm>
#include <array>

#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "results/exchange/readers/rank_tag.h"
#include "results/exchange/records/line_reader.h"

namespace virtrain::results {
namespace {

/// Lines that end a run, as their tools begin them.
constexpr std::array<std::string_view, 3> closing_marks = {"total images/sec:", "# Avg bus bandwidth",
                                                           "Total img/sec on "};

std::optional<FileFormat> format_of_object(const nlohmann::json& object) {
  const auto has = [&](const char* key) { return object.contains(key); };
  if (!text_in(object, "record").empty()) { return FileFormat::jsonl; }
  if (has("nvbandwidth")) { return FileFormat::nvbandwidth; }
  if (has("config") && (has("results") || has("nccl_version"))) { return FileFormat::nccl_tests; }
  if (has("numCycle") && has("busBw")) { return FileFormat::nccl_tests; }
  if (has("session_info") && has("runs")) { return FileFormat::reframe; }
  if (has("metric") && has("value") && has("unit")) { return FileFormat::perfkit; }
  if (has("node")) { return FileFormat::superbench; }
  return std::nullopt;
}

/// Format of a list of objects, which its first object may tell; nothing for any other text.
std::optional<FileFormat> format_of_list(LineReader& lines) {
  std::string text(lines.line());
  while (text.find('}') == text.npos && text.size() < longest_line_bytes && lines.next()) {
    text.append("\n").append(lines.line());
  }
  const auto begin = text.find('{'), end = text.find('}');
  if (begin == text.npos || end == text.npos || end < begin) { return std::nullopt; }
  const auto first = parse_json_or_null(std::string_view(text).substr(begin, end - begin + 1));
  return first.is_object() ? format_of_object(first) : std::nullopt;
}

/// Format of a file whose first line begins as JSON does: an object a line, or one that takes the whole file.
/// A damaged file is taken for records, whose reader names the place; sound JSON of unknown content has no
/// format.
std::optional<FileFormat> format_of_json(LineReader& lines) {
  const auto first = parse_json_or_null(lines.line());
  if (first.is_object()) { return format_of_object(first); }
  if (trim(lines.line()).starts_with('[')) { return format_of_list(lines); }
  const auto is_in_line = [&](const char* text) { return lines.line().find(text) != lines.line().npos; };
  if (is_in_line("\"record\"")) { return FileFormat::jsonl; }
  if (is_in_line("\"nccl_version\":")) { return FileFormat::nccl_tests; }
  std::string text(lines.line());
  while (lines.next()) {
    text.append("\n").append(lines.line());
    if (text.size() > longest_line_bytes) { return FileFormat::jsonl; }
  }
  const auto document = parse_json_or_null(text);
  return document.is_object() ? format_of_object(document) : FileFormat::jsonl;
}

/// As a JSON object or a list of them; "[1,0]<stdout>:" is a launcher's tag.
bool begins_as_json(std::string_view line) {
  const auto text = trim(line);
  const auto inside = trim(text.substr(std::min<std::size_t>(1, text.size())));
  return text.starts_with('{') || (text.starts_with('[') && (inside.empty() || inside.starts_with('{')));
}

/// Goes to the next line with anything on it; false if there is none.
bool go_to_text(LineReader& lines) {
  bool is_blank = true;
  while (is_blank && lines.next()) { is_blank = trim(lines.line()).empty(); }
  return !is_blank;
}

/// Whether one of its cells, which may be millions, is that column.
bool names_throughput(std::string_view header) {
  Scanner in(header);
  do {
    const auto cell = trim(in.take_while([](char c) { return c != ','; }));
    if (cell == "images_per_second" || cell == "\"images_per_second\"") { return true; }
  } while (in.take(","));
  return false;
}

/// Format of the whole file by the first line with anything on it; nothing if only more lines can tell.
std::optional<FileFormat> format_by_first_line(std::string_view line) {
  const auto second = line.substr(std::min(line.find('|'), line.size()));
  const bool is_old_reframe = second.starts_with("|reframe ") && std::ranges::count(line, '|') > 3;
  if (is_reframe_header(line) || is_old_reframe) { return FileFormat::reframe; }
  if (names_throughput(line)) { return FileFormat::csv; }
  return std::nullopt;
}

/// The columns of nccl-tests, whose '#' may be lost.
bool is_nccl_header(std::string_view line) {
  const auto words = words_of(line);
  const bool has_names = line.find("algbw") != line.npos && line.find("busbw") != line.npos;
  return has_names && (words[0].starts_with('#') || words[0] == "size" || words[0] == "bytes");
}

std::optional<FileFormat> format_by_mark(std::string_view line) {
  if (line.starts_with("Step\tImg/sec") || line.starts_with("total images/sec:")) {
    return FileFormat::tf_cnn_benchmarks;
  }
  const bool is_nccl = line.starts_with("# nThread ") || line.starts_with("nThread ") ||
                       line.starts_with("# nccl-tests version") || is_nccl_header(line);
  if (is_nccl) { return FileFormat::nccl_tests; }
  if (line.starts_with("nvbandwidth Version:")) { return FileFormat::nvbandwidth; }
  if (line.starts_with("Total img/sec on ") || line.starts_with("Img/sec per ")) {
    return FileFormat::horovod;
  }
  if (is_dllogger_of_terminal(line)) { return FileFormat::dllogger; }
  if (line.find(":::MLLOG {") != line.npos) { return FileFormat::mlperf; }
  if (line.find("DLLL {") != line.npos) { return FileFormat::dllogger; }
  if (line.starts_with("Epoch: [") && line.find("img/s: ") != line.npos) { return FileFormat::torchvision; }
  return std::nullopt;
}

}  // namespace

std::optional<FileFormat> recognise_format(LineReader& lines) {
  std::optional<FileFormat> format;
  bool is_first = true;
  while (!format && lines.next()) {
    if (trim(lines.line()).empty()) { continue; }
    if (is_first && begins_as_json(lines.line())) {
      format = format_of_json(lines);
      break;
    }
    if (is_first) { format = format_by_first_line(trim(lines.line())); }
    is_first = false;
    if (!format) { format = format_by_mark(without_rank_tag(lines.line())); }
  }
  lines.rewind();
  return format;
}

std::optional<OtherLog> find_other_log(LineReader& lines, FileFormat format) {
  static constexpr std::array logs = {
      FileFormat::tf_cnn_benchmarks, FileFormat::nccl_tests, FileFormat::torchvision, FileFormat::horovod,
      FileFormat::dllogger,          FileFormat::mlperf,     FileFormat::nvbandwidth};
  if (std::ranges::find(logs, format) == logs.end()) { return std::nullopt; }
  std::optional<OtherLog> other;
  while (!other && lines.next()) {
    const auto line = without_rank_tag(lines.line());
    const auto found = trim(line).empty() ? std::nullopt : format_by_mark(line);
    if (found && *found != format) { other = OtherLog{*found, lines.number()}; }
  }
  lines.rewind();
  return other;
}

bool is_dllogger_of_terminal(std::string_view line) {
  return line.starts_with("DLL 20") && line.find(" - ") != line.npos;
}

bool is_empty(LineReader& lines) {
  const bool has_text = go_to_text(lines);
  lines.rewind();
  return !has_text;
}

bool is_json(LineReader& lines) {
  const bool has_json = go_to_text(lines) && begins_as_json(lines.line());
  lines.rewind();
  return has_json;
}

void refuse_disguised(LineReader& lines) {
  lines.rewind();
  while (lines.next()) {
    const auto line = without_rank_tag(lines.line());
    for (const auto mark : closing_marks) {
      const auto at = line.find(mark);
      if (at == line.npos || at == 0) { continue; }
      lines.refuse(
          "\"{}\" stands on this line behind \"{}\": take off what is in front of the lines, for example "
          "with sed, and import the rest",
          mark, excerpt(line.substr(0, at)));
    }
  }
}

void read_jsonl(LineReader& lines, RecordImporter& importer) {
  bool is_empty = true;
  while (lines.next()) {
    if (trim(lines.line()).empty()) { continue; }
    is_empty = false;
    importer.add(parse_record(lines), lines.position());
  }
  if (is_empty) { lines.refuse("there are no records in it"); }
}

nlohmann::json parse_record(const LineReader& lines) {
  return parse_part(lines, 0, {.unique_keys = true});
}

nlohmann::json record_of(const ImportSettings& settings, const LineReader& lines) {
  const auto need = [&](const std::string& value, const char* words) {
    if (value.empty()) { lines.refuse(words); }
  };
  need(settings.arm,
       "this file cannot say in which arm it ran: give --arm, or import a folder of ARM/CASE/PAIR.log files");
  need(settings.experiment, "this file names no experiment: give --experiment, or import its folder");
  nlohmann::json record = {{"experiment", settings.experiment}, {"arm", settings.arm}};
  record["scenario"] = settings.scenario.empty() ? settings.experiment : settings.scenario;
  if (!settings.label.empty()) { record["label"] = settings.label; }
  return record;
}

}  // namespace virtrain::results
