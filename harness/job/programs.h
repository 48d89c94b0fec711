#pragma once

#include <string>
#include <vector>

#include "harness/hosts/attached_host.h"
#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"

namespace virtrain::harness {

inline constexpr const char* probe_program = "virtrain-probe";
inline constexpr const char* stress_program = "virtrain-stress";
inline constexpr const char* canary_program = "virtrain-canary";
/// "virtrain-resnet50-cuda"
std::string trainer_name(Backend backend);

/// Those that the plan's nodes need beside the agent, by name.
std::vector<std::string> needed_programs(const Scenario& scenario, const Plan& plan);

/// Parts of the machines that its arms attach, which the plan's ranks use.
AttachedNeeds needs_of_machines(const Plan& plan);

}  // namespace virtrain::harness
