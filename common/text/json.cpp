#include "common/text/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"

namespace virtrain {
namespace {

/// Calls `look` with the index of each byte that is not part of a string.
template <typename Look>
void outside_strings(std::string_view text, Look look) {
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      look(i);
    }
  }
}

/// Before anything is built: exact for JSON, and what is none is refused one way or another.
void check_shape(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    throw JsonRefusal(fmt::format("this is longer than {} bytes", limits.bytes));
  }
  std::size_t level = 0;
  std::size_t values = 1;
  outside_strings(text, [&](std::size_t i) {
    const char byte = text[i];
    if (byte == '{' || byte == '[') {
      if (++level > limits.depth) {
        throw JsonRefusal(fmt::format("this is nested deeper than {} levels", limits.depth), i + 1);
      }
      ++values;
    } else if ((byte == '}' || byte == ']') && level > 0) {
      --level;
    } else if (byte == ',') {
      ++values;
    }
    if (values > limits.values) {
      throw JsonRefusal(fmt::format("this has more than {} values", limits.values), i + 1);
    }
  });
}

/// nlohmann's parser lets the same key pass twice.
class KeyWatch {
 public:
  bool operator()(int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) { open_objects_.emplace_back(); }
    if (event == Event::object_end) { open_objects_.pop_back(); }
    if (event == Event::key && !open_objects_.back().insert(parsed.get<std::string>()).second) {
      throw JsonRefusal(fmt::format("the key \"{}\" appears twice", excerpt(parsed.get<std::string>())));
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> open_objects_;
};

bool is_in_number(char c) {
  return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/// Byte from 1 where this number starts, 0 for nowhere; numbers in strings do not count.
std::size_t find_number(std::string_view text, std::string_view number) {
  std::size_t found = 0;
  outside_strings(text, [&](std::size_t i) {
    const bool begins = is_in_number(text[i]) && (i == 0 || !is_in_number(text[i - 1]));
    if (found != 0 || !begins) { return; }
    if (Scanner(text.substr(i)).take_while(is_in_number) == number) { found = i + 1; }
  });
  return found;
}

/// Whether NaN or Infinity is what the parser stumbled over: it stops at the first letter, behind a sign at
/// the next.
bool is_no_number(std::string_view text, std::size_t byte) {
  constexpr std::array words = {"nan", "inf", "-nan", "-inf"};
  for (std::size_t back = 1; back <= 2 && back <= byte; ++back) {
    const auto word = lower(std::string(text.substr(std::min(byte - back, text.size()), 4)));
    if (std::ranges::any_of(words, [&](const char* one) { return word.starts_with(one); })) { return true; }
  }
  return false;
}

/// Without what the library says of itself and, since the caller knows the place better, of lines and
/// columns: "[json.exception.parse_error.101] parse error at line 3, column 7: ".
JsonRefusal refusal_of(std::string_view text, const nlohmann::json::exception& failure) {
  std::string_view words = failure.what();
  std::size_t byte = 0;
  if (const auto* syntax = dynamic_cast<const nlohmann::json::parse_error*>(&failure)) {
    byte = syntax->byte;
    words.remove_prefix(words.find(": ") + 2);
  } else {
    words.remove_prefix(words.find("] ") + 2);
    // For a number beyond all doubles the library does not say where it is: "number overflow parsing
    // '1e999'".
    const auto open = words.find('\''), close = words.rfind('\'');
    if (open != close) { byte = find_number(text, words.substr(open + 1, close - open - 1)); }
  }
  return {fmt::format("this is not JSON: {}{}", excerpt(words),
                      is_no_number(text, byte) ? " (NaN and Infinity are not JSON numbers)" : ""),
          byte};
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const JsonLimits& limits) {
  check_shape(text, limits);
  try {
    if (!limits.unique_keys) { return nlohmann::json::parse(text); }
    return nlohmann::json::parse(
        text, [watch = KeyWatch()](int depth, nlohmann::json::parse_event_t event,
                                   nlohmann::json& parsed) mutable { return watch(depth, event, parsed); });
  } catch (const nlohmann::json::exception& failure) { throw refusal_of(text, failure); }
}

nlohmann::json parse_json(std::string_view text, const std::string& operation, ErrorCode code,
                          const JsonLimits& limits) {
  try {
    return parse_json(text, limits);
  } catch (const JsonRefusal& refusal) { throw Error(operation, code, refusal.what()); }
}

nlohmann::json parse_json_or_null(std::string_view text, const JsonLimits& limits) {
  try {
    return parse_json(text, limits);
  } catch (const JsonRefusal&) { return nullptr; }
}

std::string safe_json_text(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  const auto is_plain = [](char c) { return (c >= ' ' && c <= '~') || c == '\n'; };
  // Outside of strings JSON is plain ASCII, so what is escaped stands in a string.
  while (true) {
    const auto plain = static_cast<std::size_t>(std::ranges::find_if_not(text, is_plain) - text.begin());
    safe += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) { return safe; }
    const auto [point, length] = first_code_point(text);
    const auto value = static_cast<unsigned>(point);
    if (is_showable(point)) {
      safe += text.substr(0, length);
    } else if (value < 0x10000) {
      safe += fmt::format("\\u{:04x}", value);
    } else {
      safe += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((value - 0x10000) >> 10),
                          0xDC00 + ((value - 0x10000) & 0x3FF));
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

std::string dump_json(const nlohmann::json& value, int indent) {
  return safe_json_text(value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace));
}

const nlohmann::json& member(const nlohmann::json& value, const char* key) {
  static const nlohmann::json none;
  const auto found = value.is_object() ? value.find(key) : value.end();
  return found == value.end() ? none : *found;
}

std::string text_in(const nlohmann::json& value, const char* key) {
  const auto found = value.is_object() ? value.find(key) : value.end();
  return found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace virtrain
