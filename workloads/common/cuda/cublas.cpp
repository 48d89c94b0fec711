#include "workloads/common/cuda/cublas.h"

#include "common/error.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <string>

namespace virtrain {
namespace {

using Create = cublasStatus_t (*)(cublasHandle_t*);
using Destroy = cublasStatus_t (*)(cublasHandle_t);
using Multiply = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                    const void*, const void*, cudaDataType_t, int, const void*,
                                    cudaDataType_t, int, const void*, void*, cudaDataType_t, int,
                                    cublasComputeType_t, cublasGemmAlgo_t);

void check(cublasStatus_t status, const char* operation) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(operation, ErrorCode::host_unable, "cuBLAS says " + std::to_string(static_cast<int>(status)));
}

}  // namespace

template <typename Function>
Function Cublas::find(const char* name) const {
  void* const address = dlsym(library_, name);
  if (address == nullptr) throw Error("use cuBLAS", ErrorCode::host_unable, std::string("it has no ") + name);
  return reinterpret_cast<Function>(address);
}

Cublas::Cublas() {
  const std::string name = "libcublas.so." + std::to_string(CUDART_VERSION / 1000);
  for (const std::string& path : {name, std::string(VIRTRAIN_CUDA_LIBRARY_DIR "/") + name}) {
    if (library_ == nullptr) library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library_ == nullptr) throw Error("load " + name, ErrorCode::host_unable, dlerror());
  check(find<Create>("cublasCreate_v2")(&handle_), "start cuBLAS");
}

Cublas::~Cublas() {
  find<Destroy>("cublasDestroy_v2")(handle_);
}

void Cublas::multiply(int n, const void* a, const void* b, void* c, cudaDataType_t type,
                      cublasComputeType_t arithmetic) const {
  const float one = 1;
  const float zero = 0;
  // cuBLAS counts by columns: to it, row by row is C' = B' A'.
  check(find<Multiply>("cublasGemmEx")(handle_, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, type, n, a, type,
                                       n, &zero, c, CUDA_R_32F, n, arithmetic, CUBLAS_GEMM_DEFAULT),
        "multiply");
}

}  // namespace virtrain
