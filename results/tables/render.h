#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/enum_text.h"
#include "results/comparison/causes/probe_key.h"
#include "results/comparison/compare.h"

namespace virtrain::results {

VIRTRAIN_ENUM_CLASS(Format, table, json, csv, markdown)

/// A value with the words that people read; programs get the value in full precision.
struct Cell {
  nlohmann::json value = nullptr;
  std::string text = {};
};
/// An empty cell for nothing; numbers with so many decimals for people.
Cell cell(const std::string& text);
Cell cell(std::int64_t number);
Cell cell(const std::optional<std::int64_t>& number);
Cell cell(const std::optional<double>& number, int decimals);
/// Three decimals below ten a second (emulated guests), one from there on.
inline Cell throughput_cell(const std::optional<double>& value) {
  return cell(value, value && *value < 10 ? 3 : 1);
}
/// "1234.5 tokens/s", and its unit for programs; empty for images/s, which have a column of their own.
Cell other_unit_cell(const std::optional<double>& throughput, const std::string& unit);
Cell unit_cell(const std::optional<double>& throughput, const std::string& unit);
/// ", in tokens/s" behind a name; empty for images/s, which go without saying.
std::string in_unit(const std::string& unit);
/// 0.978 as "97.8 %".
Cell share_cell(const std::optional<double>& share, int decimals = 1);

/// "99.0 + 98.5", for programs a list.
Cell tenants_cell(const std::vector<TenantMean>& tenants);

/// A text that programs get and people see only if it `is_shown`.
inline Cell text_cell(const std::string& text, bool is_shown) {
  return {text, is_shown ? text : ""};
}

/// A value that programs get and people do not see.
template <typename Value>
Cell silent_cell(const Value& value) {
  return {value, ""};
}
template <typename Value>
Cell silent_cell(const std::optional<Value>& value) {
  return value ? silent_cell(*value) : Cell{};
}

struct Column {
  std::string key;   ///< for programs: "images_per_second"
  std::string head;  ///< for people: "images/s"
  bool right = false;
  bool hide_empty = false;  ///< people see it only where a row has a value; programs always get it
  bool shrinks = false;  ///< on a narrow screen its head and, if not right-aligned, its names are shortened
  bool spare = false;    ///< left out on a screen that has no room for it
  bool wraps = false;    ///< on a narrow screen its texts go on in further lines of their cells
};

/// A column of throughputs in one unit: "Images/s", "tokens/s".
Column throughput_column(const std::string& unit);

/// Output of a command, before it is text.
struct Table {
  std::string title = {};
  std::vector<Column> columns = {};
  std::vector<std::vector<Cell>> rows = {};
  std::vector<std::string> notes = {};  ///< sentences below the table; not in JSON and CSV
};

/// An end of an interval, for programs.
inline Cell limit_cell(const std::optional<Interval>& interval, double Interval::*end) {
  return interval ? silent_cell(*interval.*end) : Cell{};
}

/// One column of tables whose rows are made of a `Row`: all that is known of it. Lambdas need no captures.
template <typename Row>
struct ColumnOf {
  const char* key;
  const char* head;
  Cell (*cell)(const Row& row);
  bool right = false;
  bool hide_empty = false;
  bool shrinks = false;
  bool spare = false;
  bool wraps = false;
};

/// A table with a line for each of `rows`.
template <typename Columns, typename Rows>
Table table_of(const Columns& columns, const Rows& rows) {
  Table table;
  for (const auto& one : columns) {
    table.columns.push_back(
        {one.key, one.head, one.right, one.hide_empty, one.shrinks, one.spare, one.wraps});
  }
  for (const auto& row : rows) {
    auto& cells = table.rows.emplace_back();
    for (const auto& one : columns) { cells.push_back(one.cell(row)); }
  }
  return table;
}

/// Whether a text gets an apostrophe in front in CSV: it starts as a formula does to a spreadsheet, or with
/// an apostrophe.
bool is_guarded(std::string_view text);

/// The screen on which people read a table.
struct Screen {
  bool colour = false;
  std::size_t columns = 0;  ///< 0: as many as a table takes
};

/// The table as people see it.
Table without_empty_columns(Table table);

/// The table as text: aligned columns, a JSON list of objects, RFC 4180 or Markdown. Texts are made safe for
/// a terminal, and in CSV for a spreadsheet. Columns that do not fit on the screen are a table of their own
/// below, which repeats the first column; notes go on in further lines. Pure.
std::string render(const Table& table, Format format, const Screen& screen = {});

/// "as good" of "as_good".
std::string spaced(std::string words);

/// Characters that Markdown or HTML would take for markup lose their meaning.
std::string markdown_text(const std::string& text);

/// "in place SM", "tcp gdr-only": side, transport and settings, for people.
std::string side_words(const ProbeKey& key);

/// Whether people write the unit with a prefix: "GB/s".
bool takes_prefix(const std::string& unit);
/// "11.7 GB/s" of 11.7e9 B/s.
std::string figure_with_unit(double value, const std::string& unit);

}  // namespace virtrain::results
