#pragma once

#include <map>
#include <string>

#include "common/files/unique_fd.h"

namespace virtrain::harness {

/// Where `virtrain-rsh` finds the agent of its node: a path that connect() takes.
inline constexpr const char* rsh_socket_variable = "VIRTRAIN_AGENT_SOCKET";
/// Variable with the secret that a caller must know, beside being a process of this node.
inline constexpr const char* rsh_secret_variable = "VIRTRAIN_AGENT_SECRET";

/// The agent's end of mpirun's remote shell. Whoever is served here runs commands as the agent's user on
/// every node of the tenant, so the socket has no name that others could use: it is made in a folder of mode
/// 0700 and unlinked at once, and is reached through /proc/<agent>/fd, which the kernel opens only to
/// processes that could trace the agent. Nothing is left behind, however the agent ends.
class RshSocket {
 public:
  /// Throws Error.
  RshSocket();

  /// The listening socket; taken once.
  UniqueFd take_listener() { return std::move(listener_); }
  /// Variables by which the agent's children find it.
  std::map<std::string, std::string> environment() const;
  /// Whether the other end of `connection` is a process that this agent started, and of its user.
  static bool is_of_this_node(int connection);
  bool knows(const std::string& secret) const { return secret == secret_; }

 private:
  UniqueFd listener_;
  UniqueFd place_;  ///< the unlinked socket file
  std::string secret_;
};

}  // namespace virtrain::harness
