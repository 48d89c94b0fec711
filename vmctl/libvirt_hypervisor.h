#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "vmctl/hypervisor.h"

namespace virtrain::vmctl {

struct LibvirtDeadlines {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds query{5'000};     ///< state, stats, lists, link
  std::chrono::milliseconds create{60'000};   ///< domains and networks; QEMU's first capability probe is slow
  std::chrono::milliseconds destroy{40'000};  ///< libvirt itself waits 15 s between SIGTERM and SIGKILL
};

/// Connects to libvirt ("qemu:///system", "qemu:///session", …). Throws Error(host_unable) with libvirt's
/// words.
std::unique_ptr<Hypervisor> connect_libvirt(const std::string& uri, const LibvirtDeadlines& deadlines = {});

}  // namespace virtrain::vmctl
