#pragma once

namespace virtrain::vmctl {

/// Where members of group virtrain get a host process that is root: a unit of systemd's listens there and
/// starts a virtrain-host for each connection.
inline constexpr const char* group_socket = "/run/virtrain-host.socket";

}  // namespace virtrain::vmctl
