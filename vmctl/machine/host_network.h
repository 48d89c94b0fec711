#pragma once

#include "vmctl/api/host_network.h"

namespace virtrain::vmctl {

/// As Host::look_at_network().
HostNetworkFacts read_host_network(const HostNetwork& network);

}  // namespace virtrain::vmctl
