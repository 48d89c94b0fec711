#include "common/error.h"
#include "workloads/probe/exchange.h"

namespace virtrain::probe {

std::unique_ptr<Exchange> make_nccl_exchange(Peers& /*peers*/, int /*first_gpu*/) {
  throw Error("measure NCCL", ErrorCode::host_unable,
              VIRTRAIN_NO_NCCL " and build again, or name other probes with --probe)");
}

}  // namespace virtrain::probe
