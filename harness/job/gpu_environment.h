#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace virtrain::harness {

/// nvidia-smi's command line for what visible_gpus() reads.
std::vector<std::string> gpu_uuid_query();

/// CUDA_VISIBLE_DEVICES for the GPUs at these addresses, in their order, from nvidia-smi's answer: on bare
/// metal a tenant's ranks would else take whichever GPUs the host has. Throws Error(trial_failed) for an
/// address that nvidia-smi does not know.
std::string visible_gpus(const std::string& answer, const std::vector<std::string>& addresses);

/// The part of the `which`th planned node in CUDA_VISIBLE_DEVICES of a node that stands for several.
std::string share_of_gpus(const std::string& visible, std::int64_t which, std::int64_t nodes);

/// Command line for the names of the RDMA devices of the adapters at these addresses.
std::vector<std::string> rdma_name_query(const std::vector<std::string>& addresses);

/// NCCL_IB_HCA for what it answers: "=mlx5_0,mlx5_1", these and no others. Throws Error(trial_failed) where
/// there is none.
std::string usable_adapters(const std::string& answer);

}  // namespace virtrain::harness
