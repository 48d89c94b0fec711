#pragma once

#include <boost/describe/enum.hpp>
#include <boost/describe/enumerators.hpp>
#include <boost/mp11/algorithm.hpp>

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// An enumeration is described once: BOOST_DEFINE_ENUM_CLASS(Status, running, finished, …), or
// BOOST_DESCRIBE_ENUM behind a definition whose enumerators have comments. Its words in the database, in
// JSON, in flags and in messages are the enumerators' names.
namespace virtrain {

template <typename E>
concept DescribedEnum = std::is_enum_v<E> && boost::describe::has_describe_enumerators<E>::value;

/// All values of the enumeration, in the order of its description.
template <DescribedEnum E>
consteval auto enum_values() {
  using Described = boost::describe::describe_enumerators<E>;
  std::array<E, boost::mp11::mp_size<Described>::value> values{};
  std::size_t at = 0;
  boost::mp11::mp_for_each<Described>([&](auto one) { values[at++] = one.value; });
  return values;
}

/// The enumerator's name, for example "kvm_nested".
template <DescribedEnum E>
constexpr const char* to_string(E value) {
  const char* name = "";
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<E>>([&](auto one) {
    if (one.value == value) { name = one.name; }
  });
  return name;
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
