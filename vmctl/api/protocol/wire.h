#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>
#include <boost/pfr/tuple_size.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/enum_text.h"
#include "common/error.h"
#include "common/files/file_search.h"
#include "common/files/unique_fd.h"
#include "common/model/check.h"
#include "common/model/described.h"
#include "common/text/canary.h"

// Described values of vmctl/api as JSON, both ways. What comes from a peer is read strictly: each member is
// there and fits, and there is no other one. Throws Error(protocol) with the place of the first that does
// not.

namespace virtrain {

// Values of common, where there is no Boost.
BOOST_DESCRIBE_STRUCT(CheckDescription, (), (id, severity, holds, applies_when, source))
BOOST_DESCRIBE_STRUCT(Finding, (), (id, severity, status, found, fix, is_for_this_host, loss))
BOOST_DESCRIBE_STRUCT(FoundCanary, (), (canary, path, count, first, last))
BOOST_DESCRIBE_STRUCT(SearchReport, (), (scanned_bytes, total_bytes, files, unreadable, found))

}  // namespace virtrain

namespace virtrain::vmctl::wire {

using nlohmann::json;

/// Longest text of a message: a guest's domain XML with a hundred devices takes 200 KB.
inline constexpr std::size_t most_text_bytes = 1U << 20;
inline constexpr std::size_t most_items = 65'536;

template <typename T>
concept DescribedStruct = boost::describe::has_describe_members<T>::value && !std::is_enum_v<T>;

template <typename T>
concept TextMap = requires { typename T::mapped_type; };
template <typename T>
inline constexpr bool is_set = false;
template <typename T>
inline constexpr bool is_set<std::set<T>> = true;
template <typename T>
inline constexpr bool is_pair = false;
template <typename A, typename B>
inline constexpr bool is_pair<std::pair<A, B>> = true;

/// Calls `visit` with name and member pointer of each member.
template <DescribedStruct T, typename Visit>
void for_each_member(Visit&& visit) {
  boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_public>>(
      [&](auto member) { visit(member.name, member.pointer); });
}
template <DescribedRecord T, typename Visit>
  requires(!DescribedStruct<T>)
void for_each_member(Visit&& visit) {
  for_each_field<T>([&](const auto& field) { visit(field.name, field.member); });
}

template <typename T>
json write(const T& value) {
  if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, json>) {
    return value;
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    return value.string();
  } else if constexpr (std::is_same_v<T, std::chrono::nanoseconds>) {
    return value.count();
  } else if constexpr (std::is_same_v<T, UniqueFd>) {
    return nullptr;  // it travels as a stream
  } else if constexpr (std::is_enum_v<T>) {
    return to_string(value);
  } else if constexpr (is_optional<T>) {
    return value ? write(*value) : json();
  } else if constexpr (is_pair<T>) {
    return json::array({write(value.first), write(value.second)});
  } else if constexpr (TextMap<T>) {  // whatever its keys are
    auto items = json::array();
    for (const auto& item : value) { items.push_back(json::array({write(item.first), write(item.second)})); }
    return items;
  } else if constexpr (is_list<T> || is_set<T>) {
    auto items = json::array();
    for (const auto& item : value) { items.push_back(write(item)); }
    return items;
  } else {
    auto members = json::object();
    for_each_member<T>([&](const char* name, auto pointer) { members[name] = write(value.*pointer); });
    return members;
  }
}

[[noreturn]] inline void refuse(const std::string& at, const std::string& wanted) {
  throw Error("read a message of the host protocol", ErrorCode::protocol,
              fmt::format("'{}' must be {}", at, wanted));
}

template <std::integral T>
T read_number(const json& said, const std::string& at) {
  const bool fits = said.is_number_unsigned()  ? std::in_range<T>(said.get<std::uint64_t>())
                    : said.is_number_integer() ? std::in_range<T>(said.get<std::int64_t>())
                                               : false;
  if (!fits) { refuse(at, "a whole number that its type holds"); }
  return said.get<T>();
}

inline std::string read_text(const json& said, const std::string& at) {
  if (!said.is_string()) { refuse(at, "a text"); }
  auto text = said.get<std::string>();
  if (text.size() > most_text_bytes || text.find('\0') != std::string::npos) {
    refuse(at, "a text without zeros, not as long");
  }
  return text;
}

inline void require_list(const json& said, const std::string& at) {
  if (!said.is_array() || said.size() > most_items) { refuse(at, "a list, not as long"); }
}

template <typename T>
T read(const json& said, const std::string& at) {
  if constexpr (std::is_same_v<T, json>) {
    return said;  // whoever asked for it knows its type
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!said.is_boolean()) { refuse(at, "true or false"); }
    return said.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    return read_number<T>(said, at);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!said.is_number()) { refuse(at, "a number"); }
    return said.get<T>();
  } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::filesystem::path>) {
    return read_text(said, at);
  } else if constexpr (std::is_same_v<T, std::chrono::nanoseconds>) {
    return std::chrono::nanoseconds(read_number<std::int64_t>(said, at));
  } else if constexpr (std::is_same_v<T, UniqueFd>) {
    if (!said.is_null()) { refuse(at, "null"); }
    return {};
  } else if constexpr (std::is_enum_v<T>) {
    const auto value = said.is_string() ? enum_of<T>(said.get_ref<const std::string&>()) : std::optional<T>();
    if (!value) { refuse(at, enum_list<T>()); }
    return *value;
  } else if constexpr (is_optional<T>) {
    return said.is_null() ? T() : T(read<typename T::value_type>(said, at));
  } else if constexpr (is_pair<T>) {
    if (!said.is_array() || said.size() != 2) { refuse(at, "a list of two"); }
    return {read<typename T::first_type>(said[0], at + "[0]"),
            read<typename T::second_type>(said[1], at + "[1]")};
  } else if constexpr (TextMap<T>) {
    require_list(said, at);
    T items;
    for (std::size_t i = 0; i < said.size(); ++i) {
      auto item = read<std::pair<typename T::key_type, typename T::mapped_type>>(
          said[i], fmt::format("{}[{}]", at, i));
      if (!items.insert(std::move(item)).second) { refuse(at, "a list without a key twice"); }
    }
    return items;
  } else if constexpr (is_list<T> || is_set<T>) {
    require_list(said, at);
    T items;
    for (std::size_t i = 0; i < said.size(); ++i) {
      items.insert(items.end(), read<typename T::value_type>(said[i], fmt::format("{}[{}]", at, i)));
    }
    return items;
  } else {
    if (!said.is_object()) { refuse(at, "an object"); }
    T members{};
    std::size_t count = 0;
    for_each_member<T>([&](const char* name, auto pointer) {
      const auto found = said.find(name);
      if (found == said.end()) { refuse(at + "." + name, "there"); }
      using Member = std::remove_cvref_t<decltype(members.*pointer)>;
      members.*pointer = read<Member>(*found, at + "." + name);
      ++count;
    });
    if (said.size() != count) { refuse(at, "an object without other members"); }
    return members;
  }
}

/// Adds what the type looks like in messages, to tell builds apart.
template <typename T>
void append_shape(std::string& shape) {
  if constexpr (std::is_enum_v<T>) {
    shape += enum_list<T>();
  } else if constexpr (is_optional<T>) {
    shape += '?';
    append_shape<typename T::value_type>(shape);
  } else if constexpr (is_pair<T>) {
    append_shape<typename T::first_type>(shape);
    append_shape<typename T::second_type>(shape);
  } else if constexpr (TextMap<T>) {
    append_shape<std::pair<typename T::key_type, typename T::mapped_type>>(shape += '%');
  } else if constexpr (is_list<T> || is_set<T>) {
    append_shape<typename T::value_type>(shape += '*');
  } else if constexpr (DescribedStruct<T> || DescribedRecord<T>) {
    if constexpr (DescribedStruct<T>) {
      using Members = boost::describe::describe_members<T, boost::describe::mod_public>;
      static_assert(boost::pfr::tuple_size_v<T> == boost::mp11::mp_size<Members>(),
                    "a member that its description lacks would not arrive");
    }
    shape += '{';
    for_each_member<T>([&]<typename Member>(const char* name, Member T::*) {
      append_shape<Member>((shape += name) += ':');
      shape += ',';
    });
    shape += '}';
  } else {
    shape += std::is_integral_v<T> ? fmt::format("i{}", sizeof(T)) : std::is_floating_point_v<T> ? "f" : "s";
  }
}

}  // namespace virtrain::vmctl::wire
