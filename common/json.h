#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace virtrain {

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
