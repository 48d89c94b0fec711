#pragma once

#include <optional>
#include <string>
#include <vector>

#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// What a physical function needs so that it has all of these; nothing where they are there. Error(busy)
/// where it has some but not these: their number cannot be changed while they are there.
std::optional<Effect> virtual_functions_effect(const std::string& physical_function,
                                               const std::vector<std::string>& wanted);

}  // namespace virtrain::vmctl
