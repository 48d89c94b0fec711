#include "harness/scenario/line_pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

constexpr std::int64_t most_pattern_memory_bytes = std::int64_t{1} << 20;
constexpr int most_groups = 16;
constexpr std::size_t longest_word = 40, longest_excerpt = 100;  ///< of what a message shows

RE2::Options line_options() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(most_pattern_memory_bytes);
  options.set_encoding(RE2::Options::EncodingLatin1);  // a job may print any bytes
  return options;
}

std::string_view view_of(re2::StringPiece piece) {
  return {piece.data(), piece.size()};
}

/// Whether a number goes on behind its end: ".5", ",234", "e+06".
bool goes_on(std::string_view rest) {
  const auto is_digit_at = [&](std::size_t at) { return at < rest.size() && is_digit(rest[at]); };
  const auto has_at = [&](std::size_t at, std::string_view any) {
    return at < rest.size() && any.find(rest[at]) != any.npos;
  };
  if (is_digit_at(0) || (has_at(0, ".,") && is_digit_at(1))) { return true; }
  return has_at(0, "eE") && is_digit_at(has_at(1, "+-") ? 2 : 1);
}

/// Whether a number has begun before: "1.", "1,", "1e+".
bool has_begun(std::string_view before) {
  const auto last = [&](std::size_t from_end) {
    return before.size() > from_end ? before[before.size() - 1 - from_end] : ' ';
  };
  if (is_digit(last(0)) || ((last(0) == '.' || last(0) == ',') && is_digit(last(1)))) { return true; }
  const std::size_t sign = last(0) == '+' || last(0) == '-' ? 1 : 0;
  return (last(sign) == 'e' || last(sign) == 'E') && is_digit(last(sign + 1));
}

}  // namespace

struct LinePattern::Compiled {
  explicit Compiled(const std::string& pattern) : expression(pattern, line_options()) {}
  RE2 expression;
  int value = 0, work = 0;  ///< numbers of the groups; 0: there is none
  std::vector<std::pair<std::string, int>> settings = {};

  /// The whole match and its groups; empty where the line does not match.
  std::vector<re2::StringPiece> match(std::string_view line) const {
    std::vector<re2::StringPiece> groups(static_cast<std::size_t>(expression.NumberOfCapturingGroups()) + 1);
    const re2::StringPiece text(line.data(), line.size());
    const bool found = expression.Match(text, 0, text.size(), RE2::UNANCHORED, groups.data(),
                                        static_cast<int>(groups.size()));
    return found ? groups : std::vector<re2::StringPiece>();
  }
};

LinePattern::LinePattern(const std::string& pattern, Values values) : values_(values) {
  auto compiled = std::make_shared<Compiled>(pattern);
  const auto& expression = compiled->expression;
  if (!expression.ok()) {
    refusal_ = excerpt(expression.error());
  } else if (expression.NumberOfCapturingGroups() > most_groups) {
    refusal_ = "it has more than 16 groups (use (?:...) for those that are not read)";
  } else {
    const auto& names = expression.NamedCapturingGroups();
    const auto number_of = [&](const char* name) {
      const auto found = names.find(name);
      return found == names.end() ? 0 : found->second;
    };
    compiled->value = number_of("value");
    compiled->work = number_of("work");
    for (const auto& [name, number] : names) {
      if (name != "value" && name != "work") { compiled->settings.emplace_back(name, number); }
    }
    if (compiled->value == 0) { refusal_ = R"(it has no group (?P<value>...), such as (?P<value>[\d.]+))"; }
  }
  compiled_ = std::move(compiled);
}

bool LinePattern::has_work() const {
  return compiled_->work > 0;
}

std::vector<std::string> LinePattern::settings() const {
  std::vector<std::string> names;
  for (const auto& [name, number] : compiled_->settings) { names.push_back(name); }
  return names;
}

bool LinePattern::matches(std::string_view line) const {
  return refusal_.empty() && !compiled_->match(line).empty();
}

std::optional<LineReading> LinePattern::read(std::string_view line) const {
  if (!refusal_.empty()) { return std::nullopt; }
  const auto groups = compiled_->match(line);
  if (groups.empty()) { return std::nullopt; }
  const auto group = [&](int number) { return view_of(groups[static_cast<std::size_t>(number)]); };
  const auto said = group(compiled_->value), whole = group(0);
  const auto value = parse_grouped_number(said);
  if (!value || (values_ == Values::above_zero && *value <= 0)) {
    return LineReading{{}, no_number_words(said, values_)};
  }
  // Where the pattern matches what is around the value, it says itself where the number ends.
  const auto begin = static_cast<std::size_t>(said.data() - line.data()), end = begin + said.size();
  if ((said.end() == whole.end() && goes_on(line.substr(end))) ||
      (said.begin() == whole.begin() && has_begun(line.substr(0, begin)))) {
    return LineReading{{},
                       fmt::format("'{}', which is a part of a number in '{}'", excerpt(said, longest_word),
                                   excerpt(trim(line), longest_excerpt))};
  }
  LineFigure figure{*value};
  if (compiled_->work > 0) {
    figure.work = parse_grouped_number(group(compiled_->work));
    if (figure.work && *figure.work <= 0) { figure.work.reset(); }
  }
  constexpr std::size_t longest_setting = 100;
  for (const auto& [name, number] : compiled_->settings) {
    figure.settings[name] = excerpt(group(number), longest_setting);
  }
  return LineReading{std::move(figure), {}};
}

std::string no_number_words(std::string_view said, LinePattern::Values values) {
  return fmt::format("'{}', which is not a number{}", excerpt(said, longest_word),
                     values == LinePattern::Values::above_zero ? " above zero" : "");
}

}  // namespace virtrain::harness
