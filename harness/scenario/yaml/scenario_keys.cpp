#include "harness/scenario/yaml/scenario_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "common/model/trial_key.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr FixedKey fixed_keys[] = {
    {"guest.image", "write an arm for each image instead", false},
    {"guest.packages", "all VMs have the same programs"},
    {"devices.kind", "the arms of a pair run on the same devices"},
    {"devices.select", "the arms of a pair run on the same devices"},
};

/// Keys that bare metal does not have.
constexpr std::string_view keys_of_vms[] = {"guest.image",
                                            "guest.packages",
                                            "guest.hugepages",
                                            "guest.topology",
                                            "guest.memory_encryption",
                                            "guest.network.vhost",
                                            "guest.network.queues",
                                            "guest.cpu_model",
                                            "guest.template",
                                            "guest.nccl_topology",
                                            "devices.clique",
                                            "devices.vfio",
                                            "guest.emulator_threads",
                                            "devices.between_tenants",
                                            "devices.vgpu_scheduler"};

std::string last_part(const std::string& path) {
  return split(path, '.').back();
}

void add_places(const nlohmann::ordered_json& schema, const std::string& path, KeyPlaces& places) {
  if (const auto items = schema.find("items"); items != schema.end()) {
    add_places(*items, path + "[]", places);
  }
  if (const auto variants = schema.find("anyOf"); variants != schema.end()) {
    for (const auto& variant : *variants) { add_places(variant, path, places); }
  }
  if (const auto properties = schema.find("properties"); properties != schema.end()) {
    for (const auto& [key, property] : properties->items()) {
      places[key].push_back(path);
      add_places(property, dotted(path, key), places);
    }
  }
}

/// Those below `path` come first, those of arms last, and of the others those nearest to the top. One mapping
/// of each name is enough: guest, and not the guest of an arm too.
std::vector<std::string> nearest_places(std::vector<std::string> places, const std::string& path) {
  const auto rank = [&](const std::string& place) {
    return std::tuple(!is_at_or_below(place, path), is_at_or_below(place, "arms[]"),
                      split(place, '.').size());
  };
  std::stable_sort(places.begin(), places.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  std::set<std::string> names;
  std::erase_if(places, [&](const auto& place) { return !names.insert(last_part(place)).second; });
  return places;
}

/// "it belongs in guest: guest.hugepages", "it belongs in devices or in devices.nics".
std::string belongs_in(const std::vector<std::string>& places, const std::string& key) {
  constexpr std::size_t most_places = 3;
  if (places.size() == 1 && !places[0].empty()) {
    const auto name = last_part(places[0]);
    return fmt::format("it belongs in {}: {}", name.substr(0, name.find('[')), dotted(places[0], key));
  }
  const auto count = std::min(places.size(), most_places);
  std::string text = count < places.size() ? "it belongs, for example, " : "it belongs ";
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) { text += i + 1 == count ? " or " : ", "; }
    text += places[i].empty() ? "at the top level" : "in " + places[i];
  }
  return text;
}

/// A key of another mapping that is spelled almost like this one, by its path. Short keys have too many of
/// them.
std::optional<std::string> nearest_elsewhere(const std::string& key, const std::string& path,
                                             const KeyPlaces& places) {
  constexpr std::size_t shortest_key = 5;
  if (key.size() < shortest_key) { return std::nullopt; }
  std::vector<std::string> keys;
  keys.reserve(places.size());
  for (const auto& place : places) { keys.push_back(place.first); }
  const auto near = nearest_word(key, keys);
  if (!near) { return std::nullopt; }
  const auto place = nearest_places(places.at(*near), path).front();
  return place.empty() ? *near + " at the top level" : dotted(place, *near);
}

}  // namespace

bool is_at_or_below(std::string_view key, std::string_view parent) {
  return key == parent || (key.starts_with(parent) && key[parent.size()] == '.');
}

std::string dotted(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

const FixedKey* fixed_key(std::string_view key) {
  const auto* const found = std::find_if(std::begin(fixed_keys), std::end(fixed_keys),
                                         [&](const FixedKey& one) { return is_at_or_below(key, one.key); });
  return found == std::end(fixed_keys) ? nullptr : found;
}

const FixedKey* fixed_in_arms(std::string_view key) {
  const auto* fixed = fixed_key(key);
  return fixed != nullptr && fixed->in_arms ? fixed : nullptr;
}

std::vector<std::string> arms_with(std::string_view key) {
  const bool of_vms = std::any_of(std::begin(keys_of_vms), std::end(keys_of_vms),
                                  [&](std::string_view one) { return is_at_or_below(key, one); });
  if (of_vms) { return {arm_vm}; }
  if (is_at_or_below(key, "guest.network")) { return {arm_vm, arm_bare_metal}; }
  if (is_at_or_below(key, "workload")) { return {arm_vm, arm_bare_metal, arm_bare_metal_shared, arm_attach}; }
  return {arm_vm, arm_bare_metal, arm_bare_metal_shared};
}

KeyPlaces key_places(const nlohmann::ordered_json& schema) {
  KeyPlaces places;
  add_places(schema, "", places);
  return places;
}

std::string key_advice(const std::string& key, const std::string& path,
                       const std::vector<std::string>& allowed, const KeyPlaces* places) {
  const bool is_of_tenant = path.ends_with("tenants[]");
  if (is_of_tenant && (key == "vcpus" || key == "memory" || key == "guest")) {
    return "all nodes of a case have the size that guest says; VMs of different sizes side by side are not "
           "possible, an arm or a sweep may change guest for all; a tenant may have limits";
  }
  auto near = nearest_word(key, allowed);
  std::string advice = "allowed: " + join(allowed, ", ");
  if (places != nullptr) {
    if (const auto found = places->find(key); found != places->end()) {
      advice = belongs_in(nearest_places(found->second, path), key);
    } else if (!near) {
      near = nearest_elsewhere(key, path, *places);
    }
  }
  return advice + (near ? "; did you mean " + *near + "?" : "");
}

}  // namespace virtrain::harness
