#include "harness/scenario/line_pattern.h"

#include <re2/re2.h>

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

std::optional<double> number_in(re2::StringPiece said) {
  std::string digits(said.data(), said.size());
  std::erase(digits, ',');
  return parse_number(digits);
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

std::optional<LineFigure> LinePattern::figure_in(std::string_view line) const {
  if (!refusal_.empty()) { return std::nullopt; }
  const auto groups = compiled_->match(line);
  if (groups.empty()) { return std::nullopt; }
  const auto group = [&](int number) { return groups[static_cast<std::size_t>(number)]; };
  const auto value = number_in(group(compiled_->value));
  if (!value || (values_ == Values::above_zero && *value <= 0)) { return std::nullopt; }
  LineFigure figure{*value};
  if (compiled_->work > 0) {
    figure.work = number_in(group(compiled_->work));
    if (figure.work && *figure.work <= 0) { figure.work.reset(); }
  }
  constexpr std::size_t longest_setting = 100;
  for (const auto& [name, number] : compiled_->settings) {
    figure.settings[name] = excerpt({group(number).data(), group(number).size()}, longest_setting);
  }
  return figure;
}

}  // namespace virtrain::harness
