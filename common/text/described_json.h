#pragma once

#include <nlohmann/json.hpp>

#include "common/model/described.h"

namespace virtrain {

/// One value of a described record as JSON; an enumeration by its word, null for an absent one.
template <typename Value>
nlohmann::json value_json(const Value& value) {
  if constexpr (is_optional<Value>) {
    return value ? value_json(*value) : nlohmann::json();
  } else if constexpr (DescribedEnum<Value>) {
    return to_string(value);
  } else {
    return value;
  }
}

/// The settings of a record, those that a scenario may say, by their names; absent ones are left out.
template <typename Record>
nlohmann::json settings_json(const Record& record) {
  auto settings = nlohmann::json::object();
  for_each_field<Record>([&](const auto& field) {
    if (field.is.key == nullptr) { return; }
    if (auto value = value_json(record.*field.member); !value.is_null()) {
      settings[field.name] = std::move(value);
    }
  });
  return settings;
}

}  // namespace virtrain
