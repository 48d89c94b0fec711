#include "results/tables/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/wrap.h"
#include "results/store/canonical_json.h"

namespace virtrain::results {
namespace {

constexpr std::string_view bold = "\x1b[1m";
constexpr std::string_view style_reset = "\x1b[0m";
constexpr std::string_view gap = "  ";

/// One line, without anything a terminal would obey.
std::string line_safe(const std::string& text) {
  return excerpt(text, longest_shown_bytes);
}

void append_padded(std::string& out, const std::string& text, std::size_t to_width, bool right) {
  const std::string padding(to_width - std::min(to_width, text_width(text)), ' ');
  if (right) { out += padding; }
  out += text;
  if (!right) { out += padding; }
}

/// Ends the line without trailing blanks.
void end_line(std::string& out) {
  while (!out.empty() && out.back() == ' ') { out.pop_back(); }
  out += '\n';
}

/// The columns that the head takes: of its longest word where it may have several lines.
std::size_t head_width(const Column& column, bool heads_wrap) {
  const auto head = line_safe(column.head);
  if (!heads_wrap) { return text_width(head); }
  std::size_t widest = 0;
  for (const auto word : words_of(head)) { widest = std::max(widest, text_width(word)); }
  return widest;
}

std::vector<std::size_t> column_widths(const Table& table, bool heads_wrap) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t widest = head_width(table.columns[i], heads_wrap);
    for (const auto& row : table.rows) { widest = std::max(widest, text_width(line_safe(row[i].text))); }
    widths.push_back(widest);
  }
  return widths;
}

/// How many columns of a screen are missing.
std::size_t lacking(const std::vector<std::size_t>& widths, std::size_t screen) {
  const auto gaps = widths.empty() ? 0 : (widths.size() - 1) * gap.size();
  const auto width = std::accumulate(widths.begin(), widths.end(), gaps);
  return screen > 0 && width > screen ? width - screen : 0;
}

/// The names of a column in at most so many columns; false where two of them would read the same.
bool shorten(Table& table, std::size_t column, std::size_t columns) {
  std::map<std::string, std::string> names;
  std::set<std::string> distinct;
  if (!table.columns[column].right) {
    for (const auto& row : table.rows) {
      const auto text = line_safe(row[column].text);
      if (names.try_emplace(text, abbreviated(text, columns)).second &&
          !distinct.insert(names[text]).second) {
        return false;
      }
    }
    for (auto& row : table.rows) { row[column].text = names[line_safe(row[column].text)]; }
  }
  table.columns[column].head = abbreviated(line_safe(table.columns[column].head), columns);
  return true;
}

/// The narrowest that a column may become: numbers are never shortened.
std::size_t narrowest(const Table& table, std::size_t column) {
  std::size_t widest = 8;
  for (const auto& row : table.rows) {
    if (table.columns[column].right) { widest = std::max(widest, text_width(line_safe(row[column].text))); }
  }
  return widest;
}

/// A table and the width of each column.
struct Layout {
  Table table;
  std::vector<std::size_t> widths;
};

constexpr std::size_t least_wrapped = 8;

/// Makes columns narrower whose texts may have several lines, the widest first.
void wrap_texts(Layout& layout, std::size_t screen) {
  auto& [table, widths] = layout;
  while (lacking(widths, screen) > 0) {
    std::size_t widest = 0;
    std::size_t* found = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (!table.columns[i].wraps || widths[i] <= std::max(widest, least_wrapped)) { continue; }
      widest = widths[i];
      found = &widths[i];
    }
    if (found == nullptr) { return; }
    --*found;
  }
}

/// The table on a screen of so many columns: heads in several lines, then without spare columns, the last
/// first, then with shorter names, the longest first, then with texts in several lines.
Layout fit_to(Table table, std::size_t screen) {
  bool heads_wrap = false;
  const auto over = [&] { return lacking(column_widths(table, heads_wrap), screen); };
  heads_wrap = over() > 0;
  for (std::size_t i = table.columns.size(); i-- > 0 && over() > 0;) {
    if (!table.columns[i].spare) { continue; }
    table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(i));
    for (auto& row : table.rows) { row.erase(row.begin() + static_cast<std::ptrdiff_t>(i)); }
  }
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].shrinks) { candidates.push_back(i); }
  }
  const auto widths = column_widths(table, heads_wrap);
  // Heads of numbers first, then the longest names.
  std::ranges::stable_sort(candidates, std::greater(),
                           [&](std::size_t i) { return std::pair(table.columns[i].right, widths[i]); });
  for (const auto i : candidates) {
    const auto width = widths[i] - std::min(widths[i], over());
    if (over() > 0) { shorten(table, i, std::max(width, narrowest(table, i))); }
  }
  Layout layout{std::move(table), {}};
  layout.widths = column_widths(layout.table, heads_wrap);
  wrap_texts(layout, screen);
  return layout;
}

/// The columns that stand side by side, table by table: each begins with the first column. Texts that are too
/// wide for a table of their own have several lines.
std::vector<std::vector<std::size_t>> side_by_side(Layout& layout, std::size_t screen) {
  auto& widths = layout.widths;
  if (lacking(widths, screen) > 0) { widths[0] = std::min(widths[0], screen - screen / 4); }
  std::vector<std::vector<std::size_t>> blocks;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const bool is_full = screen > 0 && taken + gap.size() + widths[i] > screen;
    if (blocks.empty() || (is_full && blocks.back().size() > 1)) {
      blocks.emplace_back(1, 0);
      taken = widths[0];
      if (i == 0) { continue; }
    }
    blocks.back().push_back(i);
    const bool may_wrap = !layout.table.columns[i].right && screen > taken + gap.size();
    if (may_wrap) { widths[i] = std::min(widths[i], screen - taken - gap.size()); }
    taken += gap.size() + widths[i];
  }
  return blocks;
}

/// Cells side by side, each in as many lines as it needs; those of heads end with the last line.
void append_lines(std::string& out, const Layout& layout, const std::vector<std::size_t>& block,
                  const std::vector<std::string>& texts, bool of_heads, bool bold_lines) {
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 1;
  for (const auto i : block) {
    const auto text = line_safe(texts[i]);
    const bool fits = text_width(text) <= layout.widths[i];
    cells.push_back(fits ? std::vector{text} : wrap_within(text, layout.widths[i]));
    height = std::max(height, cells.back().size());
  }
  for (std::size_t line = 0; line < height; ++line) {
    if (bold_lines) { out += bold; }
    for (std::size_t c = 0; c < block.size(); ++c) {
      if (c > 0) { out += gap; }
      const auto above = of_heads ? height - cells[c].size() : 0;
      const auto at = line - above;  // wraps below zero, which is behind the last one
      append_padded(out, at < cells[c].size() ? cells[c][at] : "", layout.widths[block[c]],
                    layout.table.columns[block[c]].right);
    }
    if (bold_lines) { out += style_reset; }
    end_line(out);
  }
}

std::string render_table(const Table& whole, const Screen& screen) {
  auto layout = fit_to(whole, screen.columns);
  const auto& table = layout.table;
  std::vector<std::string> heads;
  for (const auto& column : table.columns) { heads.push_back(column.head); }
  std::string out;
  if (!table.title.empty()) { out += hang(line_safe(table.title), screen.columns) + "\n\n"; }
  const bool has_heads = !table.rows.empty() || table.notes.empty();
  for (const auto& block : side_by_side(layout, screen.columns)) {
    if (!has_heads) { break; }
    const bool goes_on = block.back() != block.size() - 1;
    if (goes_on) { out += '\n'; }
    append_lines(out, layout, block, heads, true, screen.colour);
    for (const auto& row : table.rows) {
      std::vector<std::string> texts;
      for (const auto& one : row) { texts.push_back(one.text); }
      const bool has_more =
          std::ranges::any_of(block, [&](std::size_t i) { return i > 0 && !texts[i].empty(); });
      if (goes_on && !has_more) { continue; }
      append_lines(out, layout, block, texts, false, false);
    }
  }
  if (!table.notes.empty() && has_heads) { out += '\n'; }
  for (const auto& note : table.notes) { out += hang(line_safe(note), screen.columns) + '\n'; }
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

}  // namespace

bool is_guarded(std::string_view text) {
  // The last ones are full-width and small forms and the minus sign, which spreadsheets take for the same.
  constexpr std::string_view starts[] = {"=",      "+",      "-",      "@",      "\t",     "\r",
                                         "'",      "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe66",
                                         "\ufe62", "\ufe63", "\ufe6b", "\u2212"};
  // A spreadsheet passes over these: blanks, line ends and two wider blanks.
  for (bool is_blank = true; is_blank;) {
    is_blank = false;
    for (const std::string_view blank : {" ", "\n", "\u00a0", "\u3000"}) {
      if (!text.starts_with(blank)) { continue; }
      text.remove_prefix(blank.size());
      is_blank = true;
    }
  }
  return std::ranges::any_of(starts, [&](std::string_view start) { return text.starts_with(start); });
}

namespace {

/// RFC 4180; a text that a spreadsheet would take for a formula, or that begins with an apostrophe, gets one
/// in front. A list is JSON.
std::string csv_field(const nlohmann::json& value) {
  if (value.is_null()) { return ""; }
  auto text = value.is_string() ? printable(value.get<std::string>()) : canonical_json(value);
  if (value.is_string() && !text.empty() && is_guarded(text)) { text.insert(0, "'"); }
  if (text.find_first_of("\",;\r\n") == std::string::npos) { return text; }
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

std::string spaced(std::string words) {
  std::ranges::replace(words, '_', ' ');
  return words;
}

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

Column throughput_column(const std::string& unit) {
  return unit == images_unit ? Column{"images_per_second", "Images/s", true} : Column{unit, unit, true};
}

std::string in_unit(const std::string& unit) {
  return unit == images_unit ? "" : ", in " + unit;
}

Cell other_unit_cell(const std::optional<double>& throughput, const std::string& unit) {
  if (!throughput || unit == images_unit) { return {}; }
  auto result = throughput_cell(throughput);
  result.text =
      takes_prefix(unit) ? figure_with_unit(*throughput, unit) : result.text + " " + printable(unit);
  return result;
}

Cell unit_cell(const std::optional<double>& throughput, const std::string& unit) {
  return throughput && unit != images_unit ? silent_cell(unit) : Cell{};
}

Cell share_cell(const std::optional<double>& share, int decimals) {
  return share ? Cell{*share, fmt::format("{:.{}f} %", *share * 100, decimals)} : Cell{};
}

Cell tenants_cell(const std::vector<TenantMean>& tenants) {
  Cell result;
  std::vector<std::string> texts;
  for (const auto& tenant : tenants) {
    result.value.push_back(or_null(tenant.throughput));
    texts.push_back(throughput_cell(tenant.throughput).text);
  }
  result.text = join(texts, " + ");
  return result;
}

Table without_empty_columns(Table table) {
  for (std::size_t i = table.columns.size(); i-- > 0;) {
    const auto index = static_cast<std::ptrdiff_t>(i);
    const bool empty = std::ranges::all_of(table.rows, [&](const auto& row) { return row[i].text.empty(); });
    if (!empty || !table.columns[i].hide_empty) { continue; }
    table.columns.erase(table.columns.begin() + index);
    for (auto& row : table.rows) { row.erase(row.begin() + index); }
  }
  return table;
}

std::string render(const Table& table, Format format, const Screen& screen) {
  switch (format) {
    case Format::table:
      return render_table(without_empty_columns(table), screen);
    case Format::json:
      return render_json(table);
    case Format::csv:
      return render_csv(table);
    case Format::markdown:
      return render_markdown(without_empty_columns(table));
  }
  return "";
}

std::string side_words(const ProbeKey& key) {
  std::vector<std::string> words;
  for (const auto& word : {key.side, printable(key.transport), settings_words(key.settings)}) {
    if (!word.empty()) { words.push_back(word); }
  }
  return join(words, " ");
}

bool takes_prefix(const std::string& unit) {
  return unit == "B/s" || unit == "FLOP/s" || unit == "s";
}

std::string figure_with_unit(double value, const std::string& unit) {
  static constexpr std::array<std::pair<double, const char*>, 8> scales = {
      {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}}};
  const auto fits = [&](const auto& scale) { return value >= scale.first; };
  const auto found = std::ranges::find_if(scales, fits);
  const auto& [factor, prefix] = value <= 0 ? scales[4] : found == scales.end() ? scales.back() : *found;
  return fmt::format("{:.4g} {}{}", value / factor, prefix, unit);
}

}  // namespace virtrain::results
