#include <cstdlib>

#include "common/error.h"
#include "workloads/common/peers/peers.h"

namespace virtrain {

std::unique_ptr<Peers> join_peers() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
    throw Error("join the other ranks", ErrorCode::host_unable,
                "this build has no MPI (build without -DVIRTRAIN_MPI=OFF, or start it without mpirun)");
  }
  refuse_other_launchers();
  return std::make_unique<LonePeer>();
}

Error needs_ranks(const std::string& what, const std::string& /*command*/) {
  return Error(
      what, ErrorCode::host_unable,
      "this build has no MPI (install one, Debian: libopenmpi-dev, and build without -DVIRTRAIN_MPI=OFF)");
}

}  // namespace virtrain
