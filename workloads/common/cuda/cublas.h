#pragma once

#include <cublas_v2.h>

#include <string>

namespace virtrain {

/// cuBLAS, loaded when it is wanted: it has hundreds of megabytes.
class Cublas {
 public:
  /// On the current GPU. Throws Error(host_unable).
  Cublas();
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// Starts C = A B of n x n matrices on the GPU, row by row: A and B of `type`, C of float. Throws
  /// Error(host_unable).
  void multiply(int n, const void* a, const void* b, void* c, cudaDataType_t type,
                cublasComputeType_t arithmetic) const;

 private:
  template <typename Function>
  Function find(const char* name) const;

  void* library_ = nullptr;
  cublasHandle_t handle_ = nullptr;
};

/// Loads libcublasLt, which cuDNN's engines open by name whatever they compute: where it is missing they end
/// the process, without a record. Looked for as the linker does, in the toolkit it was built with, and where
/// the library with `address` (a function of cuDNN's) looks beside itself. Throws Error(host_unable).
void load_cublas_lt(const void* address);

}  // namespace virtrain
