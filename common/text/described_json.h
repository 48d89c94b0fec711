#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "common/model/described.h"

// JSON of described records, both ways.

namespace virtrain {

/// One value of a described record as JSON; an enumeration by its word, null
/// for an absent one.
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

/// The settings of a record, those that a scenario may say, by their names;
/// absent ones are left out.
template <DescribedRecord Record>
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

/// All fields of a record by their names, null for absent ones.
template <DescribedRecord Record>
nlohmann::json record_json(const Record& record) {
  auto fields = nlohmann::json::object();
  for_each_field<Record>([&](const auto& field) { fields[field.name] = value_json(record.*field.member); });
  return fields;
}

/// One field of a record with its value, to be put into an object beside what the record does not describe.
/// The value has to be one of the field's.
template <typename Record, typename Field, typename Value>
nlohmann::json described(Field Record::*member, const Value& value) {
  static_assert(std::is_convertible_v<Value, Field>);
  return nlohmann::json::array({name_of(member), value_json(value)});
}

template <DescribedRecord Record>
std::string read_record(const nlohmann::json& object, Record& into);

/// Whether the value fits the field; then `into` has it.
template <typename Value>
bool read_value(const nlohmann::json& said, const Property& is, Value& into) {
  if constexpr (is_optional<Value>) {
    typename Value::value_type value{};
    if (!read_value(said, is, value)) { return false; }
    into = std::move(value);
    return true;
  } else if constexpr (DescribedRecord<Value>) {
    return said.is_object() && read_record(said, into).empty();
  } else if constexpr (std::is_same_v<Value, bool>) {
    if (said.is_boolean()) { into = said.get<bool>(); }
    return said.is_boolean();
  } else if constexpr (std::is_integral_v<Value>) {
    // An unsigned number beyond std::int64_t would turn negative.
    const bool fits =
        said.is_number_integer() && (!said.is_number_unsigned() || said.get<std::uint64_t>() <= INT64_MAX);
    if (!fits || said.get<std::int64_t>() < is.least || said.get<std::int64_t>() > is.most) { return false; }
    into = said.get<Value>();
    return true;
  } else if constexpr (std::is_floating_point_v<Value>) {
    if (!said.is_number()) { return false; }
    const auto number = said.get<double>();
    const bool fits =
        std::isfinite(number) && (is.least == INT64_MIN || number >= static_cast<double>(is.least)) &&
        (is.most == INT64_MAX || number <= static_cast<double>(is.most)) && (!is.positive || number > 0);
    if (fits) { into = number; }
    return fits;
  } else if constexpr (std::is_same_v<Value, std::string>) {
    if (said.is_string()) { into = said.get<std::string>(); }
    return said.is_string();
  } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
    if (!said.is_array()) { return false; }
    for (const auto& word : said) {
      if (word.is_string()) { into.push_back(word.get<std::string>()); }
    }
    return is.lenient || into.size() == said.size();
  } else {
    if (!said.is_object()) { return false; }
    for (const auto& [name, value] : said.items()) {
      typename Value::mapped_type item{};
      if (read_value(value, is, item)) { into[name] = item; }
    }
    return is.lenient || into.size() == said.size();
  }
}

/// Rule for a value of the field: "a whole number of at least 1".
template <typename Value>
std::string allowed_words(const Property& is) {
  if constexpr (is_optional<Value>) {
    return allowed_words<typename Value::value_type>(is);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return "text";
  } else if constexpr (std::is_same_v<Value, bool>) {
    return "true or false";
  } else if constexpr (std::is_arithmetic_v<Value>) {
    const char* kind = std::is_integral_v<Value> ? "a whole number"
                       : is.positive             ? "a positive finite number"
                                                 : "a finite number";
    const bool has_least = is.least != INT64_MIN, has_most = is.most != INT64_MAX;
    return has_least && has_most ? fmt::format("{} from {} to {}", kind, is.least, is.most)
           : has_least           ? fmt::format("{} of at least {}", kind, is.least)
           : has_most            ? fmt::format("{} of at most {}", kind, is.most)
                                 : std::string(kind);
  } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
    return "a list of texts";
  } else {
    return "an object";
  }
}

/// Reads every field that the object has, and passes over what it has besides.
/// Returns why the first one that does not fit is refused: "'size' must be a
/// whole number of at least 1"; empty where all fit.
template <DescribedRecord Record>
std::string read_record(const nlohmann::json& object, Record& into) {
  std::string refusal;
  for_each_field<Record>([&](const auto& field) {
    using Value = std::remove_cvref_t<decltype(into.*field.member)>;
    const auto found = object.find(field.name);
    const bool absent = found == object.end() || found->is_null();
    const bool fits = absent ? is_optional<Value> : read_value(*found, field.is, into.*field.member);
    if (!fits && !field.is.lenient && refusal.empty()) {
      refusal = fmt::format("'{}' must be {}", field.name, allowed_words<Value>(field.is));
    }
  });
  return refusal;
}

}  // namespace virtrain
