#pragma once

#include "common/error.h"

#include <string>

/// CUDA's failures in our words: what it means and what to do.
namespace virtrain::resnet50::cuda {

/// Of a cudaError_t. Error(host_unable) where this host cannot train as it is, Error(busy) where another
/// process has the GPU, else Error(io).
Error gpu_error(const std::string& operation, int status);

/// Throws gpu_error unless the status is cudaSuccess.
void check_gpu(const std::string& operation, int status);

/// What is missing where CUDA does not start: `driver_version` is what the driver supports (13000; 0: no
/// driver), `runtime_version` what this executable was built with.
std::string driver_words(int driver_version, int runtime_version);

}  // namespace virtrain::resnet50::cuda
