#include "results/exchange/records/record_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/contains.h"
#include "common/model/leak.h"
#include "common/model/virtualization.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

using Schema = nlohmann::ordered_json;

// Of what is counted in a trial: two of them multiplied stay within 64 bits.
constexpr double most_counted = 1e9;
// Squares of what is far beyond any trainer would leave the range of doubles in every comparison, also of
// tenants and of ranks.
constexpr double least_speed = 1e-6, most_speed = 1e12;

Rule counted_from(std::string_view key, double least) {
  return {.key = key, .least = least, .most = most_counted};
}
Rule speed() {
  return {.key = "images_per_second", .least = least_speed, .most = most_speed};
}
Rule at_least(std::string_view key, double least) {
  return {.key = key, .least = least};
}
Rule above_zero(std::string_view key) {
  return {.key = key, .above = 0};
}
Rule one_of(std::string_view key, std::vector<std::string> words) {
  return {.key = key, .words = std::move(words)};
}

/// A whole number as one.
nlohmann::json number(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? nlohmann::json(whole) : nlohmann::json(value);
}

/// "B/s, FLOP/s or s".
std::string choice(const std::vector<std::string>& words) {
  const std::vector<std::string> but_last(words.begin(), words.end() - 1);
  return words.size() == 1 ? words[0] : fmt::format("{} or {}", join(but_last, ", "), words.back());
}

void check(const ObjectReader& reader, const Rule& rule) {
  const auto* member = reader.member(rule.key);
  if (member == nullptr) { return; }
  const auto hold = [&](bool holds, const char* relation, double bound) {
    if (!holds) { reader.refuse_value(rule.key, fmt::format("{} {}", relation, number(bound).dump())); }
  };
  if (member->is_number()) {
    const double value = member->get<double>();
    if (rule.least) { hold(value >= *rule.least, "at least", *rule.least); }
    if (rule.most) { hold(value <= *rule.most, "at most", *rule.most); }
    if (rule.above) { hold(value > *rule.above, "above", *rule.above); }
  }
  const bool is_one_of_them = !member->is_string() || contains(rule.words, member->get<std::string>());
  if (!rule.words.empty() && !is_one_of_them) { reader.refuse_value(rule.key, choice(rule.words)); }
  if (rule.is_object && !member->is_object()) { reader.refuse_value(rule.key, "an object or null"); }
}

}  // namespace

template <>
const RecordRules& rules_of<Experiment>() {
  static const RecordRules rules{{"experiment", "scenario"}, {}};
  return rules;
}

template <>
const RecordRules& rules_of<Trial>() {
  static const RecordRules rules{{"experiment", "scenario", "case", "arm", "nodes", "gpus_per_node"},
                                 {counted_from("nodes", 1),
                                  counted_from("gpus_per_node", 0),
                                  counted_from("pair", 0),
                                  counted_from("batch_size", 1),
                                  counted_from("ranks_per_node", 1),
                                  speed(),
                                  at_least("start_spread_ns", 0),
                                  one_of("virtualization", enum_names<Virtualization>()),
                                  {.key = "environment", .is_object = true}}};
  return rules;
}

template <>
const RecordRules& rules_of<Tenant>() {
  static const RecordRules rules{
      {"tenant_index", "nodes"},
      {counted_from("tenant_index", 0), counted_from("nodes", 1), speed(),
       at_least("network_bytes_required", 0), at_least("network_bytes_measured", 0)}};
  return rules;
}

template <>
const RecordRules& rules_of<Node>() {
  static const RecordRules rules{
      {"name", "kind"},
      {one_of("kind", {"vm", "slice"}), above_zero("memory_bytes"), at_least("numa_node", 0),
       above_zero("memory_limit_read_back_bytes"), at_least("clock_uncertainty_ns", 0),
       at_least("helper_cpu_seconds", 0), at_least("agent_ready_seconds", 0)}};
  return rules;
}

template <>
const RecordRules& rules_of<Rank>() {
  static const RecordRules rules{{"rank"},
                                 {at_least("rank", 0), at_least("local_rank", 0), at_least("size", 1),
                                  above_zero("pid"), above_zero("threads"), speed(),
                                  at_least("peak_rss_bytes", 0), above_zero("memory_limit_read_back_bytes"),
                                  above_zero("step_p50_seconds"), above_zero("step_p95_seconds"),
                                  above_zero("step_p99_seconds"), at_least("exposed_allreduce_seconds", 0)}};
  return rules;
}

template <>
const RecordRules& rules_of<Transport>() {
  static const RecordRules rules{{"from_node", "to_node", "transport"}, {}};
  return rules;
}

template <>
const RecordRules& rules_of<Sample>() {
  static const RecordRules rules{
      {"experiment", "trial", "tenant", "rank", "t_ns", "step", "images", "seconds"},
      {at_least("step", 0), at_least("images", 1), above_zero("seconds")}};
  return rules;
}

template <>
const RecordRules& rules_of<Telemetry>() {
  static const RecordRules rules{
      {"experiment", "trial", "tenant", "node", "t_ns", "source", "metric", "value"},
      {one_of("source", {"guest", "host"})}};
  return rules;
}

template <>
const RecordRules& rules_of<Event>() {
  static const RecordRules rules{{"experiment", "t_ns", "message"}, {}};
  return rules;
}

template <>
const RecordRules& rules_of<Probe>() {
  static const RecordRules rules{
      {"experiment", "name", "arm", "value", "unit"},
      {counted_from("nodes", 1), counted_from("ranks", 1), at_least("size_bytes", 0), above_zero("seconds"),
       at_least("value", 0), one_of("unit", {"B/s", "FLOP/s", "s"}), at_least("bus_bytes_per_second", 0),
       at_least("wrong", 0)}};
  return rules;
}

template <>
const RecordRules& rules_of<SecurityProbe>() {
  static const RecordRules rules{{"experiment", "arm", "name", "result"},
                                 {one_of("result", enum_names<LeakResult>()), at_least("scanned", 0),
                                  at_least("total", 0), one_of("unit", {"B", "targets", "files"})}};
  return rules;
}

void check_record(const ObjectReader& reader, const RecordRules& rules) {
  reader.finish();
  reader.require(rules.needed);
  for (const auto& rule : rules.rules) { check(reader, rule); }
}

namespace {

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
template <typename T>
Schema type_of(std::string_view key, const std::optional<T>&) {
  return type_of(key, T{});
}

void lay_over(Schema& schema, const Rule& rule) {
  if (rule.least) { schema["minimum"] = number(*rule.least); }
  if (rule.most) { schema["maximum"] = number(*rule.most); }
  if (rule.above) { schema["exclusiveMinimum"] = number(*rule.above); }
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
  visit_columns(any, [&](const char* column, const auto& value) {
    const auto key = exchange_name(column);
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
                  {"event", record_schema<Event>(with(of_experiment, "trial", whole_from_1))},
                  {"probe", record_schema<Probe>(of_scenario)},
                  {"security", record_schema<SecurityProbe>(of_experiment)}};
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

}  // namespace virtrain::results
