#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/plan/devices/lack.h"
#include "harness/plan/plan.h"

namespace virtrain::harness {

/// So many VMs of different tenants get the device whose memory is searched, one after the other.
inline constexpr std::int64_t tenants_of_device = 4;

/// Whether the device may have an engine that the searches know how to program: an NVIDIA GPU, or a device of
/// no class, which virtrain-canary knows by its model or tells that it does not.
bool may_have_engine(const vmctl::PlacedDevice& device);

/// Adds the nodes of leak searches to the plan, small and without ranks: the same for each arm, and where
/// VMs get devices, one more VM with one of them, and where one of them has an engine, VMs of one or two
/// tenants with devices at once. They measure nothing, so that they may share cores.
void place_security(const Scenario& scenario, const vmctl::Inventory& inventory, bool emulated, Plan& plan,
                    std::vector<Lack>& problems, std::vector<Lack>& busy);

}  // namespace virtrain::harness
