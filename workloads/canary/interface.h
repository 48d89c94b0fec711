#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

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

}  // namespace virtrain::canary
