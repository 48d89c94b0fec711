#pragma once

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdint>
#include <string>
#include <type_traits>

#include "common/model/described.h"
#include "common/model/workload.h"
#include "common/text/described_json.h"
#include "common/text/units.h"

// A program's options, from the description of the record that they fill.

namespace virtrain {

/// Refuses what lies outside a field's range, or is no number; CLI::Range has no objection to "nan".
inline CLI::Validator real_range(const Property& is) {
  const auto range = [is](const std::string& text) {
    const auto number = parse_number(text);
    const bool fits =
        number && *number >= static_cast<double>(is.least) && *number <= static_cast<double>(is.most);
    return fits ? std::string()
                : fmt::format("{} is not allowed (allowed: {} to {})", text, is.least, is.most);
  };
  return {range, fmt::format("FLOAT in [{} - {}]", is.least, is.most)};
}

/// CLI11 takes a number beyond 64 bits for the largest that they hold.
inline std::string seed_refusal(const std::string& text) {
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, seed);
  return failure == std::errc() && rest == end ? ""
                                               : text + " is not a seed (allowed: 0 to 18446744073709551615)";
}

/// Adds the option of one field. The trainer takes any seed of 64 bits; a scenario's has to fit JSON.
template <typename Value>
void add_option(CLI::App& app, const Property& is, Value& into) {
  const std::string name = std::string("--") + is.flag;
  if constexpr (std::is_same_v<Value, bool>) {
    app.add_flag(name, into, is.text);
  } else if constexpr (DescribedEnum<Value>) {
    const auto keep = [&into](const std::string& word) { into = enum_of<Value>(word).value_or(into); };
    app.add_option_function<std::string>(name, keep, is.text)
        ->check(CLI::IsMember(enum_names<Value>()))
        ->default_str(to_string(into));
  } else {
    CLI::Option* const option = app.add_option(name, into, is.text)->default_str(value_text(into));
    if constexpr (std::is_same_v<Value, std::uint64_t>) {
      option->check(seed_refusal);
    } else if constexpr (std::is_same_v<Value, double>) {
      option->check(real_range(is));
    } else if constexpr (!std::is_same_v<Value, std::string>) {
      option->check(CLI::Range(is.least, is.most));
    }
  }
}

/// Adds an option for each field of the record that has a flag.
template <typename Record>
void add_options(CLI::App& app, Record& into) {
  for_each_field<Record>([&](const auto& field) {
    if constexpr (!std::is_same_v<decltype(field.member), Variables Record::*>) {
      if (field.is.flag != nullptr) { add_option(app, field.is, into.*field.member); }
    }
  });
}

/// Writes every flag with its value, for the record "hello".
template <typename Record>
void add_configuration(const Record& flags, nlohmann::json& out) {
  for_each_field<Record>([&](const auto& field) {
    if (field.is.flag == nullptr) { return; }
    const auto value = value_json(flags.*field.member);
    out[field.is.flag] = value == "" ? nlohmann::json() : value;
  });
}

}  // namespace virtrain
