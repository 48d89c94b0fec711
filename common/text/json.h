#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "common/error.h"

namespace virtrain {

/// Bounds of JSON that another process, a guest or a file made. Values are copied, shown and written level by
/// level on the stack, and each takes more memory than its text.
struct JsonLimits {
  std::size_t bytes = std::size_t{16} << 20;
  std::size_t depth = 64;
  std::size_t values = 1'000'000;
  bool unique_keys = false;  ///< refuse a key given twice in one object; else the last counts
};

/// Why a text was refused, in words safe to show.
struct JsonRefusal : std::runtime_error {
  JsonRefusal(const std::string& message, std::size_t at = 0) : std::runtime_error(message), byte(at) {}
  std::size_t byte;  ///< from 1, where in the text; 0: not known
};

/// The only parser of JSON in the product. Throws JsonRefusal.
nlohmann::json parse_json(std::string_view text, const JsonLimits& limits);
/// As above; throws Error(code) with that operation.
nlohmann::json parse_json(std::string_view text, const std::string& operation, ErrorCode code,
                          const JsonLimits& limits = {});
/// As above; null where the text is refused.
nlohmann::json parse_json_or_null(std::string_view text, const JsonLimits& limits = {});

/// JSON text that is safe to show and reads back the same: what is_showable() refuses is escaped, bytes that
/// are no UTF-8 become U+FFFD. `indent` as nlohmann's dump().
std::string dump_json(const nlohmann::json& value, int indent = -1);
/// As above, of JSON text that is there already.
std::string safe_json_text(std::string_view text);

/// The value under that key; null where the object has none, or `value` is no object.
const nlohmann::json& member(const nlohmann::json& value, const char* key);
/// The text that an object has under that key; empty where it has none, or `value` is no object.
std::string text_in(const nlohmann::json& value, const char* key);

/// The value, or null where there is none.
template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

/// The text, or null for an empty one.
inline nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

}  // namespace virtrain
