#pragma once

#include <boost/describe/class.hpp>

#include <cstdint>
#include <string>

#include "common/enum_text.h"
#include "common/model/described.h"

namespace virtrain::vmctl {

using virtrain::to_string;

/// By what nodes of one tenant on several hosts reach each other. none: they do not, the host is the only
/// one. bridge: they are plugged into a bridge that is there. vxlan: the bridge of each tenant has a tunnel
/// to the other hosts, over a NIC that is there.
VIRTRAIN_ENUM_CLASS(HostNetworkKind, none, bridge, vxlan)

/// The device that a host gives for it. Nothing is changed of what has that name.
struct HostNetwork {
  bool operator==(const HostNetwork&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(HostNetworkKind, kind, HostNetworkKind::none,
                 .text =
                     "By what nodes on several hosts reach each other: an existing bridge, or a VXLAN "
                     "for each tenant over a NIC",
                 .key = "kind");
  VIRTRAIN_FIELD(std::string, name, {}, .text = "That bridge, or the NIC that carries the VXLAN",
                 .key = "name", .example = "br-data");
};

/// A bridge or NIC as the host has it.
struct HostNetworkFacts {
  std::string address;   ///< of the NIC, "192.0.2.7" or "2001:db8::7", where tunnels end; of a bridge empty
  std::int64_t mtu = 0;  ///< that nodes have there: of the bridge, or of the NIC without VXLAN's own 50 bytes
  std::string driver;    ///< of the NIC, or of the NICs in the bridge
  std::string firmware;  ///< likewise, as ethtool has it; empty: unknown
  std::string link_speed;  ///< "100000 Mb/s"; empty: unknown
};
BOOST_DESCRIBE_STRUCT(HostNetworkFacts, (), (address, mtu, driver, firmware, link_speed))

/// Bytes that a VXLAN adds to each packet, over IPv4 and over IPv6.
inline constexpr std::int64_t vxlan_bytes = 50, vxlan_bytes_ipv6 = 70;

}  // namespace virtrain::vmctl
