#pragma once

#include <string_view>

// Arms and sweeps decode the scenario again with some of its keys laid over; here is with which they cannot.
namespace virtrain::harness {

/// A key below guest, devices or workload that sweeps do not vary, and most of them arms neither.
struct FixedKey {
  std::string_view key, why;
  bool in_arms = true;
};

/// The row that this key or one above it has; null: a sweep may vary it.
const FixedKey* fixed_key(std::string_view key);
/// Likewise of what arms may not vary.
const FixedKey* fixed_in_arms(std::string_view key);

/// "guest.image" is at or below "guest.image" and "guest".
bool is_at_or_below(std::string_view key, std::string_view parent);

}  // namespace virtrain::harness
