#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <bit>

#include "workloads/common/cuda/cublas.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/cuda/gpu_handles.h"
#include "workloads/probe/gpu/gpu_copies.h"
#include "workloads/probe/host/gemm.h"

namespace virtrain::probe {
namespace {

/// Inputs are exact in every type, so only the order of the sums may differ.
constexpr double tolerance = 1e-4;

struct Kind {
  const char* name;  ///< as figures of the CPU name it, and "tf32"
  cudaDataType_t type;
  cublasComputeType_t arithmetic;
  int least_capability;  ///< 80 is 8.0
};

constexpr Kind kinds[] = {{"float", CUDA_R_32F, CUBLAS_COMPUTE_32F, 0},
                          {"tf32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 80},
                          {"bfloat16", CUDA_R_16BF, CUBLAS_COMPUTE_32F, 80},
                          {"float16", CUDA_R_16F, CUBLAS_COMPUTE_32F, 70}};

std::uint16_t short_bits(float value, cudaDataType_t type) {
  if (type == CUDA_R_16BF) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U); }
  return std::bit_cast<std::uint16_t>(__float2half(value));
}

DeviceMemory on_device(const std::vector<float>& values, cudaDataType_t type) {
  std::vector<std::uint16_t> narrow;
  const void* source = values.data();
  std::size_t bytes = values.size() * sizeof(float);
  if (type != CUDA_R_32F) {
    for (const float value : values) { narrow.push_back(short_bits(value, type)); }
    source = narrow.data();
    bytes = values.size() * sizeof(std::uint16_t);
  }
  DeviceMemory memory = allocate_device(bytes);
  check_gpu("copy a matrix to the GPU", cudaMemcpy(memory.get(), source, bytes, cudaMemcpyHostToDevice));
  return memory;
}

Figure measure(const Cublas& cublas, const Kind& kind, const GpuSetting& setting, const std::vector<float>& a,
               const std::vector<float>& b) {
  const int n = setting.gemm_size;
  const DeviceMemory device_a = on_device(a, kind.type);
  const DeviceMemory device_b = on_device(b, kind.type);
  std::vector<float> c(a.size());
  const DeviceMemory device_c = allocate_device(c.size() * sizeof(float));
  // Else the product of the kind before, whose memory this may be, could pass for ours.
  check_gpu("clear the product", cudaMemset(device_c.get(), 0, c.size() * sizeof(float)));
  const double seconds = best_gpu_seconds(setting.repetitions, [&] {
    cublas.multiply(n, device_a.get(), device_b.get(), device_c.get(), kind.type, kind.arithmetic);
  });
  check_gpu("copy the product to the host",
            cudaMemcpy(c.data(), device_c.get(), c.size() * sizeof(float), cudaMemcpyDeviceToHost));
  Figure figure = gemm_figure(kind.name, n, seconds, wrong_products(a, b, c, n, tolerance));
  figure.name = "gpu_gemm";
  return figure;
}

}  // namespace

std::vector<Figure> measure_gpu_gemm(const GpuSetting& setting) {
  cudaDeviceProp properties{};
  check_gpu("ask the GPU for its properties", cudaGetDeviceProperties(&properties, setting.gpu));
  const Cublas cublas;
  const auto elements =
      static_cast<std::size_t>(setting.gemm_size) * static_cast<std::size_t>(setting.gemm_size);
  const std::vector<float> a = random_matrix(elements, 1);
  const std::vector<float> b = random_matrix(elements, 2);
  std::vector<Figure> figures;
  for (const Kind& kind : kinds) {
    if (10 * properties.major + properties.minor < kind.least_capability) { continue; }
    figures.push_back(measure(cublas, kind, setting, a, b));
  }
  return figures;
}

}  // namespace virtrain::probe
