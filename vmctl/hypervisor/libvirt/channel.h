#pragma once

#include <string>

#include "common/files/unique_fd.h"
#include "vmctl/hypervisor/libvirt/handles.h"

namespace virtrain::vmctl {

/// Opens the named virtio-serial port of a running domain as a byte stream on a socket. Either side's end
/// closes the other. Blocks as libvirt does: call it inside with_deadline().
UniqueFd open_libvirt_channel(const ConnectionHandle& connection, const std::string& domain,
                              const std::string& port);

}  // namespace virtrain::vmctl
