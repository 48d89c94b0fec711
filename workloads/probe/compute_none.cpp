#include "common/error.h"
#include "workloads/probe/compute.h"

namespace virtrain::probe {

std::vector<Figure> measure_gemm(int /*n*/, int /*repetitions*/) {
  throw Error("measure gemm", ErrorCode::host_unable,
              "this build has no oneDNN (install it and build again, or name other probes with --probe)");
}

std::vector<Figure> measure_convolutions(const ConvolutionSetting& /*setting*/) {
  throw Error("measure convolutions", ErrorCode::host_unable,
              "this build has no oneDNN (install it and build again, or name other probes with --probe)");
}

}  // namespace virtrain::probe
