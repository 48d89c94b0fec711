#pragma once

#include <memory>

#include "harness/hosts/launcher.h"
#include "vmctl/api/host.h"

namespace virtrain::harness {

/// The host at the other end; starting it is done. Calls may be made from several threads.
std::unique_ptr<vmctl::Host> host_client(HostProcess process);

/// This machine, or a recorded one.
std::unique_ptr<vmctl::Host> local_host(const HostRequest& request);

}  // namespace virtrain::harness
