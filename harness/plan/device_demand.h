#pragma once

#include <vector>

#include "harness/plan/plan.h"
#include "vmctl/api/device_demand.h"

namespace virtrain::harness {

/// Demands of a plan's placements on the host's devices, for the doctor; placements without devices are left
/// out. Pure.
std::vector<vmctl::DeviceDemand> device_demands(const Plan& plan, const Scenario& scenario);

/// Address bits of the guest's CPU where its model has a name; 0: as the host's.
int own_address_bits(const Guest& guest);

/// Whether an arm of the scenario gives its devices to VMs.
bool lends_to_vms(const Scenario& scenario);

}  // namespace virtrain::harness
