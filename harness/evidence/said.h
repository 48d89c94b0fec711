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

}  // namespace virtrain::harness
