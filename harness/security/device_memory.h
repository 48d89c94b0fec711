#pragma once

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <string>
#include <vector>

#include "harness/security/canary_tool.h"
#include "harness/security/killed_run.h"
#include "harness/trial/run_context.h"

// Searches of data that one tenant leaves in the memory of a device for the next tenant that gets it.

namespace virtrain::harness {

/// By how the tenant before went.
inline constexpr const char* device_memory_search = "device_memory";
inline constexpr const char* killed_device_memory_search = "device_memory_killed";
inline constexpr const char* shutdown_device_memory_search = "device_memory_shutdown";
inline constexpr const char* killed_run_device_memory_search = "device_memory_run_killed";

/// Advice on a leak through that path in the guest: a disk, or a memory region.
std::string cure_for(const vmctl::DeviceGrant& grant, const std::string& path);

/// Evidence of the next tenant: how much the one before had filled, how much of its canary was found, and
/// whether the next tenant's own canary, which it wrote and searched for by the same means, was found.
LeakEvidence device_evidence(const vmctl::PlacedDevice& device, const canary::Filled& filled,
                             const canary::Searched& search, bool found_own);

/// Four VMs, one after the other, get the device of the placement's only node: the first searches it for what
/// a killed run has left, fills it and is torn down, the second searches it, fills it and is killed (kill
/// -9), the third searches it, fills it and shuts its guest down, the fourth searches it. `done` gets the
/// record of each search. Throws what ended them early.
asio::awaitable<void> run_device_searches(RunContext& context, const Placement& placement,
                                          const SecurityOptions& options,
                                          std::function<void(results::LeakSearch)> done);

}  // namespace virtrain::harness
