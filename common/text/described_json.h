#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <concepts>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/model/described.h"

// JSON of described records, both ways.

namespace virtrain {

template <DescribedRecord Record>
nlohmann::json message_json(const Record& record);

/// One value of a described record as JSON; an enumeration by its word, null
/// for an absent one.
template <typename Value>
nlohmann::json value_json(const Value& value) {
  if constexpr (is_optional<Value>) {
    return value ? value_json(*value) : nlohmann::json();
  } else if constexpr (DescribedEnum<Value>) {
    return to_string(value);
  } else if constexpr (DescribedRecord<Value>) {
    return message_json(value);
  } else if constexpr (is_list<Value>) {
    auto items = nlohmann::json::array();
    for (const auto& item : value) { items.push_back(value_json(item)); }
    return items;
  } else {
    return value;
  }
}

/// The fields that a record has by their names; absent ones are left out.
template <DescribedRecord Record>
nlohmann::json message_json(const Record& record) {
  auto fields = nlohmann::json::object();
  for_each_field<Record>([&](const auto& field) {
    if (auto value = value_json(record.*field.member); !value.is_null()) {
      fields[field.name] = std::move(value);
    }
  });
  return fields;
}

template <DescribedRecord Record>
nlohmann::json settings_json(const Record& record);

/// One value as a setting: of a record in it the settings alone.
template <typename Value>
nlohmann::json setting_json(const Value& value) {
  if constexpr (is_optional<Value>) {
    return value ? setting_json(*value) : nlohmann::json();
  } else if constexpr (DescribedRecord<Value>) {
    return settings_json(value);
  } else {
    return value_json(value);
  }
}

/// The settings of a record, those that a scenario may say, by their names;
/// absent ones are left out.
template <DescribedRecord Record>
nlohmann::json settings_json(const Record& record) {
  auto settings = nlohmann::json::object();
  for_each_field<Record>([&](const auto& field) {
    if (field.is.key == nullptr) { return; }
    if (auto value = setting_json(record.*field.member); !value.is_null()) {
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

/// Whether it is a whole number that the type and the field have; then `into` has it, never another one.
template <std::integral Value>
bool read_integer(const nlohmann::json& said, const Property& is, Value& into) {
  const auto take = [&](auto number) {
    const bool fits = std::in_range<Value>(number) && std::cmp_greater_equal(number, is.least) &&
                      (is.most == INT64_MAX || std::cmp_less_equal(number, is.most));
    if (fits) { into = static_cast<Value>(number); }
    return fits;
  };
  if (!said.is_number_integer()) { return false; }
  return said.is_number_unsigned() ? take(said.get<std::uint64_t>()) : take(said.get<std::int64_t>());
}

/// Whether the value fits the field; then `into` has it. Items of a list or map are read as the field is.
template <typename Value>
bool read_value(const nlohmann::json& said, const Property& is, Value& into) {
  if constexpr (is_optional<Value>) {
    typename Value::value_type value{};
    if (!read_value(said, is, value)) { return false; }
    into = std::move(value);
    return true;
  } else if constexpr (DescribedRecord<Value>) {
    return said.is_object() && read_record(said, into).empty();
  } else if constexpr (DescribedEnum<Value>) {
    const auto value =
        said.is_string() ? enum_of<Value>(said.get_ref<const std::string&>()) : std::optional<Value>();
    if (value) { into = *value; }
    return value.has_value();
  } else if constexpr (std::is_same_v<Value, bool>) {
    if (said.is_boolean()) { into = said.get<bool>(); }
    return said.is_boolean();
  } else if constexpr (std::is_integral_v<Value>) {
    return read_integer(said, is, into);
  } else if constexpr (std::is_floating_point_v<Value>) {
    if (!said.is_number()) { return false; }
    const auto number = said.get<double>();
    const bool fits =
        std::isfinite(number) && (is.least == INT64_MIN || number >= static_cast<double>(is.least)) &&
        (is.most == INT64_MAX || number <= static_cast<double>(is.most)) && (!is.positive || number > 0);
    if (fits) { into = number; }
    return fits;
  } else if constexpr (std::is_same_v<Value, std::string>) {
    if (!said.is_string() || said.get_ref<const std::string&>().size() > is.most_bytes) { return false; }
    into = said.get<std::string>();
    return true;
  } else if constexpr (is_list<Value>) {
    if (!said.is_array() || said.size() > is.most_items) { return false; }
    for (const auto& one : said) {
      typename Value::value_type item{};
      if (read_value(one, is, item)) { into.push_back(std::move(item)); }
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
    return is.most_bytes == SIZE_MAX ? "text" : fmt::format("text of at most {} bytes", is.most_bytes);
  } else if constexpr (DescribedEnum<Value>) {
    return enum_list<Value>();
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
  } else if constexpr (is_list<Value>) {
    const auto most = is.most_items == SIZE_MAX ? "" : fmt::format(" of at most {}", is.most_items);
    return fmt::format("a list{}, each {}", most, allowed_words<typename Value::value_type>(is));
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
    const bool fits =
        absent ? is_optional<Value> || field.is.may_lack : read_value(*found, field.is, into.*field.member);
    if (!fits && !field.is.lenient && refusal.empty()) {
      refusal = fmt::format("'{}' must be {}", field.name, allowed_words<Value>(field.is));
    }
  });
  return refusal;
}

}  // namespace virtrain
