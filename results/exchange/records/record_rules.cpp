#include "results/exchange/records/record_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/contains.h"
#include "common/model/check.h"
#include "common/model/virtualization.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

// Limit of things that are counted in a trial: two of them multiplied stay within 64 bits.
constexpr double most_counted = 1e9;
// Squares of what is far beyond any trainer would leave the range of doubles in every comparison, also of
// tenants and of ranks.
constexpr double least_speed = 1e-6, most_speed = 1e12;

Rule counted_from(std::string_view key, double least) {
  return {.key = key, .least = least, .most = most_counted};
}
Rule speed(std::string_view key) {
  return {.key = key, .least = least_speed, .most = most_speed};
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

/// "B/s, FLOP/s or s".
std::string choice(const std::vector<std::string>& words) {
  const std::vector<std::string> but_last(words.begin(), words.end() - 1);
  return words.size() == 1 ? words[0] : fmt::format("{} or {}", join(but_last, ", "), words.back());
}

void check(const ObjectReader& reader, const Rule& rule) {
  const auto* member = reader.member(rule.key);
  if (member == nullptr) { return; }
  const auto hold = [&](bool holds, const char* relation, double bound) {
    if (!holds) { reader.refuse_value(rule.key, fmt::format("{} {}", relation, bound_json(bound).dump())); }
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
                                  speed("images_per_second"),
                                  speed("throughput"),
                                  at_least("start_spread_ns", 0),
                                  one_of("virtualization", enum_names<Virtualization>()),
                                  counted_from("scale", 1),
                                  {.key = "level", .most = 1, .above = 0},
                                  {.key = "environment", .is_object = true}}};
  return rules;
}

template <>
const RecordRules& rules_of<Tenant>() {
  static const RecordRules rules{
      {"tenant_index", "nodes"},
      {counted_from("tenant_index", 0), counted_from("nodes", 1), speed("images_per_second"),
       speed("throughput"), at_least("network_bytes_required", 0), at_least("network_bytes_measured", 0)}};
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
  static const RecordRules rules{
      {"rank"},
      {at_least("rank", 0), at_least("local_rank", 0), at_least("size", 1), above_zero("pid"),
       above_zero("threads"), speed("images_per_second"), speed("throughput"), at_least("peak_rss_bytes", 0),
       above_zero("memory_limit_read_back_bytes"), above_zero("step_p50_seconds"),
       above_zero("step_p95_seconds"), above_zero("step_p99_seconds"),
       at_least("exposed_allreduce_seconds", 0)}};
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
const RecordRules& rules_of<Figure>() {
  static const RecordRules rules{{"experiment", "trial", "tenant", "name", "unit", "value"},
                                 {at_least("rank", 0), {.key = "settings", .is_object = true}}};
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
       counted_from("run", 1), at_least("wrong", 0)}};
  return rules;
}

template <>
const RecordRules& rules_of<LeakSearch>() {
  static const RecordRules rules{{"experiment", "arm", "name", "result"},
                                 {one_of("result", enum_names<LeakResult>()), at_least("scanned", 0),
                                  at_least("total", 0), one_of("unit", {"B", "targets", "files"})}};
  return rules;
}

nlohmann::json bound_json(double bound) {
  const auto whole = static_cast<std::int64_t>(bound);
  return static_cast<double>(whole) == bound ? nlohmann::json(whole) : nlohmann::json(bound);
}

void check_record(const ObjectReader& reader, const RecordRules& rules) {
  reader.finish();
  reader.require(rules.needed);
  for (const auto& rule : rules.rules) { check(reader, rule); }
}

}  // namespace virtrain::results
