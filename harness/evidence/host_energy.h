#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "vmctl/api/evidence.h"

namespace virtrain::harness {

/// Energy between two times, by lines between the readings; nothing where they do not cover both.
std::optional<double> joules_between(const std::vector<vmctl::EnergyReading>& readings, std::int64_t begin_ns,
                                     std::int64_t end_ns);

}  // namespace virtrain::harness
