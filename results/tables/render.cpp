#include "results/tables/render.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text/text.h"
#include "results/store/canonical_json.h"

namespace virtrain::results {
namespace {

constexpr std::string_view bold = "\x1b[1m";
constexpr std::string_view style_reset = "\x1b[0m";
constexpr std::string_view gap = "  ";

/// Columns a text takes on a terminal: its code points.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

/// One line, without anything a terminal would obey.
std::string line_safe(const std::string& text) {
  return excerpt(text, longest_shown_bytes);
}

void append_padded(std::string& out, const std::string& text, std::size_t to_width, bool right) {
  const std::string padding(to_width - std::min(to_width, width(text)), ' ');
  if (right) { out += padding; }
  out += text;
  if (!right) { out += padding; }
}

/// Ends the line without trailing blanks.
void end_line(std::string& out) {
  while (!out.empty() && out.back() == ' ') { out.pop_back(); }
  out += '\n';
}

std::vector<std::size_t> column_widths(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t widest = width(table.columns[i].head);
    for (const auto& row : table.rows) { widest = std::max(widest, width(line_safe(row[i].text))); }
    widths.push_back(widest);
  }
  return widths;
}

std::string render_table(const Table& table, bool colour) {
  const auto widths = column_widths(table);
  std::string out;
  if (!table.title.empty()) { out += line_safe(table.title) + "\n\n"; }
  if (colour) { out += bold; }
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (i > 0) { out += gap; }
    append_padded(out, table.columns[i].head, widths[i], table.columns[i].right);
  }
  if (colour) { out += style_reset; }
  end_line(out);
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) { out += gap; }
      append_padded(out, line_safe(row[i].text), widths[i], table.columns[i].right);
    }
    end_line(out);
  }
  if (!table.notes.empty()) { out += '\n'; }
  for (const auto& note : table.notes) { out += line_safe(note) + '\n'; }
  return out;
}

std::string render_json(const Table& table) {
  auto list = nlohmann::json::array();
  for (const auto& row : table.rows) {
    auto& object = list.emplace_back(nlohmann::json::object());
    for (std::size_t i = 0; i < row.size(); ++i) { object[table.columns[i].key] = row[i].value; }
  }
  return canonical_json(list) + '\n';
}

/// RFC 4180; a text that a spreadsheet would take for a formula gets an apostrophe in front.
std::string csv_field(const nlohmann::json& value) {
  if (value.is_null()) { return ""; }
  if (!value.is_string()) { return canonical_json(value); }
  auto text = printable(value.get<std::string>());
  if (!text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos) {
    text.insert(0, "'");
  }
  if (text.find_first_of("\",\r\n") == std::string::npos) { return text; }
  std::string quoted = "\"";
  for (const char c : text) { quoted += c == '"' ? std::string("\"\"") : std::string(1, c); }
  return quoted + '"';
}

std::string render_csv(const Table& table) {
  std::string out;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    out += i > 0 ? "," : "";
    out += csv_field(table.columns[i].key);
  }
  out += "\r\n";
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += i > 0 ? "," : "";
      out += csv_field(row[i].value);
    }
    out += "\r\n";
  }
  return out;
}

std::string render_markdown(const Table& table) {
  std::string out = table.title.empty() ? "" : "**" + markdown_text(table.title) + "**\n\n";
  for (const auto& column : table.columns) { out += "| " + markdown_text(column.head) + " "; }
  out += "|\n";
  for (const auto& column : table.columns) { out += column.right ? "|---:" : "|---"; }
  out += "|\n";
  for (const auto& row : table.rows) {
    for (const auto& one : row) { out += "| " + markdown_text(one.text) + " "; }
    out += "|\n";
  }
  if (!table.notes.empty()) { out += '\n'; }
  for (const auto& note : table.notes) { out += "- " + markdown_text(note) + '\n'; }
  return out;
}

}  // namespace

std::string markdown_text(const std::string& text) {
  std::string out;
  for (const char c : line_safe(text)) {
    if (c == '<' || c == '&') {
      out += c == '<' ? "&lt;" : "&amp;";
      continue;
    }
    if (std::string_view("|\\*_`[]").find(c) != std::string_view::npos) { out += '\\'; }
    out += c;
  }
  return out;
}

Cell cell(const std::string& text) {
  return text.empty() ? Cell{} : Cell{text, text};
}

Cell cell(std::int64_t number) {
  return {number, fmt::format("{}", number)};
}

Cell cell(const std::optional<std::int64_t>& number) {
  return number ? cell(*number) : Cell{};
}

Cell cell(const std::optional<double>& number, int decimals) {
  return number ? Cell{*number, fmt::format("{:.{}f}", *number, decimals)} : Cell{};
}

Cell share_cell(const std::optional<double>& share, int decimals) {
  return share ? Cell{*share, fmt::format("{:.{}f} %", *share * 100, decimals)} : Cell{};
}

Table without_empty_columns(Table table) {
  for (std::size_t i = table.columns.size(); i-- > 0;) {
    const auto index = static_cast<std::ptrdiff_t>(i);
    const bool empty = std::all_of(table.rows.begin(), table.rows.end(),
                                   [&](const auto& row) { return row[i].text.empty(); });
    if (!empty || !table.columns[i].hide_empty) { continue; }
    table.columns.erase(table.columns.begin() + index);
    for (auto& row : table.rows) { row.erase(row.begin() + index); }
  }
  return table;
}

std::string render(const Table& table, Format format, bool colour) {
  switch (format) {
    case Format::table:
      return render_table(without_empty_columns(table), colour);
    case Format::json:
      return render_json(table);
    case Format::csv:
      return render_csv(table);
    case Format::markdown:
      return render_markdown(without_empty_columns(table));
  }
  return "";
}

}  // namespace virtrain::results
