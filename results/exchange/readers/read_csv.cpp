#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"
#include "results/tables/render.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

constexpr std::string_view environment_prefix = "environment.";

struct CsvCell {
  std::string text;
  std::string position;  ///< "file:line:column"
};

/// Records of RFC 4180, one at a time; a quoted cell may hold line breaks.
class CsvReader {
 public:
  explicit CsvReader(LineReader& lines) : lines_(lines) {}

  /// The next record; false at the end. Lines with nothing on them are passed over.
  bool next(std::vector<CsvCell>& cells) {
    do {
      if (!lines_.next()) { return false; }
    } while (lines_.line().empty());
    cells.clear();
    at_ = 0;
    size_bytes_ = 0;
    for (bool more = true; more;) {
      if (cells.size() == most_cells) { lines_.refuse("more than {} cells in a row", most_cells); }
      cells.push_back({"", lines_.position(at_ + 1)});
      more =
          lines_.line().substr(at_).starts_with('"') ? read_quoted(cells.back()) : read_plain(cells.back());
    }
    if (!lines_.has_end()) {
      lines_.refuse(
          "this last line has no line end: if the file broke off, its last cell may be the start of a longer "
          "one; get a fresh copy, or end the line if it is whole");
    }
    return true;
  }

 private:
  /// Both return whether a comma, and so another cell, follows.
  bool read_plain(CsvCell& cell) {
    const auto line = lines_.line();
    const auto end = std::min(line.find(',', at_), line.size());
    cell.text = line.substr(at_, end - at_);
    if (const auto quote = cell.text.find('"'); quote != std::string::npos) {
      refuse(lines_.position(at_ + quote + 1),
             "a quote inside a cell that does not start with one (quote the whole cell, and write \"\" for a "
             "quote in it)");
    }
    at_ = end + 1;
    return end < line.size();
  }

  bool read_quoted(CsvCell& cell) {
    for (++at_;; ++at_) {
      if (at_ == lines_.line().size()) {
        next_line_of(cell);
      } else if (lines_.line()[at_] != '"') {
        cell.text += lines_.line()[at_];
      } else if (lines_.line().substr(at_).starts_with("\"\"")) {
        cell.text += lines_.line()[at_++];
      } else {
        break;
      }
    }
    ++at_;
    const auto line = lines_.line();
    if (at_ < line.size() && line[at_] != ',') {
      refuse(lines_.position(at_ + 1), "text behind the quote that ends a cell (a comma was expected)");
    }
    return at_++ < line.size();
  }

  /// The cell goes on behind a line break; `at_` is then before the new line's first byte.
  void next_line_of(CsvCell& cell) {
    size_bytes_ += lines_.line().size();
    if (size_bytes_ > longest_line_bytes) {
      refuse(cell.position, "the cell that this quote starts is too long (is its closing quote missing?)");
    }
    if (!lines_.next()) { refuse(cell.position, "the quote that starts this cell has no end"); }
    cell.text += '\n';
    at_ = static_cast<std::size_t>(-1);
  }

  [[noreturn]] static void refuse(const std::string& position, const std::string& message) {
    throw Error(position, ErrorCode::bad_input, excerpt(message, longest_refusal_bytes));
  }

  LineReader& lines_;
  std::size_t at_ = 0;
  std::size_t size_bytes_ = 0;  ///< of the record's lines before the present one
};

template <typename... Args>
[[noreturn]] void refuse(const CsvCell& cell, fmt::format_string<Args...> words, Args&&... args) {
  throw Error(cell.position, ErrorCode::bad_input,
              excerpt(fmt::format(words, std::forward<Args>(args)...), longest_refusal_bytes));
}

/// Our own export (and careful others) put an apostrophe in front of a text that a spreadsheet would take for
/// a formula; our own also in front of an apostrophe, so that what it wrote comes back as it was.
std::string without_formula_guard(const std::string& text) {
  const bool guarded = text.starts_with('\'') && is_guarded(std::string_view(text).substr(1));
  return guarded ? text.substr(1) : text;
}

using CellReader = std::function<json(const CsvCell&)>;

json read_whole(const CsvCell& cell) {
  // A table of pandas with a gap in the column writes all of its counts so: "8.0".
  const std::string_view text = cell.text;
  const auto point = text.find('.');
  const bool has_zeros = point != text.npos && point > 0 && point + 1 < text.size() &&
                         text.find_first_not_of('0', point + 1) == text.npos;
  const auto value = parse_integer(has_zeros ? text.substr(0, point) : text);
  if (!value) {
    refuse(cell, "\"{}\" is not a whole number (only digits, no thousands separators)", excerpt(cell.text));
  }
  return *value;
}
json read_real(const CsvCell& cell) {
  const auto value = parse_number(cell.text);
  if (!value) {
    refuse(cell,
           "\"{}\" is not a number (write it like 1234.5: a point before the decimals, no thousands "
           "separators, no unit)",
           excerpt(cell.text));
  }
  return *value;
}
json read_flag(const CsvCell& cell) {
  if (cell.text == "true" || cell.text == "1") { return true; }
  if (cell.text == "false" || cell.text == "0") { return false; }
  refuse(cell, "\"{}\" must be true or false", excerpt(cell.text));
}
json read_text(const CsvCell& cell) {
  return without_formula_guard(cell.text);
}

template <typename T>
CellReader reader_for(const T&) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    return read_whole;
  } else if constexpr (std::is_same_v<T, double>) {
    return read_real;
  } else if constexpr (std::is_same_v<T, bool>) {
    return read_flag;
  } else {
    return read_text;
  }
}
template <typename T>
CellReader reader_for(const std::optional<T>&) {
  return reader_for(T{});
}

/// The columns that are allowed: the keys of a trial record that are no objects.
const std::map<std::string, CellReader>& known_columns() {
  static const auto columns = [] {
    std::map<std::string, CellReader> known = {{"experiment", read_text},
                                               {"scenario", read_text},
                                               {"label", read_text},
                                               {"case_name", read_text},
                                               {"trial_order", read_whole}};
    const Trial trial;
    visit_keys(trial, [&](std::string_view key, const auto& value) {
      using Value = std::decay_t<decltype(value)>;
      if constexpr (!std::is_same_v<Value, json> && !std::is_same_v<Value, SweptPoint>) {
        known[std::string(key)] = reader_for(value);
      }
    });
    return known;
  }();
  return columns;
}

/// One column of this file: the key that it fills, and how its cells are read.
struct CsvColumn {
  std::string key;
  CellReader read;
};

/// Hint at a column's name that is several names with something else between them.
const char* separator_hint(std::string_view name) {
  if (name.find(';') != name.npos) { return "cells are separated by commas here, not semicolons; "; }
  if (name.find('\t') != name.npos) { return "the cells are separated by tabs, make them commas; "; }
  return "";
}

/// `mapping`: the file's columns that the user has named keys for; with it, others are left out.
CsvColumn column_of(const CsvCell& cell, const std::map<std::string, std::string>& mapping) {
  const auto mapped = mapping.find(std::string(trim(cell.text)));
  const bool is_left_out = !mapping.empty() && mapped == mapping.end();
  const std::string name(mapped == mapping.end() ? trim(cell.text) : std::string_view(mapped->second));
  if (is_left_out) { return {"", read_text}; }
  if (name.starts_with(environment_prefix) && name.size() > environment_prefix.size()) {
    return {name, read_text};
  }
  const auto& known = known_columns();
  const auto found = known.find(name);
  if (found != known.end()) { return {std::string(exchange_name(name)), found->second}; }
  std::vector<std::string> allowed;
  allowed.reserve(known.size());
  for (const auto& [key, reader] : known) { allowed.push_back(key); }
  if (name.empty()) {
    refuse(cell,
           "this column has no name, as the index of a table of pandas: name it with --map =KEY, and the "
           "others that count with --map COLUMN=KEY (keys: {}, and environment.NAME)",
           join(allowed, ", "));
  }
  const auto near = nearest_word(name, allowed);
  refuse(cell, "unknown column \"{}\" ({}{}allowed: {}, and environment.NAME)", name, separator_hint(name),
         near ? fmt::format("did you mean \"{}\"? ", *near) : "", join(allowed, ", "));
}

std::vector<CsvColumn> read_header(const std::vector<CsvCell>& cells,
                                   const std::map<std::string, std::string>& mapping, LeftOut& left_out) {
  for (const auto& [column, key] : mapping) {
    const auto is_it = [&, name = column](const CsvCell& cell) { return trim(cell.text) == name; };
    if (std::ranges::none_of(cells, is_it)) {
      std::vector<std::string> there;
      for (const auto& cell : cells) { there.push_back(cell.text); }
      const char* hint = cells.size() == 1 ? separator_hint(trim(there[0])) : "";
      refuse(cells.front(), "there is no column \"{}\", which --map names ({}there are: {})", excerpt(column),
             hint, excerpt(join(there, ", ")));
    }
  }
  std::vector<CsvColumn> columns;
  std::map<std::string, std::string> columns_of_keys;
  const auto is_case = [](const CsvCell& cell) { return trim(cell.text) == "case"; };
  const bool has_case = std::ranges::any_of(cells, is_case);
  for (const auto& cell : cells) {
    // An exported view has more than the record: the trial's id in that database, and the case once more.
    const auto name = trim(cell.text);
    if (mapping.empty() && (name == "trial_id" || (name == "case_name" && has_case))) {
      columns.push_back({"", read_text});
      continue;
    }
    columns.push_back(column_of(cell, mapping));
    if (columns.back().key.empty()) {
      left_out.add(cell.text);
      continue;
    }
    const auto& key = columns.back().key;
    const auto [first, is_new] = columns_of_keys.try_emplace(key, cell.text);
    if (!is_new && first->second == cell.text) {
      refuse(cell, "the column \"{}\" appears twice", excerpt(cell.text));
    }
    if (!is_new) {
      refuse(cell, "the columns \"{}\" and \"{}\" are both {}; keep one of them", excerpt(first->second),
             excerpt(cell.text), excerpt(key));
    }
  }
  return columns;
}

/// Values that the file's columns leave open.
json defaults_of(const ImportSettings& settings) {
  json record = {{"record", "trial"}};
  const auto set = [&](const char* key, const auto& value) {
    if (const auto known = value_json(value); !known.is_null()) { record[key] = known; }
  };
  set("experiment", settings.experiment);
  set("scenario", settings.scenario.empty() ? settings.experiment : settings.scenario);
  set("label", settings.label);
  set("case", settings.case_name);
  set("arm", settings.arm);
  set("pair", settings.pair);
  set("nodes", settings.nodes);
  set("gpus_per_node", settings.gpus_per_node);
  set("batch_size", settings.batch_size);
  set("precision", settings.precision);
  set("virtualization", settings.virtualization);
  set("started_at", settings.started_at);
  return record;
}

void set_cell(json& record, const CsvColumn& column, const CsvCell& cell) {
  if (column.key.empty()) { return; }
  if (cell.text.empty()) {
    record.erase(column.key);
  } else if (column.key.starts_with(environment_prefix)) {
    record["environment"][column.key.substr(environment_prefix.size())] = column.read(cell);
  } else {
    record[column.key] = column.read(cell);
  }
}

}  // namespace

void read_csv(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  CsvReader reader(lines);
  std::vector<CsvCell> cells;
  if (!reader.next(cells)) { lines.refuse("the file is empty; its first line must name the columns"); }
  LeftOut left_out;
  const auto columns = read_header(cells, settings.columns, left_out);
  const json defaults = defaults_of(settings);
  std::int64_t count = 0;
  for (; reader.next(cells); ++count) {
    if (cells.size() != columns.size()) {
      refuse(cells.front(), "{} where the header names {}", counted(cells.size(), "cell"), columns.size());
    }
    json record = defaults;
    for (std::size_t i = 0; i < cells.size(); ++i) { set_cell(record, columns[i], cells[i]); }
    if (!record.contains("scenario") && record.contains("experiment")) {
      record["scenario"] = record["experiment"];
    }
    const auto& position = cells.front().position;
    importer.add(record, position.substr(0, position.rfind(':')));
  }
  if (count == 0) { lines.refuse("there are no rows below the header"); }
  left_out.report(importer);
}

}  // namespace virtrain::results
