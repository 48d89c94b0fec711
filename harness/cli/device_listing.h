#pragma once

#include <nlohmann/json.hpp>

#include "results/tables/render.h"
#include "vmctl/api/leftover.h"

namespace virtrain::harness {

/// `doctor --devices` for people: a line for each device, below it what does not fit into one.
results::Table devices_table(const vmctl::DeviceListing& listing);
/// The same with every fact: a list of objects.
nlohmann::json devices_json(const vmctl::DeviceListing& listing);

}  // namespace virtrain::harness
