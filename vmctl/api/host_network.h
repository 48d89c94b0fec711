#pragma once

#include <boost/describe/class.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "common/model/described.h"
#include "vmctl/api/pci.h"

namespace virtrain::vmctl {

using virtrain::to_string;

/// Whether it may be the name of a bridge or NIC that a user gives.
bool is_device_name(const std::string& text);
inline constexpr MeantWord meant_networks[] = {
    {"adapter",
     "nodes cannot talk over whole Ethernet adapters; use vf, vxlan or bridge, and devices.nics for RDMA "
     "adapters"},
    {"none", "a host that is the only one needs no network; leave the key out"},
    {"macvtap", "macvtap is not supported; vxlan works over any NIC"}};

/// By what nodes of one tenant on several hosts reach each other. none: they do not, the host is the only
/// one. bridge: they are plugged into a bridge that is there. vxlan: the bridge of each tenant has a tunnel
/// to the other hosts, over a NIC that is there. vf: each has a virtual function of a NIC that is there.
VIRTRAIN_ENUM_CLASS(HostNetworkKind, none, bridge, vxlan, vf)

/// NodeFacts::network_medium of nodes whose eth0 is a virtual function.
inline constexpr const char* network_by_functions = "vf";

/// Whether all tenants are on one Ethernet of somebody else's.
constexpr bool shares_ethernet(HostNetworkKind kind) {
  return kind == HostNetworkKind::bridge || kind == HostNetworkKind::vf;
}

/// The device that a host gives for it. Nothing is changed of what has that name.
struct HostNetwork {
  bool operator==(const HostNetwork&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(HostNetworkKind, kind, HostNetworkKind::none,
                 .text =
                     "By what nodes on several hosts reach each other: a bridge that the host has, a "
                     "VXLAN for each tenant over one of its NICs, or virtual functions of one of its NICs",
                 .key = "kind", .required = true, .meant = meant_networks, .example = "bridge");
  VIRTRAIN_FIELD(
      std::string, name, {},
      .text =
          "Name of that bridge, or of the NIC that carries the VXLAN or has the virtual functions (the "
          "physical function's own interface); nothing of it is changed",
      .key = "name", .most = 4096, .required = true, .pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$",
      .fits = is_device_name,
      .refusal = "is not the name of a bridge or NIC (allowed: such as br-data, as ip link shows it)",
      .example = "br-data");
};

/// A bridge or NIC as the host has it.
struct HostNetworkFacts {
  std::string
      address;  ///< of the NIC, "192.0.2.7" or "2001:db8::7", where tunnels end; a bridge may have none
  std::int64_t mtu = 0;  ///< that nodes have there: of the bridge, or of the NIC without VXLAN's own 50 bytes
  std::string driver;    ///< of the NIC, or of the NICs in the bridge
  std::string firmware;  ///< likewise, as ethtool has it; empty: unknown
  std::string link_speed;  ///< "100000 Mb/s"; empty: unknown
  /// How many virtual functions the NIC of a network of kind vf can have, and has.
  std::int64_t functions_possible = 0, functions = 0;
  std::vector<std::string> free_functions = {};  ///< addresses of those that nobody uses
};
BOOST_DESCRIBE_STRUCT(HostNetworkFacts, (),
                      (address, mtu, driver, firmware, link_speed, functions_possible, functions,
                       free_functions))

/// Why that function, a NIC's whose interface is `nic`, has no virtual functions; empty: it can have some.
std::string why_no_functions(const std::string& nic, const PciFunction& function);
/// The command by which root makes a NIC's virtual functions, none of which may be in use.
std::string command_for_functions(const std::string& nic, std::int64_t functions, bool has_some);

/// Bytes that a VXLAN adds to each packet, over IPv4 and over IPv6.
inline constexpr std::int64_t vxlan_bytes = 50, vxlan_bytes_ipv6 = 70;

}  // namespace virtrain::vmctl
