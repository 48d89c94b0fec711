#include "workloads/common/cuda/cublas.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"
#include "workloads/common/shared_library.h"

namespace virtrain {
namespace {

using Create = cublasStatus_t (*)(cublasHandle_t*);
using Destroy = cublasStatus_t (*)(cublasHandle_t);
using Multiply = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                    const void*, const void*, cudaDataType_t, int, const void*,
                                    cudaDataType_t, int, const void*, void*, cudaDataType_t, int,
                                    cublasComputeType_t, cublasGemmAlgo_t);

void check(cublasStatus_t status, const char* operation) {
  if (status == CUBLAS_STATUS_SUCCESS) { return; }
  throw Error(operation, ErrorCode::host_unable, "cuBLAS says " + std::to_string(static_cast<int>(status)));
}

/// Loads the library of this toolkit's version.
void* load(const std::string& library, const std::vector<std::string>& folders) {
  return load_library(library + ".so." + std::to_string(CUDART_VERSION / 1000), folders,
                      "install the toolkit's cuBLAS");
}

}  // namespace

template <typename Function>
Function Cublas::find(const char* name) const {
  void* const address = dlsym(library_, name);
  if (address == nullptr) {
    throw Error("use cuBLAS", ErrorCode::host_unable, std::string("it has no ") + name);
  }
  return reinterpret_cast<Function>(address);
}

Cublas::Cublas() {
  library_ = load("libcublas", {VIRTRAIN_CUDA_LIBRARY_DIR});
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

void load_cublas_lt(const void* address) {
  std::vector<std::string> folders{VIRTRAIN_CUDA_LIBRARY_DIR};
  Dl_info info{};
  if (dladdr(address, &info) != 0 && info.dli_fname != nullptr) {
    const std::filesystem::path folder = std::filesystem::path(info.dli_fname).parent_path();
    const std::string toolkit = "../../cu" + std::to_string(CUDART_VERSION / 1000) + "/lib";
    for (const std::string& beside : {std::string("."), std::string("../../cublas/lib"), toolkit}) {
      folders.push_back((folder / beside).lexically_normal());
    }
  }
  load("libcublasLt", folders);
}

}  // namespace virtrain
