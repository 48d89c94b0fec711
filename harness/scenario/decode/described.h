#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "common/model/described.h"
#include "common/model/workload.h"
#include "harness/scenario/yaml/yaml_reader.h"

// The decoder of described records: their rows say what a scenario may say.

namespace virtrain::harness {

/// The schema's sentences about the field.
About about(const Property& is);

/// Environment variables, which have rules of their own.
void read_environment(MapReader& in, const Property& is, Variables& into);
/// A text that is one of few words or has a form.
void read_text(MapReader& in, const Property& is, std::string& into);
/// A list of texts that have a form, each of them once.
void read_texts(MapReader& in, const Property& is, std::vector<std::string>& into);
/// A number of bytes a second, "100MiB/s".
std::optional<std::uint64_t> read_rate(MapReader& in, const Property& is);
/// A number with its unit, "250W", and as many decimals at most.
std::optional<double> read_quantity(MapReader& in, const Property& is, std::size_t decimals);

/// A number as its unit has it. CPU time depends on the node's cores: whoever
/// knows them reads it.
template <typename Number>
std::optional<Number> read_number(MapReader& in, const Property& is, const About& about) {
  const Range range{is.least, is.most};
  if (is.unit == ValueUnit::cores) { return std::nullopt; }
  if (is.unit == ValueUnit::watts || is.unit == ValueUnit::megahertz) {
    constexpr std::size_t decimals = std::is_same_v<Number, double> ? 3 : 0;
    const auto quantity = read_quantity(in, is, decimals);
    return quantity ? std::optional(static_cast<Number>(*quantity)) : std::nullopt;
  }
  if constexpr (std::is_same_v<Number, double>) {
    return is.unit == ValueUnit::share
               ? in.share(is.key, static_cast<double>(is.least), static_cast<double>(is.most), about)
               : in.number(is.key, range, about);
  } else {
    if (is.unit == ValueUnit::bytes_per_second) { return read_rate(in, is); }
    if (is.unit == ValueUnit::bytes) {
      return in.size_bytes(is.key, static_cast<std::uint64_t>(is.least), static_cast<std::uint64_t>(is.most),
                           about);
    }
    return is.unit == ValueUnit::mib ? in.size_mib(is.key, range, about) : in.integer(is.key, range, about);
  }
}

/// The words of an enumeration as scenarios have them.
template <DescribedEnum E>
std::vector<std::string> scenario_words(const Property& is) {
  auto words = enum_names<E>();
  for (auto& word : words) {
    if (is.dashes) { std::ranges::replace(word, '_', '-'); }
  }
  return words;
}

template <typename T>
inline constexpr bool is_optional_record = false;
template <DescribedRecord Record>
inline constexpr bool is_optional_record<std::optional<Record>> = true;
template <typename T>
inline constexpr bool is_optional_enum = false;
template <DescribedEnum E>
inline constexpr bool is_optional_enum<std::optional<E>> = true;

template <typename T>
inline constexpr bool is_record_list = false;
template <DescribedRecord Record>
inline constexpr bool is_record_list<std::vector<Record>> = true;

template <DescribedRecord Record>
void read_fields(MapReader& in, Record& into);

/// A list of records, each of which `check` looks at once its own complaints are none. What the file says
/// takes the place of the records that there were.
template <DescribedRecord Record, typename Check>
void read_records(MapReader& in, const Property& is, std::vector<Record>& into, Check&& check) {
  const auto list = in.child(is.key, in.describes() ? about(is) : About{.text = is.text});
  if (!list) { return; }
  into.clear();
  for (const auto& item : read_list(*list, is.key, 1, is.most_items, in.diagnostics())) {
    const auto complaints = in.diagnostics().found().size();
    MapReader inner(item, is.key, in.diagnostics());
    read_fields(inner, into.emplace_back());
    inner.finish();
    if (!in.describes() && in.diagnostics().found().size() == complaints) { check(inner, into.back()); }
  }
}

template <typename Value>
void read_field(MapReader& in, const Property& is, Value& into) {
  About of_field = in.describes() ? about(is) : About{.text = is.text, .meant = is.meant};
  if constexpr (std::is_same_v<Value, std::optional<bool>>) {
    if (const auto word = in.one_of(is.key, {"off", "on"}, of_field)) { into = *word == 1; }
  } else if constexpr (std::is_same_v<Value, std::optional<std::string>>) {
    std::string text;
    read_text(in, is, text);
    if (!text.empty()) { into = std::move(text); }
  } else if constexpr (is_optional_enum<Value>) {
    using Enum = typename Value::value_type;
    if (const auto word = in.one_of(is.key, scenario_words<Enum>(is), of_field)) {
      into = enum_values<Enum>()[*word];
    }
  } else if constexpr (is_optional_record<Value>) {
    if (const auto child = in.child(is.key, of_field)) {
      MapReader inner(*child, is.key, in.diagnostics());
      read_fields(inner, into.emplace());
      inner.finish();
    }
  } else if constexpr (is_optional<Value>) {
    if (const auto value = read_number<typename Value::value_type>(in, is, of_field)) { into = *value; }
  } else if constexpr (std::is_same_v<Value, bool>) {
    in.boolean(is.key, into, is.text);
  } else if constexpr (DescribedEnum<Value>) {
    const auto words = scenario_words<Value>(is);
    of_field.fallback = words[static_cast<std::size_t>(into)];
    if (const auto word = in.one_of(is.key, words, of_field)) { into = enum_values<Value>()[*word]; }
  } else if constexpr (DescribedRecord<Value>) {
    if (const auto child = in.child(is.key, of_field)) {
      MapReader inner(*child, is.key, in.diagnostics());
      read_fields(inner, into);
      inner.finish();
    }
  } else if constexpr (is_record_list<Value>) {
    read_records(in, is, into, [](MapReader&, const auto&) {});
  } else if constexpr (std::is_same_v<Value, std::string>) {
    read_text(in, is, into);
  } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
    read_texts(in, is, into);
  } else if constexpr (std::is_same_v<Value, Variables>) {
    read_environment(in, is, into);
  } else {
    if (!is.required) { of_field.fallback = into; }
    if (const auto value = read_number<Value>(in, is, of_field)) { into = *value; }
  }
}

/// Reads every field that has a key; what the file does not say stays as it is. `adjust` may change a row for
/// this file, and says whether the field is read here. `required`: whether rows that are must be there.
template <DescribedRecord Record, typename Adjust>
void read_fields(MapReader& in, Record& into, Adjust&& adjust, bool required = true) {
  for_each_field<Record>([&](const auto& field) {
    if (field.is.required && required) { in.require(field.is.key); }
  });
  for_each_field<Record>([&](const auto& field) {
    auto is = field.is;
    if (is.key != nullptr && adjust(is)) { read_field(in, is, into.*field.member); }
  });
}

template <DescribedRecord Record>
void read_fields(MapReader& in, Record& into) {
  read_fields(in, into, [](const Property&) { return true; });
}

}  // namespace virtrain::harness
