#include "common/error.h"
#include "workloads/stress/load.h"

namespace virtrain::stress {

std::unique_ptr<Load> make_gpu_load(const Flags& /*flags*/) {
  throw Error("load a GPU", ErrorCode::host_unable,
              "this build has no CUDA (install a CUDA toolkit and build again)");
}

}  // namespace virtrain::stress
