#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

// An enumeration is described once: VIRTRAIN_ENUM_CLASS(Status, running, finished, …), or
// VIRTRAIN_DESCRIBE_ENUM behind a definition whose enumerators have comments. Its words in the database, in
// JSON, in flags and in messages are the enumerators' names; one that is a word of C++ ends in "_", which its
// word has not. Not by Boost.Describe, as records are: workloads build where there is no Boost.

#define VIRTRAIN_ENUM_CLASS(E, ...) \
  enum class E { __VA_ARGS__ };     \
  VIRTRAIN_DESCRIBE_ENUM(E, __VA_ARGS__)

#define VIRTRAIN_DESCRIBE_ENUM(E, ...) VIRTRAIN_DESCRIPTION(constexpr, E, __VA_ARGS__)
/// The same of a class's own.
#define VIRTRAIN_DESCRIBE_NESTED_ENUM(E, ...) VIRTRAIN_DESCRIPTION(friend constexpr, E, __VA_ARGS__)

#define VIRTRAIN_DESCRIPTION(KIND, E, ...)      \
  KIND auto described_values_of(E) {            \
    using enum E;                               \
    return std::array{__VA_ARGS__};             \
  }                                             \
  KIND std::string_view described_words_of(E) { \
    return #__VA_ARGS__;                        \
  }

namespace virtrain {

template <typename E>
concept DescribedEnum = std::is_enum_v<E> && requires(E value) {
  described_values_of(value);
  described_words_of(value);
};

/// All values of the enumeration, in the order of its description.
template <DescribedEnum E>
consteval auto enum_values() {
  return described_values_of(E{});
}

namespace detail {

/// The words of an enumeration, each ended by a zero.
template <DescribedEnum E>
struct EnumText {
  static constexpr std::string_view described = described_words_of(E{});

  static constexpr auto text = [] {
    std::array<char, described.size() + 1> zero_ended{};
    for (std::size_t at = 0; at < described.size(); ++at) {
      const bool ends_word = at + 1 == described.size() || described[at + 1] == ',';
      const bool is_of_word =
          described[at] != ',' && described[at] != ' ' && !(ends_word && described[at] == '_');
      zero_ended[at] = is_of_word ? described[at] : '\0';
    }
    return zero_ended;
  }();

  static constexpr auto words = [] {
    std::array<const char*, enum_values<E>().size()> begins{};
    std::size_t word = 0;
    for (std::size_t at = 0; at < described.size(); ++at) {
      if (text[at] != '\0' && (at == 0 || text[at - 1] == '\0')) { begins[word++] = &text[at]; }
    }
    return begins;
  }();
};

}  // namespace detail

/// The enumerator's word, for example "kvm_nested".
template <DescribedEnum E>
constexpr const char* to_string(E value) {
  constexpr auto values = enum_values<E>();
  const auto at = std::find(values.begin(), values.end(), value) - values.begin();
  return at < std::ssize(values) ? detail::EnumText<E>::words[static_cast<std::size_t>(at)] : "";
}

/// The value of that name; nothing for another word.
template <DescribedEnum E>
constexpr std::optional<E> enum_of(std::string_view name) {
  for (const auto value : enum_values<E>()) {
    if (name == to_string(value)) { return value; }
  }
  return std::nullopt;
}

/// All names, in the order of the description.
template <DescribedEnum E>
std::vector<std::string> enum_names() {
  std::vector<std::string> names;
  for (const auto value : enum_values<E>()) { names.emplace_back(to_string(value)); }
  return names;
}

/// All names, as sentences list them: "none, kvm, kvm_nested or tcg".
template <DescribedEnum E>
std::string enum_list(std::string_view last = " or ") {
  std::string list;
  std::size_t left = enum_values<E>().size();
  for (const auto value : enum_values<E>()) {
    list += to_string(value);
    if (--left > 0) { list += left == 1 ? last : ", "; }
  }
  return list;
}

}  // namespace virtrain
