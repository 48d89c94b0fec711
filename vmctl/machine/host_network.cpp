#include "vmctl/machine/host_network.h"

#include "common/error.h"

namespace virtrain::vmctl {

HostNetworkFacts read_host_network(const HostNetwork& network) {
  throw Error("look at network " + network.name, ErrorCode::host_unable, "not yet");
}

}  // namespace virtrain::vmctl
