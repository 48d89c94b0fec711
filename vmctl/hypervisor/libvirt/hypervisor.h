#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "vmctl/hypervisor/hypervisor.h"

namespace virtrain::vmctl {

struct LibvirtDeadlines {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds query{5'000};  ///< state, stats, lists, link
  /// The first question for QEMU's version and the first start of a domain make libvirt look at QEMU:
  /// seconds, but on a busy machine whose /dev/kvm does not work more than a minute was seen.
  std::chrono::milliseconds version{150'000};
  std::chrono::milliseconds create{150'000};  ///< domains and networks
  std::chrono::milliseconds destroy{40'000};  ///< libvirt itself waits 15 s between SIGTERM and SIGKILL
};

/// libvirt answers once QEMU has pinned the guest's memory.
std::chrono::milliseconds create_deadline(const LibvirtDeadlines& deadlines, const DomainSpec& spec);

/// Connects to libvirt ("qemu:///system", "qemu:///session", …). Throws Error(host_unable) with libvirt's
/// words.
std::unique_ptr<Hypervisor> connect_libvirt(const std::string& uri, const LibvirtDeadlines& deadlines = {});

}  // namespace virtrain::vmctl
