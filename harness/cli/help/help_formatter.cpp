#include "harness/cli/help/help_formatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "common/text/text.h"
#include "common/text/wrap.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t screen_columns = 80, name_columns = 26;

/// As CLI11 wants it, which indents each further line.
std::string in_lines(const std::string& text) {
  return join(wrap(text, screen_columns - name_columns), "\n");
}

/// A line that is too long goes on below, an example further in than it began. What an example is for, behind
/// two blanks or more, gets a line of its own.
std::string wrapped_line(const std::string& line) {
  if (text_width(line) <= screen_columns) { return line + "\n"; }
  const auto indent = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t further = indent == 0 ? 0 : 2;
  if (const auto end = line.find("  ", indent); end != std::string::npos) {
    const auto purpose = std::string(indent + 2 * further, ' ') + std::string(trim(line.substr(end)));
    return wrapped_line(line.substr(0, end)) + wrapped_line(purpose);
  }
  std::string text;
  for (const auto& part : wrap(line, screen_columns - indent - further)) {
    text += std::string(text.empty() ? indent : indent + further, ' ') + part + "\n";
  }
  return text;
}

/// A line of prose goes on with the line before it; headings ("Examples:"), examples and empty lines stand
/// alone.
bool goes_on(const std::string& before, const std::string& line) {
  return !before.empty() && !before.starts_with(' ') && !before.ends_with(':') && !line.empty() &&
         !line.ends_with(':');
}

}  // namespace

HelpFormatter::HelpFormatter() {
  column_width(name_columns);
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  const auto text = app->get_description();
  return text.empty() ? "" : join(wrap(text, screen_columns), "\n") + "\n";
}

/// Options that need another one stand below the others, under that one's name.
std::string HelpFormatter::make_group(std::string head, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  if (is_positional) { return Formatter::make_group(std::move(head), is_positional, std::move(options)); }
  std::vector<std::pair<std::string, std::vector<const CLI::Option*>>> groups{{std::move(head), {}}};
  for (const auto* option : options) {
    const auto needs = option->get_needs();
    const auto name = needs.empty() ? groups.front().first : "With " + (*needs.begin())->get_name();
    auto group = std::ranges::find(groups, name, [](const auto& one) { return one.first; });
    if (group == groups.end()) { group = groups.insert(groups.end(), {name, {}}); }
    group->second.push_back(option);
  }
  std::string text;
  for (const auto& [name, members] : groups) { text += Formatter::make_group(name, false, members); }
  return text;
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  if (app->get_footer().empty()) { return ""; }
  std::vector<std::string> paragraphs;
  for (const auto& line : split(app->get_footer(), '\n')) {
    if (!paragraphs.empty() && goes_on(paragraphs.back(), line)) {
      paragraphs.back() += " " + std::string(trim(line));
    } else {
      paragraphs.emplace_back(line);
    }
  }
  std::string text;
  for (const auto& one : paragraphs) { text += wrapped_line(one); }
  return text;
}

std::string HelpFormatter::make_subcommand(const CLI::App* verb) const {
  std::ostringstream out;
  CLI::detail::format_help(out, verb->get_display_name(), in_lines(verb->get_description()), name_columns);
  return out.str();
}

std::string HelpFormatter::make_option_name(const CLI::Option* option, bool is_positional) const {
  const auto name = Formatter::make_option_name(option, is_positional);
  return name.substr(0, name.find('{'));  // a flag that means no says so by its name
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) { return ""; }
  const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  const auto type = option->get_type_name();  // with the words that are allowed, which the sentence has
  return " " + type.substr(0, type.find(":{")) + (many ? " ..." : "");
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  auto text = option->get_description();
  const auto& usual = option->get_default_str();
  if (option->get_type_size() != 0 && !usual.empty() && text.find("(default") == std::string::npos) {
    text += fmt::format(" (default: {})", usual);
  }
  if (option->get_required() && !option->get_positional()) { text += " (required)"; }
  if (option->get_positional()) {  // others stand under "With --that:"
    for (const auto* other : option->get_needs()) { text += fmt::format(" (with {})", other->get_name()); }
  }
  return in_lines(text);
}

}  // namespace virtrain::harness
