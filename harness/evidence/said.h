#pragma once

#include <nlohmann/json.hpp>

#include <optional>

// What ranks have said, where nothing is there for sure and nothing has to be of its type.

namespace virtrain::harness {

/// The record; null where none came.
inline const nlohmann::json& said(const std::optional<nlohmann::json>& record) {
  static const nlohmann::json none;
  return record ? *record : none;
}

/// A member of an object; null where there is no such object or member.
inline const nlohmann::json& member(const nlohmann::json& object, const char* name) {
  static const nlohmann::json none;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? none : *found;
}

}  // namespace virtrain::harness
