#pragma once

#include <functional>

#include "workloads/probe/gpu/gpu.h"

namespace virtrain::probe {

/// "device_copy", "host_to_device", "device_to_host", "peer_copy".
std::vector<Figure> measure_gpu_copies(const std::string& probe, const GpuSetting& setting);

/// "gpu_gemm", with cuBLAS, which is loaded when it is wanted.
std::vector<Figure> measure_gpu_gemm(const GpuSetting& setting);

/// Seconds of one operation on the current GPU (repetitions.h), by its own clock: what the host needs to
/// start operations counts only where the GPU waits for it. `start` starts one in the default stream.
double best_gpu_seconds(int repetitions, const std::function<void()>& start);

}  // namespace virtrain::probe
