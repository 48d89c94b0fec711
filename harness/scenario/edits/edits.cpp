#include "harness/scenario/edits/edits.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/error.h"
#include "common/model/trial_key.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/scenario/yaml/scenario_keys.h"

namespace virtrain::harness {
namespace {

constexpr const char* parts[] = {"workload", "guest", "devices"};

[[noreturn]] void refuse(const std::string& words) {
  throw Error("bisect", ErrorCode::usage, words);
}

/// A copy of `under` with the values of `over` laid over it, mapping by mapping.
YAML::Node merged(const YAML::Node& under, const YAML::Node& over) {
  if (!under.IsMap() || !over.IsMap()) { return YAML::Clone(over); }
  YAML::Node result = YAML::Clone(under);
  for (const auto& entry : over) {
    const auto key = entry.first.Scalar();
    const YAML::Node old = result[key];
    result[key] = old.IsDefined() ? merged(old, entry.second) : YAML::Clone(entry.second);
  }
  return result;
}

std::string scalar_at(const YAML::Node& map, const char* key) {
  const YAML::Node value = map.IsMap() ? map[key] : YAML::Node();
  return value.IsDefined() && value.IsScalar() ? value.Scalar() : "";
}

/// The variant of this name; nothing for bare_metal and the like.
std::optional<YAML::Node> variant_of(const YAML::Node& document, const std::string& name) {
  const YAML::Node arms = document["arms"];
  if (!arms.IsDefined() || !arms.IsSequence()) { return std::nullopt; }
  for (const auto& arm : arms) {
    if (arm.IsMap() && scalar_at(arm, "name") == name) { return arm; }
  }
  return std::nullopt;
}

std::string flow_text(const YAML::Node& node) {
  YAML::Emitter out;
  out << YAML::Flow << node;
  return out.c_str();
}

/// Values by key, and which of them are lists: a text may look like one.
struct Leaves {
  std::map<std::string, std::string> values;
  std::set<std::string> lists;
};

void add_leaves(const YAML::Node& node, const std::string& key, Leaves& leaves) {
  if (!node.IsMap()) {
    leaves.values[key] = node.IsScalar() ? node.Scalar() : flow_text(node);
    if (node.IsSequence()) { leaves.lists.insert(key); }
    return;
  }
  for (const auto& entry : node) {
    if (entry.first.IsScalar()) { add_leaves(entry.second, key + "." + entry.first.Scalar(), leaves); }
  }
}

/// The arm with its base resolved, and workload, guest and devices as it has them.
struct ArmSettings {
  std::string base;
  std::map<std::string, YAML::Node> parts;
  Leaves own;  ///< what its variants say
};

ArmSettings settings_of(const YAML::Node& document, const std::string& arm) {
  ArmSettings settings{arm, {}, {}};
  std::vector<YAML::Node> chain;  // the arm itself first
  for (auto variant = variant_of(document, arm); variant; variant = variant_of(document, settings.base)) {
    chain.push_back(*variant);
    settings.base = scalar_at(*variant, "like");
  }
  if (settings.base != arm_vm && settings.base != arm_bare_metal && settings.base != arm_bare_metal_shared) {
    refuse(fmt::format("the scenario has no arm {}", excerpt(arm)));
  }
  for (const char* part : parts) {
    const YAML::Node own = document[part];
    YAML::Node all = own.IsDefined() && own.IsMap() ? YAML::Clone(own) : YAML::Node(YAML::NodeType::Map);
    for (auto variant = chain.rbegin(); variant != chain.rend(); ++variant) {
      const YAML::Node theirs = (*variant)[part];
      if (!theirs.IsDefined()) { continue; }
      all = merged(all, theirs);
      add_leaves(theirs, part, settings.own);
    }
    settings.parts.emplace(part, all);
  }
  return settings;
}

/// The case of the file.
YAML::Node case_of(const YAML::Node& document, const std::string& name) {
  const YAML::Node cases = document["cases"];
  if (cases.IsDefined() && cases.IsSequence()) {
    for (const auto& one : cases) {
      if (scalar_at(one, "name") == name) { return one; }
    }
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

/// Keys that a case, or each of its tenants, sets itself: the scenario's values do not reach it.
std::set<std::string> keys_of_case(const YAML::Node& placed) {
  const auto keys_of = [](const YAML::Node& one) {
    Leaves leaves;
    for (const auto& [key, under] :
         {std::pair("workload", "workload"), std::pair("limits", "guest.limits")}) {
      if (const YAML::Node own = one[key]; own.IsDefined()) { add_leaves(own, under, leaves); }
    }
    std::set<std::string> keys;
    for (const auto& [key, value] : leaves.values) { keys.insert(key); }
    return keys;
  };
  if (!placed.IsDefined() || !placed.IsMap()) { return {}; }
  auto keys = keys_of(placed);
  const YAML::Node tenants = placed["tenants"];
  if (!tenants.IsDefined() || !tenants.IsSequence()) { return keys; }
  std::map<std::string, std::size_t> by_tenants;
  for (const auto& tenant : tenants) {
    for (const auto& key : keys_of(tenant)) { ++by_tenants[key]; }
  }
  for (const auto& [key, count] : by_tenants) {
    if (count == tenants.size()) { keys.insert(key); }
  }
  return keys;
}

/// "workload.env.X" as its keys.
std::vector<std::string> path_of(const std::string& key) {
  return split(key, '.');
}

void set_at(YAML::Node node, const std::vector<std::string>& path, std::size_t depth,
            const YAML::Node& value) {
  const auto& key = path[depth];
  if (depth + 1 == path.size()) {
    node[key] = value;
    return;
  }
  if (!node[key].IsDefined() || !node[key].IsMap()) { node[key] = YAML::Node(YAML::NodeType::Map); }
  set_at(node[key], path, depth + 1, value);
}

void remove_at(YAML::Node node, const std::vector<std::string>& path, std::size_t depth) {
  const auto& key = path[depth];
  if (!node.IsMap() || !node[key].IsDefined()) { return; }
  if (depth + 1 == path.size()) {
    node.remove(key);
  } else {
    remove_at(node[key], path, depth + 1);
  }
}

YAML::Node arm_of(const char* name, const std::string& base, const TwoArms& wanted) {
  YAML::Node arm(YAML::NodeType::Map);
  arm["name"] = name;
  arm["like"] = base;
  for (std::size_t i = 0; i < wanted.settings.size(); ++i) {
    const auto& setting = wanted.settings[i];
    const bool is_new = name == std::string(arm_tried) && wanted.tried.contains(i);
    const auto& value = is_new ? setting.after : setting.before;
    if (!value) { continue; }
    set_at(arm, path_of(setting.key), 0, setting.is_list ? YAML::Load(*value) : YAML::Node(*value));
  }
  return arm;
}

}  // namespace

std::vector<Setting> edited_settings(const std::string& before, const std::string& after,
                                     const std::string& case_of_file, const std::string& arm) {
  const YAML::Node documents[] = {YAML::Load(before), YAML::Load(after)};
  Leaves leaves[2];
  std::set<std::string> unreached[2];
  for (std::size_t side = 0; side < 2; ++side) {
    const auto settings = settings_of(documents[side], arm);
    for (const auto& [part, node] : settings.parts) { add_leaves(node, part, leaves[side]); }
    const auto placed = case_of(documents[side], case_of_file);
    for (const auto& key : keys_of_case(placed)) {
      if (!settings.own.values.contains(key)) { unreached[side].insert(key); }  // an arm wins over the case
    }
    if (placed.IsDefined()) { leaves[side].values["cases"] = flow_text(placed); }
  }
  std::set<std::string> keys;
  for (const auto& side : leaves) {
    for (const auto& [key, value] : side.values) { keys.insert(key); }
  }
  std::vector<Setting> edited;
  const auto value_in = [&](std::size_t side, const std::string& key) {
    const auto found = leaves[side].values.find(key);
    return found == leaves[side].values.end() ? std::nullopt : std::optional(found->second);
  };
  for (const auto& key : keys) {
    if (unreached[0].contains(key) && unreached[1].contains(key)) { continue; }
    const bool is_list = leaves[0].lists.contains(key) || leaves[1].lists.contains(key);
    Setting setting{key, value_in(0, key), value_in(1, key), is_list};
    if (setting.before != setting.after) { edited.push_back(std::move(setting)); }
  }
  return edited;
}

std::string why_arms_cannot_differ(const std::string& key) {
  if (const auto* fixed = fixed_in_arms(key)) { return std::string(fixed->why); }
  const auto below = [&](const char* parent) { return key != parent && is_at_or_below(key, parent); };
  if (below("workload.env") || key == "workload.threads" || below("guest") || below("devices")) { return ""; }
  return is_at_or_below(key, "workload") ? "another value of it is another workload"
                                         : "it is the same in all arms";
}

std::string two_arm_scenario(const std::string& text, const TwoArms& wanted) {
  const YAML::Node document = YAML::Load(text);
  if (document["isolation"].IsDefined()) {
    refuse("the scenario has isolation, whose neighbours set the arms");
  }
  if (document["hosts"].IsDefined()) {
    refuse(
        "the scenario ran on the hosts that it names, and this would run on one machine (run both states "
        "with run --hosts, and compare them)");
  }
  if (!wanted.case_key.point.empty()) {
    refuse(
        fmt::format("{} is a point of a sweep (write a scenario of this point)", excerpt(wanted.case_name)));
  }
  const auto settings = settings_of(document, wanted.arm);
  const auto& key = wanted.case_key;
  YAML::Node placed = YAML::Clone(case_of(document, key.family.empty() ? wanted.case_name : key.family));
  if (!placed.IsDefined() || !placed.IsMap()) {
    refuse(fmt::format("the scenario has no case {}", excerpt(wanted.case_name)));
  }
  if (key.scale && placed["scale"].IsDefined()) {
    YAML::Node sizes(YAML::NodeType::Sequence);
    sizes.push_back(*key.scale);
    placed["scale"]["nodes"] = sizes;
  }
  YAML::Node out(YAML::NodeType::Map);
  out["name"] = wanted.name;
  out["description"] = wanted.description;
  for (const auto& [part, node] : settings.parts) {
    if (node.size() > 0) { out[part] = node; }
  }
  for (const auto& setting : wanted.settings) {
    // Laid over by an arm only; what one of them does not say must not shine through.
    if (!setting.before || !setting.after) { remove_at(out, path_of(setting.key), 0); }
  }
  for (const char* key : {"reuse", "oversubscribe", "settle", "boot_timeout", "trial_timeout"}) {
    if (document[key].IsDefined()) { out[key] = YAML::Clone(document[key]); }
  }
  out["cases"].push_back(placed);
  out["arms"].push_back(arm_of(arm_good, settings.base, wanted));
  out["arms"].push_back(arm_of(arm_tried, settings.base, wanted));
  out["pairs"]["at_most"] = wanted.pairs;
  out["pairs"]["until"] = "verdict";
  YAML::Emitter emitter;
  emitter << out;
  return std::string(emitter.c_str()) + "\n";
}

namespace {

[[noreturn]] void refuse_option(const std::string& option, const std::string& words) {
  throw Error("read the command line", ErrorCode::usage, fmt::format("{}: {}", option, words));
}

/// "workload.batch_size=64" laid over the document.
void set_value(YAML::Node& document, const std::string& assignment) {
  const auto option = "--set " + excerpt(assignment);
  const auto equals = assignment.find('=');
  const auto path = path_of(assignment.substr(0, equals));
  if (equals == std::string::npos || std::ranges::any_of(path, &std::string::empty)) {
    refuse_option(option, "this is not KEY=VALUE (as in workload.batch_size=64)");
  }
  YAML::Node above = document;
  std::string name;  // of what is above the key
  for (const auto& key : path) {
    if (above.IsSequence()) {
      refuse_option(option, fmt::format("{} is a list (set all of it)", excerpt(name)));
    }
    if (!above.IsMap() || !above[key].IsDefined()) { break; }
    above.reset(above[key]);
    name = key;
  }
  try {
    set_at(document, path, 0, YAML::Load(assignment.substr(equals + 1)));
  } catch (const YAML::Exception& error) {
    refuse_option(option, fmt::format("the value is not YAML: {}", error.msg));
  }
}

/// Keeps the cases of these names, and of a weak scaling the size that is asked for.
void keep_cases(YAML::Node& document, const Scenario& scenario, const std::vector<std::string>& names) {
  YAML::Node kept(YAML::NodeType::Sequence);
  for (const auto& name : names) {
    const auto option = "--case " + excerpt(name);
    const auto known = std::ranges::find_if(
        scenario.cases, [&](const Case& one) { return one.name == name || one.key.family == name; });
    const bool is_written = !scenario.isolation && document["cases"].IsDefined();
    if (known == scenario.cases.end()) {
      std::vector<std::string> all;
      for (const auto& one : scenario.cases) { all.push_back(one.name); }
      const auto near = nearest_word(name, all);
      refuse_option(option,
                    fmt::format("the scenario has no such case (it has {}{})", excerpt(join(all, ", "), 300),
                                near ? "; did you mean " + *near + "?" : ""));
    }
    if (!is_written || !known->key.point.empty()) {
      refuse_option(option, "a victim of isolation, or a point of a sweep, does not run alone");
    }
    YAML::Node one =
        YAML::Clone(case_of(document, known->key.family.empty() ? known->name : known->key.family));
    if (known->name == name && known->key.scale && one["scale"].IsDefined()) {
      one["scale"]["nodes"] = std::vector<std::int64_t>{*known->key.scale};
    }
    kept.push_back(one);
  }
  document["cases"] = kept;
}

}  // namespace

std::string edited_scenario(const Scenario& scenario, const ScenarioEdits& edits) {
  if (edits.empty()) { return scenario.text; }
  YAML::Node document = YAML::Load(scenario.text);
  if (!edits.cases.empty()) { keep_cases(document, scenario, edits.cases); }
  for (const auto& assignment : edits.values) { set_value(document, assignment); }
  YAML::Emitter emitter;
  emitter << document;
  return std::string(emitter.c_str()) + "\n";
}

}  // namespace virtrain::harness
