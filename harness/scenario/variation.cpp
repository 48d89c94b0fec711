#include "harness/scenario/variation.h"

#include <algorithm>

namespace virtrain::harness {
namespace {

constexpr FixedKey fixed_keys[] = {
    {"guest.image", "all VMs of a scenario boot the same image; compare two scenarios by --label instead"},
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

}  // namespace virtrain::harness
