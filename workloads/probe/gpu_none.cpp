#include "common/error.h"
#include "workloads/probe/gpu.h"

namespace virtrain::probe {

std::vector<Figure> measure_gpu(const std::string& probe, const GpuSetting& /*setting*/) {
  throw Error("measure " + probe, ErrorCode::host_unable,
              "this build has no CUDA (install a CUDA toolkit and build again, or name other probes with "
              "--probe)");
}

}  // namespace virtrain::probe
