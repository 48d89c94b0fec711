#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// A field of an effect's state, as its handler has journalled it. Throws Error(io) where it has none.
nlohmann::json state_field(const Effect& effect, const char* name);
std::string state_text(const Effect& effect, const char* name);

}  // namespace virtrain::vmctl
