#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/files/unique_fd.h"
#include "common/model/canary_messages.h"
#include "workloads/canary/interface.h"

namespace virtrain::canary {

/// Ethernet type of the frames in which a listener broadcasts its canary: for experiments in a local network.
inline constexpr std::uint16_t canary_frame_type = 0x88b5;

/// Services that a tenant's node offers for that long to whoever reaches it.
class Listener {
 public:
  /// Binds everything. Throws Error.
  explicit Listener(const ListenRequest& request);

  /// The address family vsock is there, and the port is bound.
  bool has_vsock() const { return vsock_; }
  const Interface& device() const { return device_; }
  /// Greets and broadcasts until the time is over.
  void serve();

 private:
  ListenRequest request_;
  Interface device_;
  std::vector<UniqueFd> listening_;
  UniqueFd raw_;
  bool vsock_ = false;
};

}  // namespace virtrain::canary
