#include "common/error.h"
#include "workloads/probe/lone_peer.h"

#include <cstdlib>

namespace virtrain::probe {

std::unique_ptr<Peers> join_peers() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
    throw Error("join the other ranks", ErrorCode::host_unable,
                "this build has no MPI (build without -DVIRTRAIN_MPI=OFF, or start it without mpirun)");
  }
  return std::make_unique<LonePeer>();
}

}  // namespace virtrain::probe
