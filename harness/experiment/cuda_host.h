#pragma once

#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"
#include "vmctl/api/evidence.h"

namespace virtrain::harness {

/// Why a trainer that is linked to these libraries cannot run more than one rank; "": it can.
std::string nccl_trouble(const std::vector<std::string>& linked);

/// Whether any tenant trains with backend cuda.
bool uses_cuda(const Plan& plan);

/// Why the scenario's tenants with backend cuda cannot train here: what their arms need of the host, and
/// planned devices that are not NVIDIA's. Pure.
std::vector<std::string> cuda_reasons(const Scenario& scenario, const Plan& plan,
                                      const vmctl::CudaHost& host);

}  // namespace virtrain::harness
