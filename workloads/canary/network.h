#pragma once

#include <netinet/in.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/unique_fd.h"
#include "common/model/canary_messages.h"

namespace virtrain::canary {

using Mac = std::array<std::uint8_t, 6>;

/// The network device of a node.
struct Interface {
  std::string name;
  int index = 0;
  Mac mac = {};
  in_addr address = {};
  std::optional<in6_addr> link_local;
};

/// The device that has this IPv4 address; waits a moment for its IPv6 link-local address, which comes later.
/// Throws Error(not_found).
Interface interface_with(const std::string& address);
/// Gives the device one more IPv4 address ("10.77.200.1", /16), beside the one that it has.
void add_address(const Interface& device, const std::string& address);

std::string mac_text(const Mac& mac);
std::string address_text(const in_addr& address);
std::string address_text(const in6_addr& address);
/// Throw Error(bad_input).
Mac parse_mac(const std::string& text);
in_addr parse_ipv4(const std::string& text);
in6_addr parse_ipv6(const std::string& text);

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

/// Asks every port with a SYN in a frame to the node's own MAC: so all ports take seconds, need no connection
/// of this kernel's each, and reach a node that does not answer ARP. Pure, but for what send() is given.
class PortScanner {
 public:
  /// Throws Error(bad_input) for what is no address. Without a link-local address of `device`, IPv6 targets
  /// have none of their ports asked.
  PortScanner(const Interface& device, const in_addr& source, const std::vector<ScanTarget>& targets);

  /// The next frame; empty: all have been asked as often as they are to be.
  std::string_view frame();
  /// The frame has been sent.
  void sent();
  bool is_done() const { return pass_ == passes; }
  /// Looks whether a frame that came is an answer.
  void take(std::string_view frame);
  std::vector<ScannedPorts> report() const;

  /// The first frames may come before a bridge forwards.
  static constexpr int passes = 2;

 private:
  struct Asked {
    ScanTarget target;
    std::string to;  ///< the address in network order: 4 or 16 bytes, as `from`
    std::string from;
    std::string ethernet;  ///< header
    std::size_t scanned = 0;
    std::map<std::uint16_t, bool> answers = {};  ///< whether it is open
  };
  std::string frame_to(const Asked& asked, std::uint16_t port) const;
  void skip_done();
  static std::uint16_t port_of(const Asked& asked, std::size_t index);
  static std::size_t port_count(const Asked& asked);

  std::vector<Asked> targets_;
  std::size_t target_ = 0, port_ = 0;
  int pass_ = 0;
  std::string frame_;
};

/// Longest time for a scan, where it needs more than the targets.
inline constexpr std::chrono::milliseconds scan_time{40'000};

/// Tries all targets at the same time, scans ports and listens for broadcast canaries all the while.
Reached try_to_reach(const ReachRequest& request);

}  // namespace virtrain::canary
