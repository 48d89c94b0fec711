#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <bit>
#include <cstring>
#include <functional>

#include "workloads/common/cuda/cublas.h"
#include "workloads/common/cuda/gpu.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/probe/compute.h"
#include "workloads/probe/gpu.h"

namespace virtrain::probe {
namespace {

using Words = std::vector<std::uint32_t>;
constexpr std::uint64_t default_device_bytes = 1ULL << 30;
constexpr std::uint64_t default_host_bytes = 256ULL << 20;

std::size_t word_count(const GpuSetting& setting, std::uint64_t otherwise) {
  return static_cast<std::size_t>((setting.bytes > 0 ? setting.bytes : otherwise) / sizeof(std::uint32_t));
}

std::size_t size_of(const Words& words) {
  return words.size() * sizeof(std::uint32_t);
}

void transfer(void* to, const void* from, std::size_t bytes) {
  check_gpu("copy " + std::to_string(bytes) + " bytes", cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  check_gpu("wait for the copy", cudaDeviceSynchronize());
}

/// Seconds of one operation on the current GPU (figure.h), by its own clock: what the host needs to start
/// operations counts only where the GPU waits for it. `start` starts one in the default stream.
double best_gpu_seconds(int repetitions, const std::function<void()>& start) {
  const GpuEvent begin(GpuEvent::Timing::on), end(GpuEvent::Timing::on);
  return best_seconds(repetitions, [&](int times) {
    begin.record(nullptr);
    for (int k = 0; k < times; ++k) { start(); }
    end.record(nullptr);
    end.wait();
    return seconds_between(begin, end);
  });
}

double copy_seconds(int repetitions, void* to, const void* from, std::size_t bytes) {
  return best_gpu_seconds(
      repetitions, [=] { check_gpu("start a copy", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault)); });
}

/// Memory of the current GPU in which nothing lies that could pass for what arrives.
DeviceMemory cleared_device(std::size_t bytes) {
  DeviceMemory memory = allocate_device(bytes);
  check_gpu("clear the GPU's memory", cudaMemset(memory.get(), 0, bytes));
  check_gpu("wait for the GPU", cudaDeviceSynchronize());  // a copy from another GPU would not wait
  return memory;
}

/// A figure of `bytes` moved in `seconds`, counted once or, within one memory, twice.
Figure figure_of(const std::string& name, std::size_t bytes, double seconds, int times, std::int64_t wrong) {
  Figure figure;
  figure.name = name;
  figure.data_type = "byte";
  figure.size_bytes = bytes;
  figure.seconds = seconds;
  figure.value = static_cast<double>(bytes) * times / seconds;
  figure.unit = "B/s";
  figure.wrong = wrong;
  return figure;
}

Figure copy_within(const GpuSetting& setting) {
  const Words sent = pattern(word_count(setting, default_device_bytes), 1);
  const std::size_t bytes = size_of(sent);
  const DeviceMemory from = allocate_device(bytes);
  const DeviceMemory to = cleared_device(bytes);
  transfer(from.get(), sent.data(), bytes);
  const double seconds = copy_seconds(setting.repetitions, to.get(), from.get(), bytes);
  Words arrived(sent.size());
  transfer(arrived.data(), to.get(), bytes);
  return figure_of("device_copy", bytes, seconds, 2, wrong_words(sent, arrived));
}

/// Between the device and host memory at `host`, which has room for all.
Figure host_copy(const std::string& probe, const GpuSetting& setting, void* host, const Words& sent) {
  const std::size_t bytes = size_of(sent);
  const DeviceMemory device = cleared_device(bytes);
  Words arrived(sent.size());
  double seconds = 0;
  if (probe == "host_to_device") {
    std::memcpy(host, sent.data(), bytes);
    seconds = copy_seconds(setting.repetitions, device.get(), host, bytes);
    transfer(arrived.data(), device.get(), bytes);
  } else {
    transfer(device.get(), sent.data(), bytes);
    std::memset(host, 0, bytes);
    seconds = copy_seconds(setting.repetitions, host, device.get(), bytes);
    std::memcpy(arrived.data(), host, bytes);
  }
  return figure_of(probe, bytes, seconds, 1, wrong_words(sent, arrived));
}

std::vector<Figure> host_copies(const std::string& probe, const GpuSetting& setting) {
  const Words sent = pattern(word_count(setting, default_host_bytes), 2);
  Words pageable(sent.size());
  const PinnedMemory pinned = allocate_pinned(size_of(sent));
  std::vector<Figure> figures{host_copy(probe, setting, pageable.data(), sent),
                              host_copy(probe, setting, pinned.get(), sent)};
  figures[0].name += "_pageable";
  return figures;
}

/// Whether the GPUs were made to reach each other, else the driver copies through the host.
bool enable_peer(int from, int to) {
  int possible = 0;
  check_gpu("ask whether the GPUs reach each other", cudaDeviceCanAccessPeer(&possible, from, to));
  if (possible == 0) { return false; }
  check_gpu("use GPU " + std::to_string(from), cudaSetDevice(from));
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status != cudaErrorPeerAccessAlreadyEnabled) { check_gpu("let the GPUs reach each other", status); }
  ignore_gpu(status);
  return true;
}

Figure copy_to_peer(int from_gpu, int to_gpu, const GpuSetting& setting) {
  const bool direct = enable_peer(from_gpu, to_gpu);
  const Words sent = pattern(word_count(setting, default_host_bytes), 3);
  const std::size_t bytes = size_of(sent);
  use_gpu(to_gpu);
  const DeviceMemory to = cleared_device(bytes);
  use_gpu(from_gpu);
  const DeviceMemory from = allocate_device(bytes);
  transfer(from.get(), sent.data(), bytes);
  const double seconds = best_gpu_seconds(setting.repetitions, [&] {
    check_gpu("copy to another GPU", cudaMemcpyPeerAsync(to.get(), to_gpu, from.get(), from_gpu, bytes));
  });
  Words arrived(sent.size());
  use_gpu(to_gpu);
  transfer(arrived.data(), to.get(), bytes);
  Figure figure = figure_of("peer_copy", bytes, seconds, 1, wrong_words(sent, arrived));
  figure.where = peer_words(from_gpu, to_gpu, direct);
  figure.detail = {{"from", from_gpu}, {"to", to_gpu}, {"direct", direct}};
  return figure;
}

std::vector<Figure> peer_copies(const GpuSetting& setting) {
  int count = 0;
  check_gpu("look for a GPU", cudaGetDeviceCount(&count));
  std::vector<Figure> figures;
  for (int other = 0; other < count; ++other) {
    if (other == setting.gpu) { continue; }
    figures.push_back(copy_to_peer(setting.gpu, other, setting));
    figures.push_back(copy_to_peer(other, setting.gpu, setting));
  }
  return figures;
}

std::vector<Figure> measure_gpu_copies(const std::string& probe, const GpuSetting& setting) {
  if (probe == "device_copy") { return {copy_within(setting)}; }
  if (probe == "peer_copy") { return peer_copies(setting); }
  return host_copies(probe, setting);
}

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

/// With cuBLAS, which is loaded when it is wanted.
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

}  // namespace

std::vector<Figure> measure_gpu(const std::string& probe, const GpuSetting& setting) {
  use_gpu(setting.gpu);
  cudaDeviceProp properties{};
  check_gpu("ask the GPU for its properties", cudaGetDeviceProperties(&properties, setting.gpu));
  std::vector<Figure> figures =
      probe == "gpu_gemm" ? measure_gpu_gemm(setting) : measure_gpu_copies(probe, setting);
  for (Figure& figure : figures) {
    if (probe != "peer_copy") { figure.where = "GPU " + std::to_string(setting.gpu); }
    figure.detail["gpu"] = static_cast<const char*>(properties.name);
    figure.detail["pci_address"] = gpu_pci_address(setting.gpu);
    figure.detail["repetitions"] = setting.repetitions;
  }
  return figures;
}

}  // namespace virtrain::probe
