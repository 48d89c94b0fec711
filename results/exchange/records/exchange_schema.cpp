#include "results/exchange/records/exchange_schema.h"

#include <fmt/format.h>

#include "common/contains.h"
#include "results/exchange/records/record_rules.h"

namespace virtrain::results {
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

}  // namespace virtrain::results
