#pragma once

#include <string>

#include "workloads/common/peers/peers.h"

namespace virtrain {

/// Makes it the current GPU; Error(host_unable) where there is none of that number.
void use_gpu(int gpu);
/// Makes the GPU of this rank (gpu_of_rank.h) the current one, and returns its number.
int use_gpu_of_rank(int first);
/// The same, by all ranks: Error(host_unable) where two of them have one GPU.
int use_own_gpu(Peers& peers, int first);

/// "0000:19:00.0", in small letters, as Linux writes it.
std::string gpu_pci_address(int gpu);
/// "GPU-6ba7b810-9dad-11d1-80b4-00c04fd430c8", as nvidia-smi -L writes it; of a MIG device, its own.
std::string gpu_uuid(int gpu);

}  // namespace virtrain
