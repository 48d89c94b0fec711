#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/comparison/compare.h"

namespace virtrain::results {

enum class Format { table, json, csv, markdown };

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
/// 0.978 as "97.8 %".
Cell share_cell(const std::optional<double>& share, int decimals = 1);

struct Column {
  std::string key;   ///< for programs: "images_per_second"
  std::string head;  ///< for people: "images/s"
  bool right = false;
  bool hide_empty = false;  ///< people see it only where a row has a value; programs always get it
};

/// What a command prints, before it is text.
struct Table {
  std::string title = {};
  std::vector<Column> columns = {};
  std::vector<std::vector<Cell>> rows = {};
  std::vector<std::string> notes = {};  ///< sentences below the table; not in JSON and CSV
};

/// The table as text: aligned columns, a JSON list of objects, RFC 4180 or Markdown. Texts are made safe for
/// a terminal, and in CSV for a spreadsheet. Pure.
std::string render(const Table& table, Format format, bool colour = false);

/// The comparison as the study's table: a line for each case and arm, then what was virtual, then the
/// verdicts.
Table comparison_table(const std::vector<CaseComparison>& comparisons);
/// What `run` ends with: the same on a small screen, with verdicts that are some and one line on
/// virtualization.
Table summary_table(const std::vector<CaseComparison>& comparisons);
/// What `compare` prints: the table (in Markdown under a heading), or with Format::json the contract's list.
std::string render(const std::vector<CaseComparison>& comparisons, Format format, bool colour = false);

/// What `list` prints.
Table experiments_table(const Store& store);
/// What `show` prints: the experiment's trials, and its facts as notes. Error(not_found) if there is none.
Table show_experiment(const Store& store, const std::string& experiment);

}  // namespace virtrain::results
