#include "results/exchange/records/exchange_columns.h"

#include <fmt/format.h>

#include <limits>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "results/exchange/records/line_reader.h"
#include "results/exchange/records/spellings.h"
#include "results/store/canonical_json.h"

namespace virtrain::results {
namespace {

constexpr std::size_t longest_shown = 60;

/// The value as the message shows it.
std::string shown(const nlohmann::json& value) {
  return excerpt(canonical_json(value), longest_shown);
}

}  // namespace

bool is_name(std::string_view key) {
  static const std::set<std::string_view> names = {"experiment", "scenario", "label",     "case",    "arm",
                                                   "name",       "node",     "precision", "backend", "unit",
                                                   "from_node",  "to_node",  "transport", "metric",  "source",
                                                   "family",     "like",     "neighbour"};
  return names.contains(key);
}

bool is_time(std::string_view key) {
  return key == "started_at" || key == "ended_at" || key == "measured_at";
}

std::string_view exchange_name(std::string_view column) {
  if (column == "trial_order") { return "order"; }
  if (column == "case_name") { return "case"; }
  if (column == "arm_like") { return "like"; }
  if (column == "id") { return "experiment"; }
  return column;
}

ObjectReader::ObjectReader(const nlohmann::json& object, std::string position)
    : object_(object), position_(std::move(position)) {
  if (!object_.is_object()) { refuse("a JSON object was expected here"); }
}

void ObjectReader::take(std::string_view key, std::string& value) {
  const auto* member = find(key);
  if (member == nullptr) { return; }
  if (!member->is_string()) { refuse_value(key, "a text"); }
  value = member->get<std::string>();
  if (value.empty()) { refuse("{} is empty (leave it out, or null, where it is not known)", key); }
  if (is_name(key) && value.size() > longest_name) {
    refuse("{} has {} bytes (allowed: at most {})", key, value.size(), longest_name);
  }
  if (is_time(key)) {
    auto utc = in_utc(value);
    if (!utc) { refuse_value(key, "a time like 2022-05-01T00:00:00Z"); }
    value = *std::move(utc);
  }
}

void ObjectReader::take(std::string_view key, std::int64_t& value) {
  const auto* member = find(key);
  if (member == nullptr) { return; }
  const bool too_large =
      member->is_number_unsigned() &&
      member->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!member->is_number_integer() || too_large) { refuse_value(key, "a whole number"); }
  value = member->get<std::int64_t>();
}

void ObjectReader::take(std::string_view key, double& value) {
  const auto* member = find(key);
  if (member == nullptr) { return; }
  if (!member->is_number()) { refuse_value(key, "a number"); }
  value = member->get<double>();
}

void ObjectReader::take(std::string_view key, bool& value) {
  const auto* member = find(key);
  if (member == nullptr) { return; }
  if (!member->is_boolean()) { refuse_value(key, "true or false"); }
  value = member->get<bool>();
}

void ObjectReader::take(std::string_view key, Status& value) {
  std::string name;
  take(key, name);
  if (name.empty()) { return; }
  const auto status = enum_of<Status>(name);
  if (!status) { refuse_value(key, enum_list<Status>()); }
  value = *status;
}

void ObjectReader::take(std::string_view key, nlohmann::json& value) {
  const auto* member = find(key);
  if (member != nullptr) { value = *member; }
}

void ObjectReader::take(std::string_view key, Fingerprint& value) {
  const auto* member = find(key);
  if (member == nullptr) { return; }
  if (!member->is_object()) { refuse_value(key, "an object of texts"); }
  for (const auto& [name, fact] : member->items()) {
    if (!fact.is_string()) { refuse_value(key, "an object of texts"); }
    value[name] = fact.get<std::string>();
  }
}

void ObjectReader::take(std::string_view key, SweptPoint& value) {
  constexpr std::size_t most_keys = 64;
  const auto* member = find(key);
  if (member == nullptr) { return; }
  if (!member->is_object() || member->size() > most_keys) {
    refuse_value(key, "an object of keys with the values that were swept");
  }
  for (const auto& [name, one] : member->items()) {
    const bool is_scalar = one.is_string() || one.is_number() || one.is_boolean();
    const auto text = one.is_string() ? one.get<std::string>() : is_scalar ? canonical_json(one) : "";
    if (name.empty() || text.empty()) { refuse_value(key, "an object of keys with texts or numbers"); }
    value.values.emplace_back(name, text);
  }
}

std::vector<nlohmann::json> ObjectReader::take_list(std::string_view key) {
  const auto* member = find(key);
  if (member == nullptr) { return {}; }
  if (!member->is_array()) { refuse_value(key, "a list"); }
  return member->get<std::vector<nlohmann::json>>();
}

const nlohmann::json* ObjectReader::member(std::string_view key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void ObjectReader::require(const std::vector<std::string_view>& keys) const {
  for (const auto& key : keys) {
    if (!has(key)) { refuse("the key \"{}\" is missing", key); }
  }
}

void ObjectReader::finish() const {
  for (const auto& [key, value] : object_.items()) {
    if (known_.contains(key)) { continue; }
    const std::vector<std::string> allowed(known_.begin(), known_.end());
    const auto near = nearest_word(key, allowed);
    refuse("unknown key \"{}\" ({}allowed: {})", excerpt(key),
           near ? fmt::format("did you mean \"{}\"? ", *near) : "", join(allowed, ", "));
  }
}

void ObjectReader::refuse(const std::string& message) const {
  throw Error(position_, ErrorCode::bad_input, excerpt(message, longest_refusal_bytes));
}

const nlohmann::json* ObjectReader::find(std::string_view key) {
  known_.emplace(key);
  return member(key);
}

void ObjectReader::refuse_value(std::string_view key, std::string_view wanted) const {
  refuse("{} is {}, it must be {}", key, shown(object_.at(std::string(key))), wanted);
}

}  // namespace virtrain::results
