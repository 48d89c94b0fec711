#pragma once

#include <string_view>

// Arms and sweeps decode the scenario again with some of its keys laid over; here is with which they cannot.
namespace virtrain::harness {

/// A key below guest, devices or workload that neither arms nor sweeps vary.
struct FixedKey {
  std::string_view key, why;
};

/// The row that this key or one above it has; null: it may be varied.
const FixedKey* fixed_key(std::string_view key);

/// "guest.image" is at or below "guest.image" and "guest".
bool is_at_or_below(std::string_view key, std::string_view parent);

}  // namespace virtrain::harness
