#include "harness/job/programs.h"

#include <set>

namespace virtrain::harness {

std::string trainer_name(Backend backend) {
  return std::string("virtrain-resnet50-") + to_string(backend);
}

std::vector<std::string> needed_programs(const Scenario& scenario, const Plan& plan) {
  std::set<std::string> names;
  if (!plan.security.empty()) { names.insert(canary_program); }
  if (!scenario.probes.empty()) { names.insert(probe_program); }
  for (const auto& placement : plan.placements) {
    for (const auto& tenant : placement.tenants) {
      if (tenant.runs_job()) {
        if (!tenant.workload.job->payload.empty()) { names.insert(payload_program); }
        continue;
      }
      if (!tenant.neighbour) {
        names.insert(trainer_name(tenant.workload.backend));
      } else if (!tenant.neighbour->is_idle()) {
        names.insert(stress_program);
      }
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace virtrain::harness
