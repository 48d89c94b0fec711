#include "harness/scenario/scenario.h"

#include <algorithm>

#include "common/contains.h"

namespace virtrain::harness {

bool has_arm(const Scenario& scenario, const std::string& base) {
  return std::any_of(scenario.arms.begin(), scenario.arms.end(),
                     [&](const Arm& arm) { return arm.base == base; });
}

bool boots_mirrors_only(const Scenario& scenario) {
  const auto is_mirror = [](const Case& one) { return one.guest.is_mirror(); };
  return scenario.guest.is_mirror() &&
         std::all_of(scenario.arms.begin(), scenario.arms.end(), [&](const Arm& arm) {
           return std::all_of(arm.cases.begin(), arm.cases.end(), is_mirror);
         });
}

bool is_gpu_probe(const std::string& probe) {
  return contains(gpu_probes, probe);
}

}  // namespace virtrain::harness
