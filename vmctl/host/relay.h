#pragma once

namespace virtrain::vmctl {

/// Passes bytes between `in` and `out` and `group_socket`, for a launcher that reaches this host
/// as a user: the virtrain-host that systemd starts there is root. Ends when that one has ended, which
/// removes first what it had made; signals of a job that is cancelled are its coordinator's to hear. Throws
/// Error(io) where the socket cannot be reached.
void relay_to_group_socket(int in, int out);

}  // namespace virtrain::vmctl
