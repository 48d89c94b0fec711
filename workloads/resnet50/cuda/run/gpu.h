#pragma once

#include <cstdint>
#include <string>

#include "workloads/common/peers/peers.h"

/// The GPU of this rank.
namespace virtrain::resnet50::cuda {

struct Gpu {
  int index = 0;
  std::string name;
  std::string pci_address;     ///< "0000:19:00.0"
  int compute_capability = 0;  ///< 90
  int driver_version = 0;      ///< what CUDA the driver serves: 13000
  int runtime_version = 0;
  std::int64_t free_bytes = 0, total_bytes = 0;
};

/// Takes the GPU of this rank (workloads/common/gpu/gpu_of_rank.h), by all ranks. Throws Error in words that
/// say what is missing.
Gpu take_gpu(Peers& peers);

}  // namespace virtrain::resnet50::cuda
