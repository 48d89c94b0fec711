#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "results/store/columns.h"

namespace virtrain::results {

// Spellings that vary between files; the database, which compares texts as they are, has one.

/// ISO 8601 with a zone and at most nanoseconds, "2022-05-01T02:00:00.25+02:00", as the same moment in UTC,
/// "2022-05-01T00:00:00.25Z"; nothing of another text.
std::optional<std::string> in_utc(std::string_view time);
/// Milliseconds since 1970 of such a text.
std::optional<std::int64_t> milliseconds_of(std::string_view time);

/// fp32, fp16, bf16, tf32 or fp64 of their common spellings ("float16", "FP16", "half", …); other names as
/// they are.
std::string precision_name(std::string_view spelling);

/// Name of a column in the exchange format, where it differs.
std::string_view exchange_name(std::string_view column);

/// Keys of a throughput: images/s have one of their own.
struct ThroughputKeys {
  std::optional<double> images_per_second = {}, throughput = {};
  std::string unit = {};

  ThroughputKeys() = default;
  explicit ThroughputKeys(const std::optional<Throughput>& whole) : images_per_second(in_images(whole)) {
    if (whole && !images_per_second) { std::tie(throughput, unit) = std::tie(whole->value, whole->unit); }
  }
  std::optional<Throughput> whole() const {
    if (images_per_second) { return Throughput{*images_per_second}; }
    return throughput ? std::optional(Throughput{*throughput, unit}) : std::nullopt;
  }
};
BOOST_DESCRIBE_STRUCT(ThroughputKeys, (), (images_per_second, throughput, unit))

/// visit(key, member) as visit_columns() does, by the keys of the exchange format.
template <typename Record>
void visit_keys(Record& record, auto&& visit) {
  visit_columns<ThroughputKeys>(
      record, [&](const char* column, auto& value) { visit(exchange_name(column), value); });
}

/// Longest name of an experiment, a case, a node and so on: it is a column of tables and a part of paths.
inline constexpr std::size_t longest_name = 1000;
/// Whether the key's text is such a name.
bool is_name(std::string_view key);
/// Whether it is a moment in ISO 8601 with a zone.
bool is_time(std::string_view key);

/// Takes the members of one JSON object apart: each key once, none left over. Every complaint is an
/// Error(bad_input) that starts with the position.
class ObjectReader {
 public:
  ObjectReader(const nlohmann::json& object, std::string position);

  /// Takes the member if it is there and not null. Times are put into UTC, for what is chosen by time is
  /// compared as text.
  void take(std::string_view key, std::string& value);
  void take(std::string_view key, std::int64_t& value);
  void take(std::string_view key, double& value);
  void take(std::string_view key, bool& value);
  void take(std::string_view key, Status& value);
  void take(std::string_view key, nlohmann::json& value);
  void take(std::string_view key, Fingerprint& value);
  void take(std::string_view key, SweptPoint& value);
  template <typename T>
  void take(std::string_view key, std::optional<T>& value) {
    if (find(key) != nullptr) { take(key, value.emplace()); }
  }
  template <typename Record>
  void take_columns(Record& record) {
    visit_keys(record, [this](std::string_view key, auto& value) { this->take(key, value); });
  }
  /// The member's elements; none where it is absent.
  std::vector<nlohmann::json> take_list(std::string_view key);
  /// The key's value; null: it is not there, or null.
  const nlohmann::json* member(std::string_view key) const;
  bool has(std::string_view key) const { return member(key) != nullptr; }
  /// Refuses the object unless each of these keys is there and not null.
  void require(const std::vector<std::string_view>& keys) const;
  /// Refuses the object if a key was not taken.
  void finish() const;

  [[noreturn]] void refuse(const std::string& message) const;
  template <typename Arg, typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Arg, Args...> words, Arg&& arg, Args&&... args) const {
    refuse(fmt::format(words, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }
  /// Refuses a value that is there, with what it must be.
  [[noreturn]] void refuse_value(std::string_view key, std::string_view wanted) const;
  const std::string& position() const { return position_; }

 private:
  /// As member(), and marks the key as known.
  const nlohmann::json* find(std::string_view key);

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
  } else if constexpr (std::is_same_v<T, SweptPoint>) {
    return value.empty()
               ? nlohmann::json()
               : nlohmann::json(std::map<std::string, std::string>(value.values.begin(), value.values.end()));
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
  visit_keys(record,
             [&](std::string_view key, const auto& value) { object[std::string(key)] = value_json(value); });
  return object;
}

/// The JSON Schema (draft 7) of a line of the exchange format, made of the records' descriptions and rules.
nlohmann::ordered_json exchange_schema();

}  // namespace virtrain::results
