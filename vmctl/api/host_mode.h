#pragma once

#include <string>

#include "common/enum_text.h"

namespace virtrain::vmctl {

using virtrain::to_string;

/// libvirt's system instance.
inline constexpr const char* system_libvirt = "qemu:///system";
/// A user's own, which libvirt starts.
inline constexpr const char* session_libvirt = "qemu:///session";
/// What a user may name: an address of any other form can name a program that libvirt starts
/// ("?command=…") or a socket that somebody else listens on. The last one is libvirt's own mock-up.
inline constexpr const char* libvirt_connections[] = {system_libvirt, session_libvirt, "test:///default"};

/// What a host lets this process do, best first.
enum class HostMode {
  system,      ///< everything: libvirt's system instance, bridges, namespaces, cgroups, devices
  namespaces,  ///< a user namespace of its own: bridges and slices in it, VMs by a private libvirt daemon
  session,     ///< no namespaces: VMs by a private libvirt daemon, their network a loopback multicast group
};
VIRTRAIN_DESCRIBE_ENUM(HostMode, system, namespaces, session)

/// What cannot be shown in that mode, for people; empty for `system`.
std::string what_it_lacks(HostMode mode);

/// What this process may do, found out by doing it in children that leave nothing behind.
struct Privileges {
  std::string lacks_isolation;  ///< what failed when it made namespaces, mounts and a bridge; empty: nothing
  std::string lacks_user_namespaces;  ///< the same in a user namespace of its own
};

/// The best mode that the privileges give.
HostMode best_mode(const Privileges& privileges);

}  // namespace virtrain::vmctl
