#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"

namespace virtrain::harness {

/// "virtrain-resnet50-cuda"
std::string trainer_name(Backend backend);

/// Programs of this build as the host sees them, and where they stand in a guest.
struct Programs {
  std::filesystem::path agent, rsh;
  std::filesystem::path probe;                        ///< empty where the scenario asks for no probes
  std::map<Backend, std::filesystem::path> trainers;  ///< those that the plan needs
  static constexpr const char* guest_rsh = "/usr/bin/virtrain-rsh";
  static constexpr const char* guest_probe = "/usr/bin/virtrain-probe";
  static std::string guest_trainer(Backend backend) { return "/usr/bin/" + trainer_name(backend); }
};

/// Those beside this program. Throws Error(not_found) where one is missing.
Programs find_programs(const Scenario& scenario, const Plan& plan);

}  // namespace virtrain::harness
