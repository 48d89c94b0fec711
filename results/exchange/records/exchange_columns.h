#pragma once

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "results/store/columns.h"

namespace virtrain::results {

/// Name of a column in the exchange format, where it differs.
std::string_view exchange_name(std::string_view column);

/// Takes the members of one JSON object apart: each key once, none left over. Every complaint is an
/// Error(bad_input) that starts with the position.
class ObjectReader {
 public:
  ObjectReader(const nlohmann::json& object, std::string position);

  /// Takes the member if it is there and not null.
  void take(std::string_view key, std::string& value);
  void take(std::string_view key, std::int64_t& value);
  void take(std::string_view key, double& value);
  void take(std::string_view key, bool& value);
  void take(std::string_view key, Status& value);
  void take(std::string_view key, nlohmann::json& value);
  void take(std::string_view key, Fingerprint& value);
  template <typename T>
  void take(std::string_view key, std::optional<T>& value) {
    if (find(key) != nullptr) { take(key, value.emplace()); }
  }
  template <typename Record>
  void take_columns(Record& record) {
    visit_columns(record,
                  [this](const char* column, auto& value) { this->take(exchange_name(column), value); });
  }
  /// The member's elements; none where it is absent.
  std::vector<nlohmann::json> take_list(std::string_view key);
  /// Whether the key is there and not null.
  bool has(std::string_view key) const;
  /// Refuses the object unless each of these keys is there and not null.
  void require(const std::vector<std::string_view>& keys) const;
  /// Refuses the object if a key was not taken.
  void finish() const;

  [[noreturn]] void refuse(const std::string& message) const;
  template <typename Arg, typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Arg, Args...> words, Arg&& arg, Args&&... args) const {
    refuse(fmt::format(words, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }
  const std::string& position() const { return position_; }

 private:
  /// The member, marked as known; nothing where absent or null.
  const nlohmann::json* find(std::string_view key);
  [[noreturn]] void refuse_type(std::string_view key, const char* wanted) const;

  const nlohmann::json& object_;
  std::string position_;
  std::set<std::string, std::less<>> known_;
};

/// JSON of one value; null where not known.
template <typename T>
nlohmann::json value_json(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value.empty() ? nlohmann::json() : nlohmann::json(value);
  } else if constexpr (DescribedEnum<T>) {
    return to_string(value);
  } else {
    return value;
  }
}
template <typename T>
nlohmann::json value_json(const std::optional<T>& value) {
  return value ? value_json(*value) : nlohmann::json();
}

/// All columns of a record under their exchange names; null where not known.
template <typename Record>
nlohmann::json columns_json(const Record& record) {
  auto object = nlohmann::json::object();
  visit_columns(record, [&](const char* column, const auto& value) {
    object[std::string(exchange_name(column))] = value_json(value);
  });
  return object;
}

}  // namespace virtrain::results
