#pragma once

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
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

/// Columns of a throughput in the database.
struct ThroughputColumns {
  std::optional<double> throughput = {};
  std::string unit = {};

  ThroughputColumns() = default;
  explicit ThroughputColumns(const std::optional<Throughput>& whole) {
    if (whole) { std::tie(throughput, unit) = std::tie(whole->value, whole->unit); }
  }
  std::optional<Throughput> whole() const {
    return throughput ? std::optional(Throughput{*throughput, unit}) : std::nullopt;
  }
};
BOOST_DESCRIBE_STRUCT(ThroughputColumns, (), (throughput, unit))

/// visit(column, member) for each described member of the record, in the order of its description; members
/// that are described records themselves have their columns there, and a throughput has those of `Parts`.
template <typename Parts = ThroughputColumns, typename Record>
void visit_columns(Record& record, auto&& visit) {
  using Members = boost::describe::describe_members<std::remove_const_t<Record>, boost::describe::mod_public>;
  boost::mp11::mp_for_each<Members>([&](auto member) {
    auto& value = record.*member.pointer;
    using Value = std::remove_reference_t<decltype(value)>;
    if constexpr (std::is_same_v<std::remove_const_t<Value>, std::optional<Throughput>>) {
      Parts parts(value);
      visit_columns(parts, visit);
      if constexpr (!std::is_const_v<Value>) { value = parts.whole(); }
    } else if constexpr (boost::describe::has_describe_members<std::remove_const_t<Value>>::value) {
      visit_columns(value, visit);
    } else {
      visit(column_name(member.name), value);
    }
  });
}

}  // namespace virtrain::results
