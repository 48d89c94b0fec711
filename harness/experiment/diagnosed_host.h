#pragma once

#include <vector>

#include "common/model/check.h"
#include "results/diagnosis/diagnosis.h"
#include "vmctl/api/inventory.h"

namespace virtrain::harness {

/// The host as `diagnose` takes it: its devices and cores, and what doctor's checks found.
results::DiagnosedHost diagnosed_host(const vmctl::Inventory& inventory, std::vector<Finding> checks);

}  // namespace virtrain::harness
