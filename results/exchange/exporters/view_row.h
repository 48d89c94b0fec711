#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "results/store/store.h"

namespace virtrain::results {

/// One row of a view, by the names of its columns.
class ViewRow {
 public:
  ViewRow(const ViewRows& view, std::size_t index) : view_(view), row_(view.rows[index]) {}

  const nlohmann::json& operator[](std::string_view column) const { return row_[view_.column(column)]; }
  /// Empty where it is null; numbers as JSON writes them.
  std::string text(std::string_view column) const {
    const auto& value = (*this)[column];
    if (value.is_string()) { return value.get<std::string>(); }
    return value.is_null() ? "" : value.dump();
  }
  std::int64_t whole(std::string_view column, std::int64_t otherwise) const {
    const auto& value = (*this)[column];
    return value.is_number() ? value.get<std::int64_t>() : otherwise;
  }

 private:
  const ViewRows& view_;
  const std::vector<nlohmann::json>& row_;
};

/// Whether the trial of this row ended well and its figures count.
inline bool is_good_trial(const ViewRow& row) {
  return row.text("status") == "finished" && row["valid"] == 1;
}

/// Calls `visit` with each row of the view.
template <typename Visit>
void for_each_row(const ViewRows& view, Visit&& visit) {
  for (std::size_t i = 0; i < view.rows.size(); ++i) { visit(ViewRow(view, i)); }
}

}  // namespace virtrain::results
