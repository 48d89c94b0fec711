#pragma once

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include <string_view>
#include <type_traits>

#include "results/store/records.h"

namespace virtrain::results {

/// Column of a described member: its name, but for those that SQL or C++ would not take.
constexpr const char* column_name(const char* member) {
  const std::string_view name = member;
  return name == "order"       ? "trial_order"
         : name == "case_name" ? "case"
         : name == "like"      ? "arm_like"
                               : member;
}

/// visit(column, member) for each described member of the record, in the order of its description; members
/// that are described records themselves have their columns there.
template <typename Record>
void visit_columns(Record& record, auto&& visit) {
  using Members = boost::describe::describe_members<std::remove_const_t<Record>, boost::describe::mod_public>;
  boost::mp11::mp_for_each<Members>([&](auto member) {
    auto& value = record.*member.pointer;
    if constexpr (boost::describe::has_describe_members<std::remove_cvref_t<decltype(value)>>::value) {
      visit_columns(value, visit);
    } else {
      visit(column_name(member.name), value);
    }
  });
}

}  // namespace virtrain::results
