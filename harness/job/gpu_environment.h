#pragma once

#include <string>
#include <vector>

namespace virtrain::harness {

/// nvidia-smi's command line for what visible_gpus() reads.
std::vector<std::string> gpu_uuid_query();

/// CUDA_VISIBLE_DEVICES for the GPUs at these addresses, in their order, from nvidia-smi's answer: on bare
/// metal a tenant's ranks would else take whichever GPUs the host has. Throws Error(trial_failed) for an
/// address that nvidia-smi does not know.
std::string visible_gpus(const std::string& answer, const std::vector<std::string>& addresses);

}  // namespace virtrain::harness
