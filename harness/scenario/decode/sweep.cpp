
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/scenario/decode/sections.h"
#include "harness/scenario/yaml/scenario_keys.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_swept_keys = 8;
constexpr std::size_t most_points = 50'000;

/// Keys of a scenario that no sweep varies, by their first word.
struct UnsweptKey {
  std::string_view first, why;
};
constexpr const char* of_a_case =
    "it belongs to a case (write a case for each value, or scale: {nodes: [1, 2, 4]})";
constexpr const char* of_the_experiment =
    "it is of the whole experiment and of no case (use a file for each value)";
constexpr const char* of_conditions = "each one is a condition already (give a list in isolation)";
constexpr UnsweptKey unswept_keys[] = {
    {"isolation",
     "each of its aggressors and levels is a condition already (give lists there; use a file for each value "
     "of "
     "other keys)"},
    {"victims", "each victim is a case already (add one for each value)"},
    {"aggressors", of_conditions},
    {"levels", of_conditions},
    {"price", "it changes nothing that is measured (price: {vm: 2.10 EUR/h} has one for each arm)"},
    {"arms", "all arms are compared at each point already"},
    {"pairs", "all cases of an experiment have the same design (use a file for each value)"},
    {"network", "it belongs in guest (such as guest.network.mtu)"},
    {"limits", "it belongs in guest (such as guest.limits.disk_read)"},
    {"cases", of_a_case},
    {"tenants", of_a_case},
    {"nodes", of_a_case},
    {"scale", of_a_case},
    {"ranks_per_node", of_a_case},
    {"gpus_per_node", of_a_case},
    {"vgpu_type", of_a_case},
    {"probes", of_the_experiment},
    {"reuse", of_the_experiment},
    {"oversubscribe", of_the_experiment},
    {"security", of_the_experiment},
    {"settle", of_the_experiment},
    {"boot_timeout", of_the_experiment},
    {"trial_timeout", of_the_experiment},
    {"expect", of_the_experiment}};

/// One key of a sweep with its values.
struct SweptKey {
  std::vector<std::string> path;
  std::string label;  ///< in names of cases
  YAML::Mark mark;
  std::vector<Field> values;
};

/// The value in a case's name; empty: nothing may be swept over such a value. A slash would begin the size of
/// a weak scaling, and "@", "=" and "," part names.
std::string value_in_name(const std::string& text) {
  const auto is_shown = [](char c) { return c >= ' ' && c <= '~'; };
  if (text.empty() || text.size() > 64 || !std::all_of(text.begin(), text.end(), is_shown)) { return ""; }
  std::string name = text;
  std::replace_if(
      name.begin(), name.end(),
      [](char c) {
        return !is_letter(c) && !is_digit(c) && std::string_view("._+-%:").find(c) == std::string_view::npos;
      },
      '_');
  return name;
}

/// All that a text may mean as a value of a key: 2 and 02 are one, and 1GiB and 1024MiB.
struct Meaning {
  std::string name;
  std::optional<double> number, share;
  std::optional<std::uint64_t> bytes;
  std::optional<std::int64_t> nanoseconds;
};

Meaning meaning_of(const std::string& key, const std::string& text) {
  const auto name = value_in_name(text);
  if (key.starts_with("workload.env.")) { return {name, {}, {}, {}, {}}; }  // texts only
  return {name, parse_number(text), parse_share(text), parse_size_bytes(text), parse_duration_ns(text)};
}

bool is_same_value(const Meaning& a, const Meaning& b) {
  const auto is_same = [](const auto& first, const auto& second) { return first && first == second; };
  return a.name == b.name || is_same(a.number, b.number) || is_same(a.share, b.share) ||
         is_same(a.bytes, b.bytes) || is_same(a.nanoseconds, b.nanoseconds);
}

/// The values that can be part of a case's name, each once.
std::vector<Field> swept_values(const std::string& key, const Field& list, Diagnostics& diagnostics) {
  std::vector<Field> values;
  std::vector<Meaning> meanings;
  for (const auto& item : read_set(list, key, 1, 1000, diagnostics)) {
    const std::string text = item.node.IsScalar() ? item.node.Scalar() : "";
    const auto meaning = meaning_of(key, text);
    const auto same = std::find_if(meanings.begin(), meanings.end(),
                                   [&](const Meaning& other) { return is_same_value(other, meaning); });
    if (meaning.name.empty()) {
      diagnostics.add(
          item.node.Mark(),
          "{}: a value of a sweep becomes part of the case's name (allowed: 1 to 64 characters of "
          "ASCII)",
          key);
    } else if (same != meanings.end()) {
      const auto& first = values[static_cast<std::size_t>(same - meanings.begin())].node.Scalar();
      diagnostics.add(item.node.Mark(), "{}: '{}' is there twice{}", key, text,
                      first == text ? "" : fmt::format(" (as '{}')", first));
    } else {
      values.push_back(item);
      meanings.push_back(meaning);
    }
  }
  return values;
}

void check_swept_key(const std::string& key, const YAML::Mark& mark, Diagnostics& diagnostics) {
  const auto path = split(key, '.');
  const auto* unswept = std::find_if(std::begin(unswept_keys), std::end(unswept_keys),
                                     [&](const UnsweptKey& one) { return one.first == path[0]; });
  if (unswept != std::end(unswept_keys)) {
    diagnostics.add(mark, "sweep: {} cannot be swept: {}", excerpt(key), unswept->why);
    return;
  }
  const bool known = path[0] == "workload" || path[0] == "guest" || path[0] == "devices";
  if (!known || path.size() < 2 || path.size() > 4) {
    diagnostics.add(mark,
                    "sweep: '{}' is not a key of workload, guest or devices (such as "
                    "workload.batch_size, guest.vcpus, devices.settings.power_limit)",
                    excerpt(key));
  } else if (const auto* fixed = fixed_key(key)) {
    diagnostics.add(mark, "{} cannot be swept: {}", key, fixed->why);
  }
}

/// "batch_size" of "workload.batch_size"; all of it where two keys end alike.
void label_keys(std::vector<SweptKey>& keys) {
  std::map<std::string, int> endings;
  for (const auto& key : keys) { ++endings[key.path.back()]; }
  for (auto& key : keys) {
    key.label = endings[key.path.back()] == 1 ? key.path.back() : join(key.path, ".");
  }
}

SweepPoint point_of(const std::vector<SweptKey>& keys, const std::vector<std::size_t>& at) {
  SweepPoint point;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const auto& value = keys[k].values[at[k]].node;
    point.point.values.emplace_back(keys[k].label, value_in_name(value.Scalar()));
    point.layers.push_back({keys[k].path, value, keys[k].mark});
  }
  return point;
}

/// Values one by one where they are zipped; else all combinations, the last key's values going round first.
std::vector<SweepPoint> points_of(const std::vector<SweptKey>& keys, bool zipped) {
  std::vector<SweepPoint> points;
  std::vector<std::size_t> at(keys.size(), 0);
  while (true) {
    points.push_back(point_of(keys, at));
    if (zipped) {
      for (auto& index : at) { ++index; }
      if (at[0] == keys[0].values.size()) { return points; }
      continue;
    }
    std::size_t k = keys.size();
    while (k > 0 && ++at[k - 1] == keys[k - 1].values.size()) { at[--k] = 0; }
    if (k == 0) { return points; }
  }
}

/// How many cases a weak scaling makes of each point.
std::size_t sizes_of(const YAML::Node& item) {
  if (!item.IsMap()) { return 1; }
  const auto scale = item["scale"];
  const auto nodes = scale && scale.IsMap() ? scale["nodes"] : YAML::Node();
  return nodes && nodes.IsSequence() ? std::max<std::size_t>(1, nodes.size()) : 1;
}

void describe_sweep(Schema& schema) {
  schema.erase("properties");
  schema.update({{"properties",
                  {{"zip",
                    {{"description", "Take the values of all keys one by one, not every combination"},
                     {"default", false},
                     {"examples", {true}},
                     {"type", "boolean"}}}}},
                 {"additionalProperties",
                  {{"type", "array"},
                   {"minItems", 1},
                   {"maxItems", 1000},
                   {"uniqueItems", true},
                   {"items", {{"type", {"string", "number", "boolean"}}}}}},
                 {"propertyNames", {{"pattern", "^(zip|(workload|guest|devices)\\..+)$"}}},
                 {"maxProperties", most_swept_keys + 1}});
}

/// How guests see their devices.
bool is_about_devices(const std::string& key) {
  return key == "guest.topology" || key == "guest.nccl_topology";
}

/// Said here, it is not said again of each case.
void refuse_devices(Layers& layers, const char* key, Diagnostics& diagnostics) {
  std::erase_if(layers, [&](const Layer& layer) {
    const bool of_devices = layer.path[0] == "devices";
    if (of_devices) {
      diagnostics.add(layer.mark, "{}: the scenario has no devices to change (give it devices of a kind)",
                      key);
    }
    return of_devices;
  });
}

void refuse_key_about_devices(const char* where, const std::string& key, const YAML::Mark& mark,
                              Diagnostics& diagnostics) {
  if (!is_about_devices(key)) { return; }
  diagnostics.add(mark, "{}: {} is about devices, and the scenario has none (give it devices of a kind)",
                  where, key);
}

}  // namespace

std::vector<SweepPoint> decode_sweep(MapReader& in, const char* absent, Diagnostics& diagnostics) {
  const About about{.text = "Keys with the values that each case runs with, in every combination",
                    .absent = absent,
                    .example = {{"workload.batch_size", {16, 32, 64}}, {"guest.vcpus", {1, 2}}}};
  const auto field = in.child("sweep", about);
  if (!field) { return {}; }
  MapReader sweep(*field, "sweep", diagnostics);
  if (field->describes()) {
    describe_sweep(*field->schema);
    return {};
  }
  const bool zipped = sweep.boolean("zip", {""}).value_or(false);
  std::vector<SweptKey> keys;
  bool refused = false;  // a value of them, and told already
  for (const auto& [key, mark] : sweep.keys()) {
    if (key == "zip") { continue; }
    check_swept_key(key, mark, diagnostics);
    const auto list = *sweep.child(key, {""});
    keys.push_back({split(key, '.'), "", mark, swept_values(key, list, diagnostics)});
    const auto& values = keys.back().values;
    if (values.empty()) { return {}; }
    refused = refused || values.size() < list.node.size();
  }
  if (zipped && refused) { return {}; }
  std::sort(keys.begin(), keys.end(), [](const SweptKey& a, const SweptKey& b) {
    return a.mark.pos < b.mark.pos;  // as the file has them
  });
  if (keys.empty() || keys.size() > most_swept_keys) {
    diagnostics.add(sweep.mark(), "sweep has {} keys (allowed: 1 to {})", keys.size(), most_swept_keys);
    return {};
  }
  label_keys(keys);
  std::size_t points = 1;
  for (const auto& key : keys) {
    points = zipped ? key.values.size() : points * key.values.size();
    if (zipped && key.values.size() != keys[0].values.size()) {
      diagnostics.add(key.mark, "zip: {} has {} and {} has {} (allowed: as many)", join(key.path, "."),
                      counted(key.values.size(), "value"), join(keys[0].path, "."), keys[0].values.size());
      return {};
    }
    if (points > most_points) {
      diagnostics.add(sweep.mark(), "sweep has more than {} points (use fewer values)", most_points);
      return {};
    }
  }
  return points_of(keys, zipped);
}

CaseCount count_cases(const std::vector<Field>& items, std::size_t points, Diagnostics& diagnostics) {
  CaseCount count;
  for (const auto& item : items) {
    MapReader in(item, "case", diagnostics);
    const auto own = decode_sweep(in, "", diagnostics).size();
    count.swept = count.swept || own > 0 || points > 0;
    count.cases += std::max<std::size_t>(1, own > 0 ? own : points) * sizes_of(item.node);
    if (count.cases > most_trials) { break; }
  }
  return count;
}

void refuse_swept_keys(const std::vector<SweepPoint>& points, const std::vector<Variant>& variants,
                       Diagnostics& diagnostics) {
  if (points.empty()) { return; }
  for (const auto& swept : points.front().layers) {
    const auto key = join(swept.path, ".");
    const auto allowed = arms_with(key);
    const auto is_with = [&](const Variant& variant) { return contains(allowed, variant.arm.base); };
    if (std::none_of(variants.begin(), variants.end(), is_with)) {
      diagnostics.add(swept.mark,
                      "sweep: {} changes nothing in the arms of this scenario (allowed with an arm {})", key,
                      join(allowed, " or "));
    }
    for (const auto& variant : variants) {
      for (const auto& change : variant.arm.changes) {
        if (!is_at_or_below(change.key, key) && !is_at_or_below(key, change.key)) { continue; }
        diagnostics.add(swept.mark, "sweep: arm {} sets {} itself (remove one of them)", variant.arm.name,
                        change.key);
      }
    }
  }
}

void refuse_changes_of_no_devices(std::vector<Variant>& variants, std::vector<SweepPoint>& points,
                                  Diagnostics& diagnostics) {
  for (auto& variant : variants) {
    if (variant.layers.empty()) { continue; }
    for (const auto& change : variant.arm.own_changes) {
      refuse_key_about_devices("arms", change.key, variant.layers.back().mark, diagnostics);
    }
    refuse_devices(variant.layers, "arms", diagnostics);
  }
  for (auto& point : points) {
    for (const auto& layer : point.layers) {
      refuse_key_about_devices("sweep", join(layer.path, "."), layer.mark, diagnostics);
    }
    refuse_devices(point.layers, "sweep", diagnostics);
  }
}

}  // namespace virtrain::harness
