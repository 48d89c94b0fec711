#pragma once

#include <filesystem>

#include "harness/scenario/scenario.h"
#include "vmctl/machine/inventory.h"

namespace virtrain::harness {

/// What plans are made from: the host's inventory, where the scenario has devices with their users, and of
/// this host ("/") also with what its journal withholds. Throws Error(bad_input).
vmctl::Inventory host_inventory(const Scenario& scenario, const std::filesystem::path& root);

}  // namespace virtrain::harness
