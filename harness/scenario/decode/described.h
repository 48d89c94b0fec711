#pragma once

#include "common/model/described.h"
#include "common/model/workload.h"
#include "common/text/json.h"
#include "harness/scenario/yaml/yaml_reader.h"

// The decoder of described records: their rows say what a scenario may say.

namespace virtrain::harness {

inline About about(const Property& is) {
  About about{.text = is.text, .absent = is.absent};
  if (is.example != nullptr) {
    const auto example = parse_json_or_null(is.example);
    about.example = example.is_null() ? Schema(is.example) : Schema(example);
  }
  return about;
}

/// Environment variables, which have rules of their own.
void read_environment(MapReader& in, const Property& is, Variables& into);

template <typename Value>
void read_field(MapReader& in, const Property& is, Value& into) {
  const Range range{is.least, is.most};
  if constexpr (is_optional<Value>) {
    const auto value = is.unit == ValueUnit::mib ? in.size_mib(is.key, range, about(is))
                                                 : in.integer(is.key, range, about(is));
    if (value) { into = *value; }
  } else if constexpr (DescribedEnum<Value>) {
    in.one_of(is.key, into, is.text);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    in.one_of(is.key, {is.only_word}, {.text = is.text, .fallback = into});
  } else if constexpr (std::is_same_v<Value, Variables>) {
    read_environment(in, is, into);
  } else {
    auto value = static_cast<std::int64_t>(into);
    in.integer(is.key, range, value, is.text);
    into = static_cast<Value>(value);
  }
}

/// Reads every field that has a key; what the file does not say stays as it is.
template <typename Record>
void read_fields(MapReader& in, Record& into) {
  for_each_field<Record>([&](const auto& field) {
    if (field.is.key != nullptr) { read_field(in, field.is, into.*field.member); }
  });
}

}  // namespace virtrain::harness
