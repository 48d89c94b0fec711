#pragma once

#include <cublas_v2.h>

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

}  // namespace virtrain
