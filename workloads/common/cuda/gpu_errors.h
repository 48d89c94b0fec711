#pragma once

#include <string>

#include "common/error.h"

/// CUDA's failures in our words: what it means and what to do.
namespace virtrain {

/// The GPU has faulted in a kernel or broke: whatever this process asks of it from now on fails in the same
/// way.
class GpuFault : public Error {
 public:
  explicit GpuFault(const Error& error) : Error(error) {}
};

/// Error for a cudaError_t. Error(host_unable) where this host cannot train as it is, Error(busy) where
/// another process has the GPU, else Error(io).
Error gpu_error(const std::string& operation, int status);

/// Throws gpu_error unless the status is cudaSuccess; as GpuFault where it will last. CUDA keeps the failure
/// of a call until somebody asks for it, as a launch does to know of its own: it is taken away here.
void check_gpu(const std::string& operation, int status);

/// For calls whose failure changes nothing, where something is given back: takes it away as well.
void ignore_gpu(int status);

/// Message about what is missing where CUDA does not start: `driver_version` is what the driver supports
/// (13000; 0: no driver), `runtime_version` what this executable was built with.
std::string driver_words(int driver_version, int runtime_version);

/// Where the driver starts, but is older than the PTX that it has to compile for this GPU; a newer driver of
/// the same family may be needed than the least of driver_words.
std::string ptx_words(int driver_version, int runtime_version);

}  // namespace virtrain
