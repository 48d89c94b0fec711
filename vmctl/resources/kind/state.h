#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <type_traits>

#include "common/error.h"
#include "common/text/json.h"

// The state of an effect, as the lease journal keeps it, is a described record (Boost.Describe).
namespace virtrain::vmctl {

/// The state of what is changed and has to be put back.
template <typename Record>
struct Change {
  Record before, wanted;
  bool operator==(const Change&) const = default;
  BOOST_DESCRIBE_CLASS(Change, (), (before, wanted), (), ())
};

template <typename Record>
using StateMembers = boost::describe::describe_members<Record, boost::describe::mod_public>;

template <typename T>
nlohmann::json state_json(const std::optional<T>& value) {
  return or_null(value);
}

template <typename T>
nlohmann::json state_json(const T& value) {
  if constexpr (boost::describe::has_describe_members<T>::value) {
    auto object = nlohmann::json::object();
    boost::mp11::mp_for_each<StateMembers<T>>(
        [&](auto member) { object[member.name] = state_json(value.*member.pointer); });
    return object;
  } else {
    return value;
  }
}

template <typename T>
void read_state(const nlohmann::json& json, std::optional<T>& value) {
  if (!json.is_null()) { value = json.get<T>(); }
}

inline void read_state(const nlohmann::json& json, auto& value) {
  using T = std::remove_reference_t<decltype(value)>;
  if constexpr (boost::describe::has_describe_members<T>::value) {
    boost::mp11::mp_for_each<StateMembers<T>>(
        [&](auto member) { read_state(json.at(member.name), value.*member.pointer); });
  } else {
    value = json.get<T>();
  }
}

template <typename Record>
std::string to_state(const Record& record) {
  return state_json(record).dump();
}

/// Throws Error(io) on text that to_state() has not made of such a record.
template <typename Record>
Record from_state(const std::string& state) {
  const auto* operation = "read the lease journal";
  const auto json = parse_json(state, operation, ErrorCode::io);
  try {
    Record record;
    read_state(json, record);
    return record;
  } catch (const nlohmann::json::exception& failure) {
    throw Error(operation, ErrorCode::io, failure.what());
  }
}

}  // namespace virtrain::vmctl
