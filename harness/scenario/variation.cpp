#include "harness/scenario/variation.h"

#include <algorithm>

namespace virtrain::harness {
namespace {

constexpr FixedKey fixed_keys[] = {
    {"guest.image", "write an arm for each image instead", false},
    {"devices.kind", "the arms of a pair run on the same devices"},
    {"devices.select", "the arms of a pair run on the same devices"},
};

}  // namespace

bool is_at_or_below(std::string_view key, std::string_view parent) {
  return key == parent || (key.starts_with(parent) && key[parent.size()] == '.');
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

}  // namespace virtrain::harness
