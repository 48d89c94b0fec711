#include "results/exchange/records/exchange_columns.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <map>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/records/line_reader.h"
#include "results/exchange/records/record_rules.h"
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

namespace {

using Schema = nlohmann::ordered_json;

/// Keys beside the columns: what a record belongs to, and lists in it.
using Beside = std::vector<std::pair<std::string, Schema>>;

Schema text(std::string_view key) {
  Schema schema = {{"type", "string"}, {"minLength", 1}};
  if (is_name(key)) { schema["maxLength"] = longest_name; }
  if (is_time(key)) {
    schema["pattern"] = R"(^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$)";
  }
  return schema;
}

Schema type_of(std::string_view key, const std::string&) {
  return text(key);
}
Schema type_of(std::string_view, std::int64_t) {
  return {{"type", "integer"}};
}
Schema type_of(std::string_view, double) {
  return {{"type", "number"}};
}
Schema type_of(std::string_view, bool) {
  return {{"type", "boolean"}};
}
Schema type_of(std::string_view, Status) {
  return {{"type", "string"}, {"enum", enum_names<Status>()}};
}
Schema type_of(std::string_view, const nlohmann::json&) {
  return Schema::object();
}
Schema type_of(std::string_view, const SweptPoint&) {
  return {{"type", "object"}, {"additionalProperties", {{"type", {"string", "number", "boolean"}}}}};
}
template <typename T>
Schema type_of(std::string_view key, const std::optional<T>&) {
  return type_of(key, T{});
}

void lay_over(Schema& schema, const Rule& rule) {
  if (rule.least) { schema["minimum"] = bound_json(*rule.least); }
  if (rule.most) { schema["maximum"] = bound_json(*rule.most); }
  if (rule.above) { schema["exclusiveMinimum"] = bound_json(*rule.above); }
  if (!rule.words.empty()) { schema["enum"] = rule.words; }
  if (rule.is_object) { schema["type"] = "object"; }
}

/// Null stands for "not known".
void allow_null(Schema& schema) {
  if (!schema.contains("type")) { return; }
  schema["type"] = {schema["type"], "null"};
  if (schema.contains("enum")) { schema["enum"].push_back(nullptr); }
}

template <typename Record>
Schema record_schema(const Beside& beside) {
  const auto& [needed, rules] = rules_of<Record>();
  Schema properties = Schema::object();
  for (const auto& [key, schema] : beside) { properties[key] = schema; }
  const Record any{};
  visit_keys(any, [&](std::string_view key, const auto& value) {
    properties[std::string(key)] = type_of(key, value);
  });
  for (const auto& rule : rules) { lay_over(properties[std::string(rule.key)], rule); }
  for (auto& [key, schema] : properties.items()) {
    if (!contains(needed, std::string_view(key))) { allow_null(schema); }
  }
  return {{"type", "object"},
          {"additionalProperties", false},
          {"required", needed},
          {"properties", std::move(properties)}};
}

Schema list_of(const char* definition) {
  return {{"type", "array"}, {"items", {{"$ref", fmt::format("#/definitions/{}", definition)}}}};
}

}  // namespace

Schema exchange_schema() {
  const Schema whole_from_0 = {{"type", "integer"}, {"minimum", 0}};
  const Schema whole_from_1 = {{"type", "integer"}, {"minimum", 1}};
  const Schema facts = {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
  const Beside of_scenario = {
      {"experiment", text("experiment")}, {"scenario", text("scenario")}, {"label", text("label")}};
  const Beside of_experiment = {of_scenario[0]};
  const Beside of_tenant = {of_scenario[0], {"trial", whole_from_1}, {"tenant", whole_from_0}};
  const auto with = [](Beside beside, const std::string& key, const Schema& schema) {
    beside.emplace_back(key, schema);
    return beside;
  };
  Schema lines = {{"trial", record_schema<Trial>(with(of_scenario, "tenants", list_of("tenant")))},
                  {"experiment", record_schema<Experiment>({{"fingerprint", facts}})},
                  {"sample", record_schema<Sample>(with(of_tenant, "rank", whole_from_0))},
                  {"telemetry", record_schema<Telemetry>(with(of_tenant, "node", text("node")))},
                  {"figure", record_schema<Figure>(of_tenant)},
                  {"event", record_schema<Event>(with(of_experiment, "trial", whole_from_1))},
                  {"probe", record_schema<Probe>(of_scenario)},
                  {"security", record_schema<LeakSearch>(of_experiment)}};
  auto one_of_lines = Schema::array();
  for (auto& [kind, schema] : lines.items()) {
    schema["properties"]["record"] = {{"const", kind}};
    schema["required"].insert(schema["required"].begin(), "record");
    one_of_lines.push_back({{"$ref", "#/definitions/" + kind}});
  }
  lines["tenant"] = record_schema<Tenant>(
      {{"node_list", list_of("node")}, {"ranks", list_of("rank")}, {"transports", list_of("transport")}});
  lines["node"] = record_schema<Node>({{"fingerprint", facts}});
  lines["rank"] = record_schema<Rank>({});
  lines["transport"] = record_schema<Transport>({});
  return {{"$schema", "http://json-schema.org/draft-07/schema#"},
          {"title", "A line of virtrain's exchange format"},
          {"description", "docs/formats.md says what the keys mean. Absent and null mean: not known."},
          {"oneOf", std::move(one_of_lines)},
          {"definitions", std::move(lines)}};
}

namespace {

/// Zones differ by whole minutes: a moment's seconds are those of any zone.
struct Moment {
  std::int64_t minutes;      ///< since 1970, in UTC
  std::string_view seconds;  ///< "00.25"
};

/// Minutes by which the zone "Z" or "+02:00" is ahead of UTC.
std::optional<int> zone_minutes(std::string_view zone) {
  if (zone == "Z") { return 0; }
  Scanner in(zone);
  const bool is_behind = in.take("-");
  if (!is_behind && !in.take("+")) { return std::nullopt; }
  const auto hours = parse_integer(in.take_while(is_digit, 2, 2));
  if (!hours || *hours > 23 || !in.take(":")) { return std::nullopt; }
  const auto minutes = parse_integer(in.take_while(is_digit, 2, 2));
  if (!minutes || *minutes > 59 || !in.at_end()) { return std::nullopt; }
  return static_cast<int>((*hours * 60 + *minutes) * (is_behind ? -1 : 1));
}

std::optional<Moment> moment_of(std::string_view text) {
  Scanner in(text);
  const bool is_moment = in.take_digits(4) && in.take("-") && in.take_digits(2) && in.take("-") &&
                         in.take_digits(2) && in.take("T") && in.take_digits(2) && in.take(":") &&
                         in.take_digits(2) && in.take(":") && in.take_digits(2) && is_on_calendar(text);
  if (!is_moment || (in.take(".") && in.take_while(is_digit, 1, 9).empty())) { return std::nullopt; }
  const auto zone = zone_minutes(in.rest());
  if (!zone) { return std::nullopt; }
  const auto part = [&](std::size_t at, std::size_t size) {
    return static_cast<int>(parse_integer(text.substr(at, size)).value_or(0));
  };
  const std::chrono::sys_days day = std::chrono::year(part(0, 4)) /
                                    std::chrono::month(static_cast<unsigned>(part(5, 2))) /
                                    std::chrono::day(static_cast<unsigned>(part(8, 2)));
  const std::int64_t days = day.time_since_epoch().count();
  constexpr std::size_t seconds_at = 17;
  return Moment{days * 1440 + std::int64_t{part(11, 2)} * 60 + part(14, 2) - *zone,
                text.substr(seconds_at, text.size() - seconds_at - in.rest().size())};
}

}  // namespace

std::optional<std::string> in_utc(std::string_view time) {
  const auto moment = moment_of(time);
  if (!moment) { return std::nullopt; }
  const std::chrono::sys_time<std::chrono::minutes> minutes{std::chrono::minutes(moment->minutes)};
  const auto day = std::chrono::floor<std::chrono::days>(minutes);
  const std::chrono::year_month_day date(day);
  const auto of_day = (minutes - day).count();
  const int year = static_cast<int>(date.year());
  if (year < 0 || year > 9999) { return std::nullopt; }
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{}Z", year, static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()), of_day / 60, of_day % 60, moment->seconds);
}

std::optional<std::int64_t> milliseconds_of(std::string_view time) {
  const auto moment = moment_of(time);
  if (!moment) { return std::nullopt; }
  return moment->minutes * 60'000 + std::llround(parse_number(moment->seconds).value_or(0) * 1000);
}

std::string precision_name(std::string_view spelling) {
  static const std::map<std::string_view, const char*> names = {
      {"float64", "fp64"}, {"double", "fp64"},   {"fp32", "fp32"},         {"float32", "fp32"},
      {"f32", "fp32"},     {"single", "fp32"},   {"fp16", "fp16"},         {"float16", "fp16"},
      {"f16", "fp16"},     {"half", "fp16"},     {"bf16", "bf16"},         {"bfloat16", "bf16"},
      {"tf32", "tf32"},    {"tfloat32", "tf32"}, {"tensorfloat32", "tf32"}};
  const auto found = names.find(lower(std::string(trim(spelling))));
  return found == names.end() ? std::string(spelling) : found->second;
}

}  // namespace virtrain::results
