#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "workloads/probe/figure.h"

namespace virtrain::probe {

struct GpuSetting {
  int gpu = 0;              ///< CUDA's number of it
  std::uint64_t bytes = 0;  ///< of one copy; 0: 1 GiB within the device, else 256 MiB
  int repetitions = 10;     ///< of some 20 ms; the best counts, the first never
  int gemm_size = 4096;     ///< rows and columns of each matrix
};

/// One of gpu_probes (flags.h): "gpu_gemm", whose figures are named gemm, in every precision that the GPU
/// multiplies in; "device_copy" within its memory (what is read and what is written counts); "host_to_device"
/// and "device_to_host" with page-locked memory, and with pageable memory as host_to_device_pageable, …;
/// "peer_copy" to every other GPU and back, over whatever way the driver takes; nothing where there is no
/// other. All are timed by the GPU's
/// clock, and all that arrives is compared with what was sent. Throws Error(host_unable) without a GPU, or in
/// a build without CUDA.
std::vector<Figure> measure_gpu(const std::string& probe, const GpuSetting& setting);

/// "GPU 0->1 direct", or "GPU 0->1 through the host".
std::string peer_words(int from, int to, bool direct);

/// Words of two buffers that differ.
std::int64_t wrong_words(const std::vector<std::uint32_t>& sent, const std::vector<std::uint32_t>& arrived);

/// Words without a pattern: a copy that swaps, repeats or drops pages shows.
std::vector<std::uint32_t> pattern(std::size_t words, std::uint32_t seed);

}  // namespace virtrain::probe
