#include "harness/job/programs.h"

#include <algorithm>
#include <set>

#include "common/contains.h"
#include "vmctl/api/payload.h"

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
        if (!tenant.workload.job->payload.empty()) { names.insert(vmctl::payload_program); }
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

AttachedNeeds needs_of_machines(const Plan& plan) {
  AttachedNeeds needs;
  for (const auto& placement : plan.placements) {
    if (!placement.is_attached) { continue; }
    for (const auto& tenant : placement.tenants) {
      const auto& job = tenant.workload.job;
      const bool by_mpirun = !job || job->launch == JobLaunch::mpirun;
      needs.mpirun = needs.mpirun || (by_mpirun && tenant.ranks() > 1);
      const bool in_first = job && job->launch == JobLaunch::once;
      for (std::size_t n = 0; n < (in_first ? 1 : tenant.nodes.size()); ++n) {
        auto& own = needs.of_machine[tenant.nodes[n].host];
        const auto payload = payload_of(tenant);
        if (!payload.empty()) { add_once(own.payloads, payload); }
        if (job && payload.empty()) { add_once(own.programs, job_words(tenant).front()); }
        if (!job && tenant.workload.backend == Backend::cuda) {
          own.gpus = std::max(own.gpus, tenant.gpus_per_node);
        }
      }
    }
  }
  return needs;
}

}  // namespace virtrain::harness
