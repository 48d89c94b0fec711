#include "harness/scenario/decode/described.h"

#include <fmt/format.h>

#include "common/contains.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {

About about(const Property& is) {
  About about{.text = is.text, .absent = is.absent, .pattern = is.pattern, .meant = is.meant};
  if (is.example != nullptr) {
    const auto example = parse_json_or_null(is.example);
    about.example = example.is_null() ? Schema(is.example) : Schema(example);
  }
  return about;
}

void read_text(MapReader& in, const Property& is, std::string& into) {
  About of_text = in.describes() ? about(is) : About{.text = is.text};
  if (!into.empty()) { of_text.fallback = into; }
  if (is.only_word != nullptr) {
    in.one_of(is.key, {is.only_word}, of_text);
  } else if (const auto text = in.text(is.key, static_cast<std::size_t>(is.most), of_text)) {
    into = *text;
    if (is.fits != nullptr && !is.fits(*text)) {
      in.refuse(is.key, "{}: '{}' {}", is.key, excerpt(*text), is.refusal);
    }
  }
}

/// Words in their order. What the file says takes the place of the words that there were.
void read_repeated(MapReader& in, const Property& is, std::vector<std::string>& into) {
  const auto list = in.child(is.key, in.describes() ? about(is) : About{.text = is.text});
  if (!list) { return; }
  into.clear();
  for (const auto& item : read_list(*list, is.key, 1, is.most_items, in.diagnostics())) {
    if (item.describes()) {
      *item.schema = {{"type", {"string", "number", "boolean"}}, {"maxLength", is.most}};
      break;
    }
    const std::string text = item.node.IsScalar() ? item.node.Scalar() : "";
    const bool fits = item.node.IsScalar() && text.size() <= static_cast<std::size_t>(is.most) &&
                      text.find('\0') == std::string::npos;
    if (fits) {
      into.push_back(text);
    } else {
      in.diagnostics().add(item.node.Mark(), "{} must be a list of texts of at most {} bytes without NUL",
                           is.key, is.most);
    }
  }
}

void read_texts(MapReader& in, const Property& is, std::vector<std::string>& into) {
  if (is.repeats) { return read_repeated(in, is, into); }
  constexpr std::size_t most_items = 1024;
  const auto list = in.child(is.key, in.describes() ? about(is) : About{.text = is.text});
  if (!list) { return; }
  if (list->describes()) { list->schema->erase("pattern"); }  // it is of the items
  for (const auto& item : read_set(*list, is.key, 1, most_items, in.diagnostics())) {
    if (item.describes()) {
      *item.schema = {{"type", "string"}, {"pattern", is.pattern}};
      break;
    }
    const std::string text = item.node.IsScalar() ? item.node.Scalar() : "";
    if (!is.fits(text)) {
      in.diagnostics().add(item.node.Mark(), "{} must be {}", is.key, is.refusal);
    } else if (contains(into, text)) {
      in.diagnostics().add(item.node.Mark(), "{} {} is there twice", is.key, excerpt(text));
    } else {
      into.push_back(text);
    }
  }
}

std::optional<std::uint64_t> read_rate(MapReader& in, const Property& is) {
  constexpr std::string_view each_second = "/s";
  const auto least = static_cast<std::uint64_t>(is.least), most = static_cast<std::uint64_t>(is.most);
  About of_rate = in.describes() ? about(is) : About{.text = is.text};
  of_rate.pattern = "^[0-9]+(B|KiB|MiB|GiB|TiB)/s$";
  const auto text = in.text(is.key, 64, of_rate);
  if (!text) { return std::nullopt; }
  std::optional<std::uint64_t> bytes;
  if (text->ends_with("B/s")) {
    bytes = parse_size_bytes(text->substr(0, text->size() - each_second.size()));
  }
  if (bytes && *bytes >= least && *bytes <= most) { return bytes; }
  in.refuse(is.key, "{}: '{}' is not allowed (allowed: bytes a second such as 100MiB/s, from {}/s to {}/s)",
            is.key, excerpt(*text), format_size(least), format_size(most));
  return std::nullopt;
}

std::optional<double> read_quantity(MapReader& in, const Property& is, std::size_t decimals) {
  const std::string unit = is.unit == ValueUnit::watts ? "W" : "MHz";
  const auto pattern = decimals == 0 ? fmt::format("^[0-9]{{1,6}}{}$", unit)
                                     : fmt::format("^[0-9]{{1,6}}(\\.[0-9]{{1,{}}})?{}$", decimals, unit);
  About of_quantity = in.describes() ? about(is) : About{.text = is.text};
  of_quantity.pattern = pattern.c_str();
  const auto text = in.text(is.key, 32, of_quantity);
  if (!text) { return std::nullopt; }
  if (text->ends_with(unit)) {
    const auto digits = text->substr(0, text->size() - unit.size());
    Scanner in_digits(digits);
    const bool is_number =
        !in_digits.take_while(is_digit, 1, 6).empty() &&
        (decimals == 0 || !in_digits.take(".") || !in_digits.take_while(is_digit, 1, decimals).empty());
    const auto value = is_number && in_digits.at_end() ? parse_number(digits) : std::nullopt;
    if (value && *value >= static_cast<double>(is.least) && *value <= static_cast<double>(is.most)) {
      return value;
    }
  }
  in.refuse(is.key, "{}: '{}' is not allowed (allowed: {}{} to {}{}{})", is.key, excerpt(*text), is.least,
            unit, is.most, unit, decimals == 0 ? ", whole numbers" : "");
  return std::nullopt;
}

}  // namespace virtrain::harness
