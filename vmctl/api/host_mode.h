#pragma once

#include <boost/describe/class.hpp>

#include <string>

#include "common/enum_text.h"

namespace virtrain::vmctl {

using virtrain::to_string;

/// libvirt's system instance.
inline constexpr const char* system_libvirt = "qemu:///system";
/// A user's own, which libvirt starts.
inline constexpr const char* session_libvirt = "qemu:///session";
/// Connections that a user may name. An address of any other form can name a program that libvirt starts
/// ("?command=…") or a socket that somebody else listens on. The last one is libvirt's own mock-up.
inline constexpr const char* libvirt_connections[] = {system_libvirt, session_libvirt, "test:///default"};

/// Privileges of this process on a host, best first.
enum class HostMode {
  system,      ///< everything: libvirt's system instance, bridges, namespaces, cgroups, devices
  namespaces,  ///< a user namespace of its own: bridges and slices in it, VMs by a private libvirt daemon
  session,     ///< no namespaces: VMs by a private libvirt daemon, their network a loopback multicast group
};
VIRTRAIN_DESCRIBE_ENUM(HostMode, system, namespaces, session)

/// Effects that cannot be measured in that mode, for people; empty for `system`.
std::string what_it_lacks(HostMode mode);

/// Privileges of a host process. Children that leave nothing behind try each of them.
struct Privileges {
  std::string lacks_isolation;  ///< what failed when it made namespaces, mounts and a bridge; empty: nothing
  std::string lacks_user_namespaces;  ///< the same in a user namespace of its own
  bool is_root = false;
};
BOOST_DESCRIBE_STRUCT(Privileges, (), (lacks_isolation, lacks_user_namespaces, is_root))

/// The best mode that the privileges give.
HostMode best_mode(const Privileges& privileges);

/// Where members of group virtrain get a host process that is root: a unit of systemd's listens there and
/// starts a virtrain-host for each connection.
inline constexpr const char* group_socket = "/run/virtrain-host.socket";

}  // namespace virtrain::vmctl
