#include "harness/scenario/line_pattern.h"

#include <re2/re2.h>

#include <algorithm>
#include <vector>

#include "common/text/printable.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

constexpr std::int64_t most_pattern_memory_bytes = std::int64_t{1} << 20;
constexpr int most_groups = 16;

RE2::Options line_options() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(most_pattern_memory_bytes);
  options.set_encoding(RE2::Options::EncodingLatin1);  // a job may print any bytes
  return options;
}

std::optional<double> positive_number(re2::StringPiece said) {
  std::string digits(said.data(), said.size());
  std::erase(digits, ',');
  const auto value = parse_number(digits);
  return value && *value > 0 ? value : std::nullopt;
}

}  // namespace

struct LinePattern::Compiled {
  explicit Compiled(const std::string& pattern) : expression(pattern, line_options()) {}
  RE2 expression;
  int value = 0, work = 0;  ///< numbers of the groups; 0: there is none

  /// The whole match and its groups; empty where the line does not match.
  std::vector<re2::StringPiece> match(std::string_view line) const {
    std::vector<re2::StringPiece> groups(static_cast<std::size_t>(std::max(value, work)) + 1);
    const re2::StringPiece text(line.data(), line.size());
    const bool found = expression.Match(text, 0, text.size(), RE2::UNANCHORED, groups.data(),
                                        static_cast<int>(groups.size()));
    return found ? groups : std::vector<re2::StringPiece>();
  }
};

LinePattern::LinePattern(const std::string& pattern) {
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
    if (compiled->value == 0) { refusal_ = R"(it has no group (?P<value>...), such as (?P<value>[\d.]+))"; }
  }
  compiled_ = std::move(compiled);
}

bool LinePattern::matches(std::string_view line) const {
  return refusal_.empty() && !compiled_->match(line).empty();
}

std::optional<LineFigure> LinePattern::figure_in(std::string_view line) const {
  if (!refusal_.empty()) { return std::nullopt; }
  const auto groups = compiled_->match(line);
  if (groups.empty()) { return std::nullopt; }
  const auto value = positive_number(groups[static_cast<std::size_t>(compiled_->value)]);
  if (!value) { return std::nullopt; }
  LineFigure figure{*value};
  if (compiled_->work > 0) {
    figure.work = positive_number(groups[static_cast<std::size_t>(compiled_->work)]);
  }
  return figure;
}

}  // namespace virtrain::harness
