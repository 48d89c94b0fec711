#pragma once

#include <string>

#include "results/comparison/causes/probe_key.h"

namespace virtrain::results {

/// "in place SM", "tcp gdr-only": side, transport and settings, for people.
std::string side_words(const ProbeKey& key);

/// Whether people write the unit with a prefix: "GB/s".
bool takes_prefix(const std::string& unit);
/// "11.7 GB/s" of 11.7e9 B/s.
std::string figure_with_unit(double value, const std::string& unit);

}  // namespace virtrain::results
