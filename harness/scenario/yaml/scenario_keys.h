#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

// Keys of a scenario by their dotted paths: where each belongs, and which ones arms and sweeps cannot lay
// over the scenario.
namespace virtrain::harness {

/// A key below guest, devices or workload that sweeps do not vary, and most of them arms neither.
struct FixedKey {
  std::string_view key, why;
  bool in_arms = true;
};

/// The row that this key or one above it has; null: a sweep may vary it.
const FixedKey* fixed_key(std::string_view key);
/// The same of what arms may not vary.
const FixedKey* fixed_in_arms(std::string_view key);

/// Arms in which the key changes something: vm, bare_metal, bare_metal_shared and what is like them.
std::vector<std::string> arms_with(std::string_view key);

/// "guest.image" is at or below "guest.image" and "guest".
bool is_at_or_below(std::string_view key, std::string_view parent);
/// "guest.image" of "guest" and "image"; "image" where the path is empty.
std::string dotted(const std::string& path, const std::string& key);

/// For each key the mappings that may have it, by their paths: "guest", "cases[].workload", "" for the whole
/// scenario.
using KeyPlaces = std::map<std::string, std::vector<std::string>>;
KeyPlaces key_places(const nlohmann::ordered_json& schema);

/// Advice on a key that the mapping at `path` does not know: "it belongs in guest: guest.hugepages", or what
/// is allowed there, with the nearest word. Null: no places are known.
std::string key_advice(const std::string& key, const std::string& path,
                       const std::vector<std::string>& allowed, const KeyPlaces* places);

}  // namespace virtrain::harness
