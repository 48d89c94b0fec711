#pragma once

#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"

namespace virtrain::harness {

/// What backend cuda needs of this host, each as a sentence on what is wrong with it; empty: nothing is.
struct CudaHost {
  std::string trainer;       ///< virtrain-resnet50-cuda is not there, or lacks a library
  std::string host_driver;   ///< no driver of NVIDIA's is loaded, which bare metal trains with
  std::string guest_driver;  ///< mirror guests would get none
  std::string nccl;          ///< the trainer was built without it, which one rank alone does not need
};
CudaHost look_at_cuda_host();

/// What is wrong with a trainer that these libraries are linked to, for more than one rank; "": nothing.
std::string nccl_trouble(const std::vector<std::string>& linked);

/// Whether any tenant trains with backend cuda.
bool uses_cuda(const Plan& plan);

/// Why the scenario's tenants with backend cuda cannot train here: what their arms need of the host, and
/// planned devices that are not NVIDIA's. Pure.
std::vector<std::string> cuda_reasons(const Scenario& scenario, const Plan& plan, const CudaHost& host);

}  // namespace virtrain::harness
