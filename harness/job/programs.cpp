#include "harness/job/programs.h"

#include "vmctl/process/paths.h"

namespace virtrain::harness {

std::string trainer_name(Backend backend) {
  return std::string("virtrain-resnet50-") + to_string(backend);
}

Programs find_programs(const Scenario& scenario, const Plan& plan) {
  Programs programs{vmctl::sibling_program("virtrain-agent"), vmctl::sibling_program("virtrain-rsh"), {}, {}};
  if (!scenario.probes.empty()) { programs.probe = vmctl::sibling_program("virtrain-probe"); }
  for (const auto& placement : plan.placements) {
    for (const auto& tenant : placement.tenants) {
      const auto backend = tenant.workload.backend;
      programs.trainers.emplace(backend, vmctl::sibling_program(trainer_name(backend)));
    }
  }
  return programs;
}

}  // namespace virtrain::harness
