#pragma once

#include <string>

namespace virtrain {

/// Makes it the current GPU; Error(host_unable) where there is none of that number.
void use_gpu(int gpu);
/// Makes the GPU of this rank (gpu_of_rank.h) the current one, and returns its number.
int use_gpu_of_rank(int first);

/// "0000:19:00.0", in small letters, as Linux writes it.
std::string gpu_pci_address(int gpu);

}  // namespace virtrain
