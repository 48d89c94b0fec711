#pragma once

#include <optional>
#include <string>

#include "common/enum_text.h"
#include "vmctl/api/host_mode.h"

namespace virtrain::harness {

using virtrain::to_string;

/// How a user who is not root gets a host process that is.
enum class Elevation {
  none,   ///< not at all: as root itself, or with the privileges of the user
  group,  ///< from the socket that members of group virtrain may use
  sudo,
};
VIRTRAIN_DESCRIBE_ENUM(Elevation, none, group, sudo)

using vmctl::group_socket;

/// The way that works without a question: none as root; else the group's socket where this user may use it,
/// and sudo where the user is of a group that administers this host and is asked for no password. `asked`:
/// this one, or Error(host_unable).
Elevation choose_elevation(std::optional<Elevation> asked);

/// Whether sudo could be had if the user on this terminal is asked for a password.
bool may_ask_for_sudo();
/// Asks on the terminal. Throws Error(host_unable) where sudo does not start virtrain-host.
void ask_for_sudo();

}  // namespace virtrain::harness
