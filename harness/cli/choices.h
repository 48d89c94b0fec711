#pragma once

#include <CLI/CLI.hpp>

#include <map>
#include <string>
#include <vector>

#include "common/enum_text.h"

namespace virtrain::harness {

/// "(allowed: table, json; did you mean json?)"
std::string allowed_words(const std::string& word, const std::vector<std::string>& allowed);

/// Checks that an option's value is one of these names.
CLI::Validator one_of(std::vector<std::string> names);

/// Refuses an empty value: what a shell's variable that is not set leaves must not choose the default.
CLI::Validator not_empty();

/// The names that one_of() or name_of() lets an option have; none where it has neither.
std::vector<std::string> words_allowed_by(CLI::Option& option);

/// Takes a name for what it stands for; CLI11 reads enumerations from their numbers.
template <typename Value>
CLI::Validator name_of(const std::map<std::string, Value>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto& [name, value] : values) { names.push_back(name); }
  const auto translate = [values, check = one_of(names)](std::string& text) {
    auto refusal = check(text);
    if (refusal.empty()) { text = std::to_string(static_cast<int>(values.at(text))); }
    return refusal;
  };
  return {translate, "", one_of(names).get_name()};
}

/// The values of an enumeration by their words.
template <DescribedEnum Value>
std::map<std::string, Value> by_word() {
  std::map<std::string, Value> values;
  for (const auto value : enum_values<Value>()) { values.emplace(virtrain::to_string(value), value); }
  return values;
}

/// Error message for a command line that cannot be read: what was meant perhaps, and where to read on.
std::string usage_words(const CLI::App* app, const CLI::Error& error);

}  // namespace virtrain::harness
