#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/enum_text.h"

// A record that crosses a border is described where it is declared: one row a
// field, with its type, name, default and Property. Decoders, command lines,
// JSON and the guard visit the rows with for_each_field(). Not by
// Boost.Describe: workloads build where there is no Boost.
//
//   struct Job {
//     VIRTRAIN_RECORD;
//     VIRTRAIN_FIELD(std::int64_t, steps, 10, .text = "Counted steps", .key =
//     "steps", .least = 1, .most = 100);
//   };

namespace virtrain {

/// Consequence of a difference of one fact between two arms for their comparison.
enum class FactRule {
  must_be_equal,         ///< a difference makes the arms incomparable
  explained_by_the_arm,  ///< a guest sees another value than its host; between
                         ///< hosts it must be equal
  informative,           ///< shown, never decides
  part_of_the_change,    ///< between two labels, dates or hosts: the figures are of it, too
};
VIRTRAIN_DESCRIBE_ENUM(FactRule, must_be_equal, explained_by_the_arm, informative, part_of_the_change)

/// How a scenario writes a number: as it is, as a size (of bytes, or of whole MiB), a rate, a share, CPU
/// time, "250W" or "1410MHz".
enum class ValueUnit { none, bytes, mib, bytes_per_second, share, cores, watts, megahertz };

/// A word that people write where a scenario has another one, and what they mean by it.
struct MeantWord {
  const char *word, *meaning;
};

/// Facts about a field that everyone who reads, writes or compares it has to know.
struct Property {
  const char* text;                   ///< one sentence, for the schema and --help
  const char* name = nullptr;         ///< where it is a word of C++; null: the member\'s
  const char* key = nullptr;          ///< in scenarios; null: no scenario sets it
  const char* flag = nullptr;         ///< the trainer's option, without its dashes; null: it has none
  std::int64_t least = INT64_MIN;     ///< of a number
  std::int64_t most = INT64_MAX;      ///< of a number
  bool positive = false;              ///< of a real number: 0 is too little
  bool lenient = false;               ///< what does not fit counts as absent, and is not refused
  bool may_lack = false;              ///< a message without it means the default
  std::size_t most_items = SIZE_MAX;  ///< of a list in a message
  std::size_t most_bytes = SIZE_MAX;  ///< of a text in a message
  bool repeats = false;  ///< of a list of texts in scenarios: any words, each as often as it is there
  ValueUnit unit = ValueUnit::none;
  bool required = false;            ///< in scenarios
  bool dashes = false;              ///< of an enumeration: a scenario's words have dashes, "sev-snp"
  const char* only_word = nullptr;  ///< of a text: what it must be
  const char* pattern = nullptr;    ///< of a text, for the schema
  bool (*fits)(const std::string&) = nullptr;  ///< the same, for the decoder
  const char* refusal = nullptr;               ///< what the decoder says after a text that does not fit
  std::span<const MeantWord> meant = {};       ///< of an enumeration
  /// Words of the record's key `kind` with which the field has a meaning; none: all of them.
  std::array<const char*, 3> with_kind = {};
  const char* absent = nullptr;        ///< what happens without it, where there is no default
  const char* example = nullptr;       ///< as JSON, or plain text; null: the default
  std::optional<FactRule> guard = {};  ///< what the guard does where two trials differ; absent: nothing
  const char* why = nullptr;           ///< of `guard`
};

/// One row of a record's description.
template <typename Record, typename Value>
struct FieldOf {
  const char* name;  ///< in plans, in the database and in the guard
  Value Record::*member;
  Property is;
};

namespace detail {

template <typename Record, typename Value>
constexpr FieldOf<Record, Value> field_of(const char* name, Value Record::*member, const Property& is) {
  return {is.name == nullptr ? name : is.name, member, is};
}

}  // namespace detail

#define VIRTRAIN_RECORD static constexpr int fields_after_line = __LINE__
#define VIRTRAIN_FIELD(TYPE, NAME, DEFAULT, ...)                                        \
  TYPE NAME = DEFAULT;                                                                  \
  template <typename Self>                                                              \
  static constexpr auto described(const Self*, std::integral_constant<int, __LINE__>) { \
    return ::virtrain::detail::field_of(#NAME, &Self::NAME, {__VA_ARGS__});             \
  }                                                                                     \
  static_assert(true, "")

namespace detail {

constexpr int most_lines_of_fields = 240;

template <typename Record, int line, typename Visit>
constexpr void visit_line(Visit& visit) {
  constexpr std::integral_constant<int, line> at;
  constexpr const Record* record = nullptr;
  if constexpr (requires { Record::described(record, at); }) { visit(Record::described(record, at)); }
}

}  // namespace detail

/// Calls `visit` with each FieldOf of the record, in the order of its
/// description; those of a base have to be asked for by its name.
template <typename Record, typename Visit>
constexpr void for_each_field(Visit&& visit) {
  [&visit]<int... line>(std::integer_sequence<int, line...>) {
    (detail::visit_line<Record, Record::fields_after_line + 1 + line>(visit), ...);
  }(std::make_integer_sequence<int, detail::most_lines_of_fields>{});
}

template <typename T>
concept DescribedRecord = requires { T::fields_after_line; };

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <typename T>
inline constexpr bool is_list = false;
template <typename T>
inline constexpr bool is_list<std::vector<T>> = true;

/// The property of one field.
template <typename Record, typename Value>
constexpr Property property_of(Value Record::*member) {
  Property found{.text = ""};
  for_each_field<Record>([&](const auto& field) {
    if constexpr (std::is_same_v<decltype(field.member), Value Record::*>) {
      if (field.member == member) { found = field.is; }
    }
  });
  return found;
}

/// The name of one field.
template <typename Record, typename Value>
constexpr const char* name_of(Value Record::*member) {
  const char* name = nullptr;
  for_each_field<Record>([&](const auto& field) {
    if constexpr (std::is_same_v<decltype(field.member), Value Record::*>) {
      if (field.member == member) { name = field.name; }
    }
  });
  return name;
}

/// A value as a command line or a message says it: an enumeration by its word.
/// Empty for an absent one, and for what has no text.
template <typename Value>
std::string value_text(const Value& value) {
  if constexpr (is_optional<Value>) {
    return value ? value_text(*value) : std::string();
  } else if constexpr (DescribedEnum<Value>) {
    return to_string(value);
  } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) {
    return fmt::format("{}", value);
  } else {
    return {};
  }
}

}  // namespace virtrain
