#pragma once

#include "vmctl/api/evidence.h"
#include "vmctl/api/host_network.h"

namespace virtrain::vmctl {

/// As Host::look_at_network(). Changes nothing. Of kind none there is nothing to look at.
HostNetworkFacts read_host_network(const HostNetwork& network);

/// Addresses of this network namespace.
HostAddresses read_addresses();

}  // namespace virtrain::vmctl
